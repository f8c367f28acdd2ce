"""What the hub finds for a text: models with what their owners say of them. No file of theirs is read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from core.errors import TransferStalled
from core.hub.client import HubClient, unreadable
from core.hub.retry import RetryPolicy, patiently
from core.hub.settings import HubSettings

TIME_LIMIT_S = 10.0
"""For a search, whatever the network does: somebody waits for it."""
MOST_FOUND = 20
_ONCE = RetryPolicy(attempts=1)
_EXPANDED = ("config", "gated", "safetensors", "downloads", "tags")


class HubModel(msgspec.Struct, frozen=True):
    """A model as the hub lists it. What a mirror leaves out is empty."""

    repo: str
    architectures: tuple[str, ...] = ()
    model_type: str = ""
    has_safetensors: bool | None = None
    """None where the hub does not say."""
    gated: bool = False
    downloads: int = 0
    """Within the last month."""


class _Found(msgspec.Struct):
    id: str
    config: dict[str, Any] | None = None
    gated: bool | str = False
    safetensors: dict[str, Any] | None = None
    downloads: int = 0
    tags: Sequence[str] | None = None


async def search_models(settings: HubSettings, text: str, limit: int = MOST_FOUND) -> tuple[HubModel, ...]:
    """The models whose names have the words of `text`, those that are downloaded most first.

    Raises as `HubClient.get` does (`HubOffline` among it), and `TransferStalled` after `TIME_LIMIT_S`.
    """
    query = [("search", text), ("sort", "downloads"), ("limit", str(limit))]
    path = f"/api/models?{urlencode([*query, *(('expand', each) for each in _EXPANDED)])}"
    try:
        async with asyncio.timeout(TIME_LIMIT_S), HubClient(settings) as hub:
            answer = await patiently(lambda: hub.get(path), _ONCE)
    except TimeoutError as error:
        raise TransferStalled(
            f"{settings.endpoint} has not answered within {TIME_LIMIT_S:.0f} seconds.", "Search again later.", path
        ) from error
    try:
        found = await asyncio.to_thread(msgspec.json.decode, answer, type=list[_Found])
    except (msgspec.DecodeError, RecursionError) as error:
        raise unreadable(settings.endpoint, f"{path}: {error}") from error
    return tuple(_model(each) for each in found[:limit])


def _model(found: _Found) -> HubModel:
    config = found.config or {}
    architectures, model_type = config.get("architectures"), config.get("model_type")
    known = found.safetensors is not None or found.tags is not None
    return HubModel(
        repo=found.id,
        architectures=tuple(map(str, architectures)) if isinstance(architectures, list) else (),
        model_type=model_type if isinstance(model_type, str) else "",
        has_safetensors=(found.safetensors is not None or "safetensors" in (found.tags or ())) if known else None,
        gated=bool(found.gated),
        downloads=found.downloads,
    )
