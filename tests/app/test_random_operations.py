"""Thousands of random operations: no warning, no exception, nothing lost, nothing left over, nothing that grows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from PySide6.QtTest import QTest
from pytestqt.logging import _QtMessageCapture
from pytestqt.qtbot import QtBot

from app.surroundings import Surroundings
from core.client import worker_command
from core.errors import DemoTargetMissing
from core.pairs import demo_pair
from helpers.chats_window import ready
from helpers.growth import Held, held
from helpers.random_user import NOT_TRIED, Ledger, RandomUser, tell
from helpers.random_user_checks import check_store, check_window, until_at_rest
from helpers.window import WAIT_MS, OpenWindow

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)  # of the screen that is none

LONGEST_ANSWER_MS = 300_000
SEED = 20261
ANSWER = """# An answer

Let me say it in **some** words, with `code` and $x^2$ in it, and [a link](https://example.com).

| table | cells |
|---|---|
| one | two |

```python
def answer() -> int:
    return 42
```

$$\\sum_{i=1}^n i$$

- the end
"""
THINKING = "Let me think about it before I answer."
EXPECTED = {"EngineTaken", "NothingLoaded"}
"""Problems that a user meets who opens the race in mid-answer."""
GROWTH = 12
"""Of any kind of object: some are made when they are first needed, and the chat that was deleted last is held."""
GROWTH_BYTES = 24_000_000
"""Allocators keep some of what was used; a leak of 2 KB an operation would be 18 MB over 9,000."""


@pytest.fixture
def fast(tmp_path: Path) -> tuple[str, ...]:
    """Options of a stand-in that answers in some tenths of a second."""
    file = tmp_path / "answer.md"
    file.write_text(ANSWER)
    return ("--answer-file", str(file), "--thinking", THINKING, "--steps-per-second", "1000")


class Run:
    """Operations of some users, and the looks at what came of them."""

    def __init__(
        self, users: list[RandomUser], qtbot: QtBot, qtlog: _QtMessageCapture, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.users, self.qtbot, self.qtlog, self.loop = users, qtbot, qtlog, loop
        self.windows = [user.window for user in users]
        self.number = 0

    def go(self, operations: int) -> None:
        """Do them, each by one of the users; whatever goes wrong is told with the last of them."""
        with self._watched() as look:
            for _ in range(operations):
                self.number += 1
                self.users[0].chance.choice(self.users).act()
                look()

    def check(self, timeout_ms: int = WAIT_MS) -> None:
        """Wait for the end of everything, and see that windows and store agree."""
        with self._watched() as look:
            for user in self.users:
                user.put_in_order()
            until_at_rest(self.windows, self.qtbot, timeout_ms)
            for window in self.windows:  # as when the user comes to it
                window.chats.reread()
                window.sidebar.model.refresh()
            until_at_rest(self.windows, self.qtbot)
            check_store(self.users[0].ledger, alone=len(self.users) == 1)
            for window in self.windows:
                check_window(window, self.qtbot)
            look()

    def clear(self) -> Held:
        """Delete all chats, and count what is held then."""
        with self._watched() as look:
            for user in self.users:
                user.delete_all()
            until_at_rest(self.windows, self.qtbot)
            look()
            return held(self.loop)

    @contextmanager
    def _watched(self) -> Iterator[Callable[[], None]]:
        with self.qtbot.capture_exceptions() as raised:

            def look() -> None:
                for _, error, trace in raised:
                    raise error.with_traceback(trace)
                told = [problem for user in self.users for problem in user.problems]
                assert [problem for problem in told if problem.kind not in EXPECTED] == []
                assert [each for each in self.qtlog.records if each.matches_level("WARNING") and not each.ignored] == []

            try:
                yield look
            except BaseException:
                tell(self.users, self.number)
                raise


@pytest.fixture
def watch(qtbot: QtBot, qtlog: _QtMessageCapture, loop: asyncio.AbstractEventLoop) -> Callable[..., Run]:
    """Makes the `Run` of some users."""
    return lambda *users: Run(list(users), qtbot, qtlog, loop)


def grown(now: Held, before: Held) -> dict[str, int]:
    """What there is clearly more of."""
    more = now.more_than(before)
    more["app.stats.step_record.StepRecord"] = 0  # those of the last answers, however long these happen to be
    return {name: count for name, count in more.items() if count > GROWTH}


def warm_up(around: Surroundings, user: RandomUser) -> None:
    """Everything that is made once is made."""
    for command, action in user.window.commands._actions:
        if command.text not in NOT_TRIED:
            action.trigger()
            QTest.qWait(1)
            user.close_dialogs()
    around.settings.reset("text_px")
    around.settings.reset("code_px")


@pytest.mark.parametrize(
    ("parts", "operations"), [(2, 300), pytest.param(10, 1000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_random_operations_leave_nothing_and_lose_nothing(
    open_around: Callable[..., Surroundings],
    fast: tuple[str, ...],
    watch: Callable[..., Run],
    tmp_path: Path,
    qtbot: QtBot,
    parts: int,
    operations: int,
) -> None:
    around = open_around({}, *fast)
    user = RandomUser(ready(around._window, qtbot), random.Random(SEED), Ledger(), tmp_path)
    warm_up(around, user)
    run = watch(user)
    counts = []
    for _ in range(parts):
        run.go(operations)
        run.check()
        counts.append(run.clear())
    assert grown(counts[-1], counts[0]) == {}
    assert counts[-1].rss_bytes - counts[0].rss_bytes < GROWTH_BYTES, [each.rss_bytes for each in counts]


@pytest.mark.parametrize("operations", [400, pytest.param(3000, marks=pytest.mark.slow)], ids=["some", "many"])
def test_two_windows_on_one_file_lose_nothing(
    open_window: OpenWindow,
    fast: tuple[str, ...],
    watch: Callable[..., Run],
    tmp_path: Path,
    qtbot: QtBot,
    operations: int,
) -> None:
    chance, ledger = random.Random(SEED), Ledger()
    users = [RandomUser(ready(open_window(*fast), qtbot), chance, ledger, tmp_path) for _ in range(2)]
    run = watch(*users)
    run.go(operations)
    run.check()


@pytest.mark.slow
def test_random_operations_on_the_real_engine(
    open_window: OpenWindow, watch: Callable[..., Run], tmp_path: Path, qtbot: QtBot
) -> None:
    try:
        demo_pair()
    except DemoTargetMissing:
        pytest.skip("the demo pair is not installed")
    window = open_window(command=worker_command("window"), choose_pair=demo_pair)
    qtbot.waitUntil(lambda: window.pair_button.state_text in ("ready", "failed"), timeout=LONGEST_ANSWER_MS)
    user = RandomUser(ready(window, qtbot), random.Random(SEED), Ledger(), tmp_path)
    window.chats.use_settings(msgspec.structs.replace(window.chats.settings, max_tokens=24))
    run = watch(user)
    for _ in range(4):
        run.go(50)
        run.check(LONGEST_ANSWER_MS)
