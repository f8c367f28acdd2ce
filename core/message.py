"""What all messages between client and worker have in common."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Tagged by class name, so that one union decodes them all."""
