"""Pairs by name, as they were loaded before: a chat remembers only the name of its pair."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from core.files import replace_file
from core.pairs import Pair
from core.paths import state_dir

_log = logging.getLogger(__name__)


def remember_pair(pair: Pair) -> None:
    """Find this pair by its name from now on. A disk that refuses is logged: chats then cannot offer the pair."""
    known = _read()
    if known.get(pair.name) == pair:
        return
    try:
        replace_file(_file(), msgspec.json.encode(known | {pair.name: pair}))
    except OSError as error:
        _log.warning("The pair was not remembered: %s", error)


def known_pair(name: str) -> Pair | None:
    """The pair of that name, where its models are still there."""
    pair = _read().get(name)
    if pair is not None and all(os.path.exists(place) for place in (pair.target, pair.draft) if place):
        return pair
    return None


def _file() -> Path:
    return state_dir() / "known-pairs.json"


def _read() -> dict[str, Pair]:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=dict[str, Pair])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _log.warning("Pairs loaded before are not known: %s", error)
        return {}
