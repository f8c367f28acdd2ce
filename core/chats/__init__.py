"""The user's chats: kept in one SQLite file, searchable, safe against crashes and other windows.

Rules for callers: every call may wait for the disk (a few milliseconds, up to five seconds where another program holds
the file), so a window calls from a worker thread (`asyncio.to_thread`). One `ChatStore` may be used from any number of
threads: it runs one call at a time, in the order in which they come to its lock, so writes that must keep an order
(begin, checkpoints, finish of one answer) are awaited one after the other. Values that are returned are immutable and
belong to any thread. Several programs may have one file open; each write is a transaction of its own.

An answer is begun (`messages.begin_answer`), kept every second (`checkpoint`), and ended (`finish`): whatever happens,
at most the time since the last checkpoint is lost, and the next start marks the answer as interrupted.
"""

from core.chats.model import (
    Attachment,
    Chat,
    ChatOptions,
    ChatSummary,
    Figures,
    Hit,
    Message,
    Piece,
    Sampling,
)
from core.chats.store import ChatStore

__all__ = [
    "Attachment",
    "Chat",
    "ChatOptions",
    "ChatStore",
    "ChatSummary",
    "Figures",
    "Hit",
    "Message",
    "Piece",
    "Sampling",
]
