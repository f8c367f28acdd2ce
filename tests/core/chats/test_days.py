"""The list of chats by local days."""

from __future__ import annotations

import time
from datetime import date, datetime

import pytest

from core.chats import ChatSummary
from core.chats.days import group_of, grouped


@pytest.fixture
def zone(monkeypatch):
    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def chat(when, pinned=False):
    return ChatSummary(1, "t", pinned, int(when.timestamp() * 1000))


@pytest.mark.parametrize(
    ("when", "group"),
    [
        (datetime(2026, 3, 30, 9), "today"),
        (datetime(2026, 3, 30, 0, 0), "today"),
        (datetime(2026, 3, 29, 23, 59), "yesterday"),
        (datetime(2026, 3, 29, 0, 0), "yesterday"),
        (datetime(2026, 3, 28, 23, 59), "previous 7 days"),
        (datetime(2026, 3, 22, 0, 0), "previous 7 days"),
        (datetime(2026, 3, 21, 23, 59), "older"),
        (datetime(2027, 1, 1), "today"),
        (datetime(1970, 1, 2), "older"),
    ],
)
@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "Pacific/Kiritimati", "UTC"]
)
def test_days_are_those_of_the_users_clock(zone, name, when, group):
    zone(name)  # summer time began in Berlin on 29 March 2026
    assert group_of(chat(when), date(2026, 3, 30)) == group
    assert group_of(chat(when, pinned=True), date(2026, 3, 30)) == "pinned"


def test_the_same_moment_is_another_day_elsewhere(zone):
    moment = ChatSummary(1, "t", False, 1_774_828_800_000)  # 30 March 2026, 00:00 UTC
    zone("UTC")
    assert group_of(moment, date(2026, 3, 30)) == "today"
    zone("America/Los_Angeles")
    assert group_of(moment, date(2026, 3, 30)) == "yesterday"


def test_the_list_falls_into_runs():
    chats = [chat(datetime(2026, 3, day), pinned) for day, pinned in ((1, True), (30, False), (30, False), (1, False))]
    assert [(group, len(run)) for group, run in grouped(chats, date(2026, 3, 30))] == [
        ("pinned", 1),
        ("today", 2),
        ("older", 1),
    ]
