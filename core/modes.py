"""How a pair can decode."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["plain", "gpu", "ane", "mirror", "auto", "lookup"]
"""`plain`: no draft. `gpu`: the draft runs in MLX, after each verification. `ane`: it runs as Core ML programs, after
each verification. `mirror`: as programs beside the verification, for its likely outcomes. `auto`: each step as
measured costs and acceptance say. `lookup`: no draft either; what followed the same tokens earlier in the text is
proposed."""
MODES: tuple[Mode, ...] = ("auto", "plain", "lookup", "gpu", "ane", "mirror")
"""In the order in which they are offered."""


class MissingMode(msgspec.Struct, frozen=True):
    """A mode that cannot be used."""

    mode: Mode
    reason: str
    """A sentence for the user."""
