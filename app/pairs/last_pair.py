"""The pair that was used last, which the next start loads."""

from __future__ import annotations

import logging
import os

import msgspec

from core.files import replace_file
from core.pairs import Pair, demo_pair
from core.paths import state_dir

_FILE = "last-pair.json"
_log = logging.getLogger(__name__)


def remember(pair: Pair) -> None:
    """Load this pair at the next start. A disk that refuses is logged: the choice holds for this session then."""
    try:
        replace_file(state_dir() / _FILE, msgspec.json.encode(pair))
    except OSError as error:
        _log.warning("The chosen pair was not remembered: %s", error)


def start_pair(chosen: Pair | None) -> Pair:
    """The pair of the settings, where its models are still there; else as `first_pair`, and raises as it does."""
    return chosen if chosen is not None and _is_there(chosen) else first_pair()


def first_pair() -> Pair:
    """The pair used last, where its models are still there; else the demo pair. Raises `DemoTargetMissing`."""
    path = state_dir() / _FILE
    try:
        pair = msgspec.json.decode(path.read_bytes(), type=Pair) if path.is_file() else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _log.warning("The pair used last is not known: %s", error)
        pair = None
    return pair if pair is not None and _is_there(pair) else demo_pair()


def _is_there(pair: Pair) -> bool:
    return all(os.path.exists(place) for place in (pair.target, pair.draft) if place)
