"""How values of foreign files stand in a sentence, whatever they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.errors import UnreadableModel

_LONGEST = 60
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def shown(value: object) -> str:
    """A value as a user may read it: short, `nothing` for None. Never raises."""
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, lists nested thousands of times
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def impossible(kind: str, name: str, problem: str) -> UnreadableModel:
    """The error for a config with a value that cannot be; `kind` is `draft` or `model`."""
    return UnreadableModel(
        f"The config.json of the {kind} {name} is damaged or has an impossible value: {problem}.",
        f"Download the {kind} again, or choose another.",
    )


def wrong_field(error: Exception, raw: Mapping[str, Any]) -> str:
    """msgspec's complaint about `raw` in plain words, with the value that stands there."""
    complaint, _, path = str(error).partition(" - at `$")
    names = re.findall(r"\.(\w+)", path)
    if missing := re.search(r"missing required field `(\w+)`", complaint):
        return f"{'.'.join([*names, missing[1]])} is missing"
    value: Any = raw
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    field = ".".join(names) or "the config"
    return f"{field} is {shown(value)}, wanted is {_wanted(complaint)}" if names else f"{field}: {complaint}"


def _wanted(complaint: str) -> str:
    kind = re.search(r"Expected `(\w+)", complaint)
    words = _KINDS.get(kind[1], complaint) if kind else "one that can be"
    if bound := re.search(r"(>=|<=|>|<) ([\d.]+)", complaint):
        words += f" {_BOUNDS[bound[1]]} {float(bound[2]):,.10g}"
    if multiple := re.search(r"multiple of (\d+)", complaint):
        words += f" that {multiple[1]} divides"
    return words
