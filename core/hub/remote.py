"""Reading a model's small files and the heads of its large ones at the hub, without a download.

A file that the cache holds is read there, so that all this works offline for models that are here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from core.errors import UnreadableModel
from core.hub.cache import snapshot_file
from core.hub.client import HubClient, unreadable
from core.hub.retry import patiently

MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 25 * 1024 * 1024
_FIRST_BYTES = 128 * 1024  # holds the header of most models, so that one request is enough
_LENGTH_BYTES = 8


def file_url(endpoint: str, repo: str, commit: str, name: str) -> str:
    """Where the hub serves a file's content."""
    return f"{endpoint}/{repo}/resolve/{commit}/{quote(name)}"


async def read_range(hub: HubClient, repo: str, commit: str, name: str, start: int, length: int) -> bytes:
    """Up to `length` bytes of a file from `start` on; fewer where it ends. Raises as `HubClient.open` does."""
    here = snapshot_file(hub.settings.cache_dir, repo, commit, name)
    if await asyncio.to_thread(here.is_file):
        return await asyncio.to_thread(_read_here, here, start, length)
    url = file_url(hub.settings.endpoint, repo, commit, name)
    return await patiently(lambda: _read_there(hub, url, start, length), hub.patience)


def _read_here(path: Path, start: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(length)


async def _read_there(hub: HubClient, url: str, start: int, length: int) -> bytes:
    body = bytearray()
    async with hub.open(url, f"{start}-{start + length - 1}") as answer:
        if answer.status == 416:
            return b""  # it ends before `start`
        if answer.status != 206 and start:
            raise unreadable(answer.host, "it does not serve parts of files")
        async for chunk in answer.chunks():
            body += chunk
            if len(body) >= length:
                break  # a server that sends the whole file is left early
    return bytes(body[:length])


async def read_json(hub: HubClient, repo: str, commit: str, name: str) -> Any:
    """A JSON file's content. Raises `UnreadableModel` where it is none, else as `read_range`."""
    text = await read_range(hub, repo, commit, name, 0, MAX_JSON_BYTES)
    return await asyncio.to_thread(_decode, text, repo, name)


async def safetensors_header(hub: HubClient, repo: str, commit: str, name: str) -> dict[str, Any]:
    """The header of a safetensors file: `__metadata__` and for each tensor `dtype`, `shape` and `data_offsets`.

    One or two ranged requests. Raises `UnreadableModel` where it is no such file, else as `read_range`.
    """
    head = await read_range(hub, repo, commit, name, 0, _FIRST_BYTES)
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if len(head) < _LENGTH_BYTES or not 2 <= length <= MAX_HEADER_BYTES:
        raise _no_model(repo, name, f"{len(head)} bytes, header length {length}")
    end = _LENGTH_BYTES + length
    if len(head) < end and len(head) == _FIRST_BYTES:
        head += await read_range(hub, repo, commit, name, len(head), end - len(head))
    if len(head) < end:
        raise _no_model(repo, name, f"it ends within its header of {length} bytes")
    header = await asyncio.to_thread(_decode, head[_LENGTH_BYTES:end], repo, name)
    if not isinstance(header, dict):
        raise _no_model(repo, name, f"its header is {type(header).__name__}")
    return header


def _decode(text: bytes, repo: str, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _no_model(repo, name, str(error)) from error


def _no_model(repo: str, name: str, detail: str) -> UnreadableModel:
    return UnreadableModel(f"{name} of {repo} is damaged, or not what its name says.", "Choose another model.", detail)
