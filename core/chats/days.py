"""The list of chats in groups: pinned, today, yesterday, the seven days before, older."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from itertools import groupby
from typing import Literal

from core.chats.model import ChatSummary

Group = Literal["pinned", "today", "yesterday", "previous 7 days", "older"]


def group_of(chat: ChatSummary, today: date) -> Group:
    """Where the chat belongs, by the local day of its last message. A day yet to come (a clock was wrong) is today."""
    if chat.pinned:
        return "pinned"
    days = (today - datetime.fromtimestamp(chat.updated_ms / 1000).date()).days
    if days <= 0:
        return "today"
    if days == 1:
        return "yesterday"
    return "previous 7 days" if days <= 8 else "older"


def grouped(chats: Iterable[ChatSummary], today: date) -> tuple[tuple[Group, tuple[ChatSummary, ...]], ...]:
    """Chats in the list's order, as runs of one group each."""
    return tuple((group, tuple(run)) for group, run in groupby(chats, lambda chat: group_of(chat, today)))
