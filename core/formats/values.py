"""How values of foreign files stand in a sentence, whatever they are."""

from __future__ import annotations

from core.errors import UnreadableModel

_LONGEST = 60


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
