"""A chat from the Markdown that `export_markdown` writes: its turns, without versions, figures and files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from core.chats.database import now_ms
from core.chats.model import ChatOptions, EndState
from core.chats.store import ChatStore
from core.chats.text import automatic_title
from core.chats.transfer import ExportedChat, ExportedMessage, add_all, check
from core.errors import UnreadableImport

_HEADING = re.compile(
    r"^## (You|Answer)(?: \((.*)\))?, (\d{4}-\d\d-\d\d \d\d:\d\d)$|^## (System prompt)$", re.MULTILINE
)
_THINKING = re.compile(r"\A<details><summary>Thinking</summary>\n\n(.*?)\n\n</details>(?:\n\n|\Z)", re.DOTALL)
_STATE = re.compile(r"(?:\A|\n\n)\*\((stopped|interrupted|failed)\)\*\Z")


def import_markdown(store: ChatStore, data: bytes) -> int:
    """Add the chat of a file that `export_markdown` wrote; returns its id.

    Raises `UnreadableImport` and the errors of `Database.write`; then nothing was added.
    """
    try:
        chat = _read(data.decode("utf-8-sig").replace("\r\n", "\n"))
        check(chat, 0)
    except (UnicodeDecodeError, UnreadableImport) as error:
        raise UnreadableImport(
            "This file holds no chat that Mirror SD can read.", "Choose a file that Mirror SD exported.", str(error)
        ) from error
    with store.database.write() as connection:
        return add_all(connection, (chat,))[0]


def _read(text: str) -> ExportedChat:
    title = re.match(r"# (.*)", text)
    prompt, messages = "", list[ExportedMessage]()
    for heading, body in _sections(text):
        if heading[4]:
            prompt = body
            continue
        place = len(messages)
        if messages:
            messages[-1] = msgspec.structs.replace(messages[-1], chosen_child=place)
        messages.append(_message(heading, body, place - 1 if place else None))
    if not messages:
        raise UnreadableImport("There are no turns in it.")
    return ExportedChat(
        title=title[1] if title else automatic_title(messages[0].content),
        created_ms=messages[0].created_ms,
        updated_ms=now_ms(),
        messages=tuple(messages),
        title_is_automatic=title is None,
        options=ChatOptions(prompt),
        chosen_root=0,
    )


def _sections(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each heading with what stands below it."""
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=False):
        yield heading, text[heading.end() : following.start() if following else len(text)].strip("\n")


def _message(heading: re.Match[str], body: str, parent: int | None) -> ExportedMessage:
    try:
        created_ms = round(datetime.strptime(heading[3], "%Y-%m-%d %H:%M").timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise UnreadableImport("A date in it is none.", detail=heading[3]) from error
    if heading[1] == "You":
        return ExportedMessage("user", body, max(created_ms, 0), parent)
    thinking, state = _THINKING.match(body), _STATE.search(body)
    content = body[thinking.end() if thinking else 0 : state.start() if state else len(body)]
    ended: EndState = state[1] if state else "complete"  # type: ignore[assignment]
    told = thinking[1] if thinking else ""
    return ExportedMessage(
        "assistant", content, max(created_ms, 0), parent, thinking=told, state=ended, pair=heading[2] or ""
    )
