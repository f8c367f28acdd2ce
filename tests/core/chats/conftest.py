"""A chats' file for each test, and a clock that ticks with every look at it."""

import itertools

import pytest

from core.chats import ChatStore, database


@pytest.fixture
def clock(monkeypatch):
    ticks = itertools.count(1_700_000_000_000, 1000)
    monkeypatch.setattr(database, "now_ms", lambda: next(ticks))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "chats.sqlite3"


@pytest.fixture
def store(file, clock):  # noqa: ARG001 (pytest allows no marks on fixtures)
    opened = ChatStore.open(file)
    yield opened
    opened.close()
