"""The facts of a model at the hub: its config and the headers of its weights, by ranged requests alone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from core.errors import UnreadableModel
from core.formats.safetensors_header import TensorFacts, parse_header
from core.hub.client import HubClient
from core.hub.listing import Listing, list_model
from core.hub.remote import read_json, safetensors_header
from core.hub.settings import HubSettings
from core.pairs.facts import ModelFacts

_AT_ONCE = 4


class HubFacts:
    """A `FactsReader` for a thread without an event loop. Raises as `list_model` and `read_range` do."""

    def __init__(self, settings: HubSettings) -> None:
        self._settings = settings

    def __call__(self, repo: str, revision: str) -> ModelFacts:
        """The facts of `repo` at `revision`; its tokenizer is not read."""
        return asyncio.run(hub_facts(self._settings, repo, revision))


async def hub_facts(settings: HubSettings, repo: str, revision: str) -> ModelFacts:
    """The facts of `repo` at `revision`; its tokenizer is not read. Raises as `list_model` and `read_range` do."""
    async with HubClient(settings) as hub:
        listing = await list_model(hub, repo, revision)
        config = await read_json(hub, repo, listing.commit, "config.json")
        if not isinstance(config, dict):
            raise UnreadableModel(
                f"config.json of {repo} is no JSON object.", "Choose another model.", repr(config)[:80]
            )
        tensors = await _tensors(hub, listing)
    return ModelFacts(repo, config, tensors, gated=listing.gated)


async def _tensors(hub: HubClient, listing: Listing) -> dict[str, TensorFacts]:
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def header(name: str) -> dict[str, Any]:
        async with at_once:
            return await safetensors_header(hub, listing.repo, listing.commit, name)

    names = [file.name for file in listing.files if file.name.endswith(".safetensors") and "/" not in file.name]
    if not names:
        raise UnreadableModel(
            f"{listing.repo} has no weights in safetensors files.", "Models for MLX have them.", f"{listing.commit}"
        )
    headers = await asyncio.gather(*(header(name) for name in names))
    tensors: dict[str, TensorFacts] = {}
    for name, entries in zip(names, headers, strict=True):
        tensors |= await asyncio.to_thread(parse_header, msgspec.json.encode(entries), name)
    return tensors
