"""The program as a process: how it starts, and that closing it ends everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from app.__main__ import main
from helpers.window import stand_in

LONG = " ".join(f"word{number}" for number in range(400))
DRIVER = textwrap.dedent(
    """
    import sys
    from PySide6.QtCore import QTimer
    import app.application as application
    from core.pairs import Pair

    class Driven(application.MainWindow):
        def showEvent(self, event):
            super().showEvent(event)
            QTimer.singleShot(0, self.drive)

        def tell(self, what):
            print(what, self._engine.worker_pid, flush=True)

        def once_answering(self, action):
            self.composer.submitted.emit("Hi", ())
            self.generation.stepped.connect(lambda step: step.tokens_so_far == 1 and action())

        def drive(self):
            {action}

    application.MainWindow = Driven
    sys.exit(application.run("dark", command=sys.argv[1:], pair=Pair("Test pair", "/x", "/y")))
    """
)
CLOSE = "(self.tell('answering'), self.close())"
ACTIONS = {
    "at once": "self.tell('shown'); self.close()",
    "while loading": "QTimer.singleShot(300, lambda: (self.tell('loading'), self.close()))",
    "in mid answer": f"self.once_answering(lambda: {CLOSE})",
    "after a copy": f"self.once_answering(lambda: (self.transcript.answer.copy_markdown(), {CLOSE}))",
    "twice": f"self.once_answering(lambda: ({CLOSE}, self.close()))",
}


@pytest.fixture(autouse=True)
def never_asked(home: Path) -> None:
    """Closing in the middle of an answer asks a question, unless the settings say otherwise."""
    choose(home, ask_before_quitting=False)


def choose(home: Path, **settings: object) -> None:
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "settings.json").write_text(json.dumps(settings))


def start(action: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER.replace("{action}", action), *stand_in(*options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended_well(process: subprocess.Popen[str]) -> str:
    """Wait for the end; returns what was printed."""
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "Warning" not in err
    return out


@pytest.mark.parametrize("when", ACTIONS)
def test_closing_the_window_ends_the_worker_and_exits_with_0(when: str) -> None:
    slow = ("--load-s", "20") if when == "while loading" else ()
    process = start(ACTIONS[when], "--answer", LONG, "--steps-per-second", "20", *slow)
    told = ended_well(process).split()
    if told[1] != "None":
        assert not psutil.pid_exists(int(told[1]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_window_cleanly(number: signal.Signals) -> None:
    process = start("self.once_answering(lambda: self.tell('answering'))", "--answer", LONG, "--steps-per-second", "20")
    assert process.stdout is not None
    worker = int(process.stdout.readline().split()[1])
    os.kill(process.pid, number)
    ended_well(process)
    assert not psutil.pid_exists(worker)


def test_a_signal_is_heeded_while_nothing_happens() -> None:
    """Python runs its signal handlers only between its own instructions; Qt's idle loop has none."""
    process = start("self.generation.state_changed.connect(lambda s: s == 'failed' and self.tell(s))", "--die-at-start")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("failed")
    os.kill(process.pid, signal.SIGINT)
    ended_well(process)


def test_an_exception_in_a_slot_is_logged_and_shown(home: Path) -> None:
    tell = "lambda: (print(self.notice.report()), self.close())"
    action = f"QTimer.singleShot(0, lambda: 1 / 0); QTimer.singleShot(200, {tell})"
    process = start(action)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "ZeroDivisionError" in err
    assert "Something in the window went wrong." in out
    log = (home / "state" / "logs" / "window.log").read_text()
    assert "ZeroDivisionError" in log


def test_the_log_has_what_the_worker_says(home: Path) -> None:
    ended_well(start(ACTIONS["in mid answer"], "--answer", LONG, "--steps-per-second", "20", "--garbage"))
    log = (home / "state" / "logs" / "window.log").read_text()
    assert "worker: and a line" in log
    assert "OpenBLAS" in log


def test_terminal_commands_do_not_load_qt() -> None:
    code = textwrap.dedent(
        """
        import sys
        from app.__main__ import main
        try:
            main(["--version"])
        except SystemExit:
            pass
        sys.exit(any(name.startswith("PySide6") for name in sys.modules))
        """
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("arguments", [["--theme"], ["--theme", "blue"], ["--theme", "dark", "more"]])
def test_a_wrong_theme_gets_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == "mirror-sd: --theme takes one of: system, light, dark.\n"


def test_a_signal_asks_nobody(home: Path) -> None:
    choose(home, ask_before_quitting=True)
    process = start("self.once_answering(lambda: self.tell('answering'))", "--answer", LONG, "--steps-per-second", "20")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("answering")
    os.kill(process.pid, signal.SIGTERM)
    ended_well(process)


def test_a_window_that_is_closed_in_mid_answer_asks_and_quits_when_told_to(home: Path) -> None:
    choose(home, ask_before_quitting=True)
    agree = (
        "[b.click() for w in application.QApplication.topLevelWidgets() if w.metaObject().className() == 'QMessageBox'"
        " for b in w.buttons() if b.text() == 'Quit']"
    )
    close = f"(self.close(), print('asked', self.isVisible(), flush=True), {agree})"
    process = start(f"self.once_answering(lambda: {close})", "--answer", LONG, "--steps-per-second", "20")
    assert "asked True" in ended_well(process)


def test_a_crash_is_told_at_the_next_start_and_a_clean_end_is_not(home: Path) -> None:
    crash = start("import faulthandler; self.once_answering(lambda: faulthandler._sigabrt())")
    crash.communicate(timeout=30)
    assert crash.returncode == -signal.SIGABRT
    look = "QTimer.singleShot(500, lambda: (print(self.notice.report()), self.close()))"
    told = ended_well(start(look))
    assert "EndedUnexpectedly: Mirror SD ended unexpectedly the last time" in told
    assert "Fatal Python error: Aborted" in told
    assert "in <lambda>" in told
    assert "EndedUnexpectedly" not in ended_well(start(look))
    assert len(list((home / "state" / "crash").glob("ended *.txt"))) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_window_opens_in_the_colours_of_the_settings(home: Path, scheme: str) -> None:
    choose(home, theme=scheme, text_px=20)
    driver = DRIVER.replace('run("dark", ', "run(").replace(
        "{action}", "print(self.palette().window().color().name(), self.font().pixelSize()); self.close()"
    )
    process = subprocess.run(
        [sys.executable, "-c", driver, *stand_in()], capture_output=True, text=True, check=True, timeout=30
    )
    assert process.stdout.split() == [{"light": "#ffffff", "dark": "#17181c"}[scheme], "20"]


def test_a_damaged_settings_file_is_told_and_the_window_opens(home: Path) -> None:
    choose(home)
    (home / "config" / "settings.json").write_text("{")
    told = ended_well(start("QTimer.singleShot(500, lambda: (print(self.notice.report()), self.close()))"))
    assert "CorruptSettings" in told
