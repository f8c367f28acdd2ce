"""Any sequence of operations does what a few dictionaries say, also across closing, crashes and export."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from core.chats import ChatOptions, ChatStore, Sampling
from core.chats.text import automatic_title
from core.chats.transfer import export_json, import_json

TEXTS = st.text(st.sampled_from("ab 日🎉ß\n*\0\ud800\"'"), max_size=12)


def stored(text):
    return text.replace("\0", "\ufffd").replace("\ud800", "\ufffd")


@dataclass
class ModelMessage:
    parent: int | None
    role: str
    content: str
    state: str = "complete"
    chosen: int | None = None


@dataclass
class ModelChat:
    title: str = ""
    automatic: bool = True
    pinned: bool = False
    updated: int = 0
    options: ChatOptions = field(default_factory=ChatOptions)
    draft: str = ""
    deleted: bool = False
    root: int | None = None
    messages: dict[int, ModelMessage] = field(default_factory=dict)

    def choose(self, number):
        while (parent := self.messages[number].parent) is not None:
            self.messages[parent].chosen = number
            number = parent
        self.root = number

    def path(self):
        number = self.root
        while number is not None:
            yield number
            number = self.messages[number].chosen


class Operations(RuleBasedStateMachine):
    """The store beside its model. Time is a counter."""

    chats = Bundle("chats")
    questions = Bundle("questions")  # (chat id, message id)
    answers = Bundle("answers")

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mirror-sd-tests-")
        self.file = Path(self.folder.name) / "chats.sqlite3"
        self.ticks = itertools.count(1)
        self.now = 0
        self.clock = patch("core.chats.database.now_ms", self.tick)
        self.clock.start()
        self.store = ChatStore.open(self.file)
        self.model: dict[int, ModelChat] = {}

    def tick(self):
        self.now = next(self.ticks)
        return self.now

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.clock.stop()
            self.folder.cleanup()

    @rule(target=chats, prompt=TEXTS)
    def create(self, prompt):
        options = ChatOptions(prompt, Sampling(seed=3))
        number = self.store.create(options).id
        self.model[number] = ModelChat(updated=self.now, options=ChatOptions(stored(prompt), Sampling(seed=3)))
        return number

    @rule(chat=chats, title=TEXTS)
    def rename(self, chat, title):
        model = self.model[chat]
        title = stored(" ".join(title.split()))
        model.automatic = not title
        root = model.messages.get(model.root)
        model.title = title or (automatic_title(root.content) if root else "")
        assert self.store.rename(chat, title) == model.title

    @rule(chat=chats, pinned=st.booleans())
    def pin(self, chat, pinned):
        self.store.pin(chat, pinned)
        self.model[chat].pinned = pinned

    @rule(chat=chats, draft=TEXTS)
    def save_draft(self, chat, draft):
        self.store.save_draft(chat, draft)
        self.model[chat].draft = stored(draft)

    @rule(chat=chats, deleted=st.booleans())
    def delete_or_restore(self, chat, deleted):
        (self.store.delete if deleted else self.store.restore)(chat)
        self.model[chat].deleted = deleted

    @rule(target=questions, chat=chats, text=TEXTS)
    def ask_first(self, chat, text):
        return self.ask((chat, None), text)

    @rule(target=questions, answer=answers, text=TEXTS)
    def ask(self, answer, text):
        chat, parent = answer
        model = self.model[chat]
        message = self.store.messages.add_user(chat, parent, text)
        model.messages[message.id] = ModelMessage(parent, "user", stored(text))
        model.choose(message.id)
        model.updated = self.now
        if parent is None and model.automatic:
            model.title = automatic_title(stored(text))
        return (chat, message.id)

    @rule(target=answers, question=questions)
    def begin_answer(self, question):
        chat, parent = question
        number = self.store.messages.begin_answer(chat, parent).id
        self.model[chat].messages[number] = ModelMessage(parent, "assistant", "", "running")
        self.model[chat].choose(number)
        self.model[chat].updated = self.now
        return (chat, number)

    @rule(answer=answers, text=TEXTS)
    def checkpoint(self, answer, text):
        self.store.messages.checkpoint(answer[1], text)
        self.model[answer[0]].messages[answer[1]].content = stored(text)

    @rule(answer=answers, text=TEXTS, state=st.sampled_from(["complete", "stopped", "failed"]))
    def finish(self, answer, text, state):
        self.store.messages.finish(answer[1], text, state=state)
        message = self.model[answer[0]].messages[answer[1]]
        message.content, message.state = stored(text), state
        self.model[answer[0]].updated = self.now

    @rule(answer=answers)
    def resume(self, answer):
        self.store.messages.resume_answer(answer[1])
        self.model[answer[0]].messages[answer[1]].state = "running"

    @rule(message=st.one_of(questions, answers))
    def choose(self, message):
        self.store.messages.choose(message[1])
        self.model[message[0]].choose(message[1])

    @rule()
    def close_and_open(self):
        for index in ("title_index", "message_index"):
            self.store.database.connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        self.store.close()
        self.store = ChatStore.open(self.file)
        for chat in self.model.values():
            for message in chat.messages.values():
                message.state = "interrupted" if message.state == "running" else message.state

    @rule(target=chats, chat=chats)
    def export_and_import(self, chat):
        exported = export_json(self.store, [chat])
        (copy,) = import_json(self.store, exported)
        assert export_json(self.store, [copy]) == exported
        model = self.model[chat]
        ids = dict(zip(model.messages, (m for m in self.ids(copy)), strict=True))
        self.model[copy] = ModelChat(
            model.title,
            model.automatic,
            model.pinned,
            model.updated,
            model.options,
            model.draft,
            root=ids.get(model.root),
            messages={
                ids[number]: ModelMessage(
                    ids.get(m.parent),
                    m.role,
                    m.content,
                    "interrupted" if m.state == "running" else m.state,
                    ids.get(m.chosen),
                )
                for number, m in model.messages.items()
            },
        )
        return copy

    def ids(self, chat):
        query = "SELECT id FROM messages WHERE chat_id = ? ORDER BY id"
        return [number for (number,) in self.store.database.connection.execute(query, (chat,))]

    @invariant()
    def the_list_is_as_expected(self):
        expected = sorted(
            (
                (chat.pinned, chat.updated, number, chat.title)
                for number, chat in self.model.items()
                if not chat.deleted
            ),
            reverse=True,
        )
        pages, page = [], self.store.page(2)
        while page:
            pages += page
            page = self.store.page(2, page[-1])
        assert [(chat.pinned, chat.updated_ms, chat.id, chat.title) for chat in pages] == expected

    @invariant()
    def every_chat_is_as_expected(self):
        for number, model in self.model.items():
            chat, path = self.store.get(number), self.store.messages.path(number)
            assert (chat.title, chat.title_is_automatic, chat.options, chat.draft) == (
                model.title,
                model.automatic,
                model.options,
                model.draft,
            )
            assert [(m.id, m.content, m.state) for m in path] == [
                (n, model.messages[n].content, model.messages[n].state) for n in model.path()
            ]
            for message in path:
                same = [n for n, m in model.messages.items() if m.parent == message.parent_id]
                assert message.versions == tuple(same)

    @invariant()
    def a_search_finds_every_chat_with_the_symbol(self):
        expected = {
            number
            for number, chat in self.model.items()
            if not chat.deleted
            and ("🎉" in chat.title or any("🎉" in m.content for m in chat.messages.values() if m.state != "running"))
        }
        assert {hit.chat.id for hit in self.store.search("🎉", 1000)} == expected


Operations.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
TestOperations = pytest.mark.slow(Operations.TestCase)
