"""Measures the window: `bench_ui.py [--chars N] [--seconds S] [--only NAME] [--json FILE]`.

What the thread of the window takes for a frame while an answer streams in at 100 tokens a second behind a long chat,
to open that chat, to search many chats, and to start. Runs without a display where QT_QPA_PLATFORM=offscreen.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from app.chat.code import CodeView
from app.chat.entry import Entry
from app.chat.transcript import Transcript
from app.theme import Theme
from core.bench.chats import chats_rows
from core.bench.rows import Row, markdown_table, report, row, single, write_json

TOKENS_PER_SECOND = 100
CHARS_PER_TOKEN = 4
FRAME_S = 1 / 30
_START = textwrap.dedent(
    """
    import time
    begun_s = time.time()
    import os, sys
    from PySide6.QtCore import QTimer
    import app.application as application
    from core.pairs import Pair

    class Timed(application.MainWindow):
        def showEvent(self, event):
            super().showEvent(event)
            # Behind everything that showing has queued, its first painting too.
            QTimer.singleShot(0, lambda: QTimer.singleShot(0, self.tell))

        def tell(self):
            print(time.time() - float(sys.argv[1]), flush=True)
            self.close()

    application.MainWindow = Timed
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    application.run("dark", command=silent, pair=Pair("none", "/x", "/y"))
    """
)


def mixed(chars: int) -> str:
    """Prose with lists, tables, code and formulas."""
    choice = random.Random(0)
    words = [
        "lorem",
        "ipsum",
        "dolor",
        "**sit**",
        "amet",
        "`code`",
        "*consectetur*",
        "elit",
        "sed",
        "[link](https://e.org)",
    ]
    parts: list[str] = []
    while sum(map(len, parts)) < chars:
        text = " ".join(choice.choice(words) for _ in range(60))
        parts += [
            f"## Heading {len(parts)}\n\n{text}.\n\n",
            "".join(f"{n}. {' '.join(choice.choice(words) for _ in range(12))}\n" for n in range(1, 6)) + "\n",
            "| a | b | c |\n|---|---|---|\n" + "| one | two | three |\n" * 6 + "\n",
            "```python\n" + "def f(x: int) -> int:\n    return x + 1  # why\n" * 12 + "```\n\n",
            f"{text}. {text}.\n\n",
        ]
    return "".join(parts)[:chars]


def endless_code(chars: int) -> str:
    """One code block that does not end."""
    line = "    value = compute(first, second) + 12  # a comment\n"
    return "```python\n" + line * (chars // len(line) + 1)


def endless_paragraph(chars: int) -> str:
    """One paragraph on one line."""
    choice = random.Random(1)
    words = ["word", "another", "**bold**", "and", "more.", "of", "it,", "`code`"]
    return " ".join(choice.choice(words) for _ in range(chars // 4))[:chars]


TEXTS: dict[str, Callable[[int], str]] = {
    "mixed": mixed,
    "endless code": endless_code,
    "endless paragraph": endless_paragraph,
}


def pump() -> None:
    """Handle all events that wait now and those that follow from them, painting included."""
    for _ in range(3):
        QApplication.sendPostedEvents()
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents)


def frames_ms(text: str, seconds: float) -> list[float]:
    """What each frame takes while the end of `text` streams in at 100 tokens a second, behind the rest of it."""
    per_frame = TOKENS_PER_SECOND * CHARS_PER_TOKEN * FRAME_S
    streamed = int(seconds / FRAME_S * per_frame)
    transcript = _transcript()
    transcript.add_user_message("A question")
    answer = transcript.begin_answer()
    answer.append(text[:-streamed])
    while answer.is_showing or _works_in_slices(transcript):
        QApplication.processEvents()
    took, at = [], len(text) - streamed
    for number in range(int(seconds / FRAME_S)):
        end = len(text) - streamed + int((number + 1) * per_frame)
        answer.append(text[at:end])
        at = end
        began = time.perf_counter()
        answer.show_frame()
        pump()
        took.append((time.perf_counter() - began) * 1e3)
    transcript.close()
    transcript.deleteLater()
    pump()
    return took


def _works_in_slices(transcript: Transcript) -> bool:
    """Whether what came at once is still being shown or coloured."""
    return any(timer.isActive() and timer.interval() == 0 for timer in transcript.findChildren(QTimer))


def opening_ms(text: str) -> float:
    """How long a saved chat takes from the click until its end is painted."""
    entries = [Entry("user", "A question"), Entry("assistant", text, figures="12 tok/s")]
    transcript = _transcript()
    began = time.perf_counter()
    transcript.show(entries)
    pump()
    while not all(code.is_written for code in transcript.findChildren(CodeView)):
        pump()
    took = (time.perf_counter() - began) * 1e3
    transcript.close()
    transcript.deleteLater()
    pump()
    return took


def start_s(runs: int) -> list[float]:
    """From the start of the process until the window takes input."""
    took = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [sys.executable, "-c", _START, str(time.time())],
                env={**os.environ, "MIRROR_SD_HOME": home},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        took.append(float(done.stdout.split()[0]))
    return took


def searching(chats: int, messages: int) -> list[Row]:
    """Searches of the chats' file."""
    with tempfile.TemporaryDirectory(prefix="bench-ui-") as folder:
        rows = chats_rows(Path(folder) / "chats.sqlite3", chats, messages, 20)
    return [each for each in rows if each.name.startswith("search")]


def measure(arguments: argparse.Namespace) -> list[Row]:
    """All rows that were asked for."""
    rows: list[Row] = []
    for name, make in TEXTS.items():
        text = make(arguments.chars)
        if "frames" in arguments.only:
            took = sorted(frames_ms(text, arguments.seconds))
            rows.append(row(f"frame, {name}", "ms", took))
            rows.append(single(f"frame, {name}, 99th percentile", took[int(len(took) * 0.99)], "ms"))
        if "open" in arguments.only:
            rows.append(row(f"open, {name}", "ms", [opening_ms(text) for _ in range(arguments.runs)]))
    if "start" in arguments.only:
        rows.append(row("start to usable window", "s", start_s(arguments.runs)))
    if "search" in arguments.only:
        rows += searching(arguments.chats, arguments.messages)
    return rows


def _transcript() -> Transcript:
    transcript = Transcript()
    transcript.resize(1000, 800)
    transcript.show()
    pump()
    return transcript


def main(given: Sequence[str] | None = None) -> None:
    """Parse, measure, show, write."""
    parts = ("frames", "open", "start", "search")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chars", type=int, default=100_000, metavar="N", help="length of the chat")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="how long each answer streams")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--chats", type=int, default=1000, metavar="N")
    parser.add_argument("--messages", type=int, default=50, metavar="N", help="messages of each chat")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(given)
    app = QApplication(sys.argv[:1])
    Theme(app, "dark")
    rows = measure(arguments)
    print(markdown_table(rows))
    if arguments.json:
        write_json(report(rows, {}), arguments.json)


if __name__ == "__main__":
    main()
