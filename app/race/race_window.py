"""The race's window: a prompt, two sides, one clock, a verdict."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QDoubleSpinBox,
    QHBoxLayout,
    QPlainTextEdit,
    QWidget,
)

from app.combo_box import ComboBox
from app.flow_layout import FlowLayout
from app.language import tr
from app.notice import ProblemNotice
from app.pairs.mode_selector import Devices, mode_label
from app.race import words
from app.race.race_model import RaceModel, RaceState
from app.race.replay import Replay
from app.race.side_view import SideView
from app.widgets import label, named, number_field, push_button, scrolled_page, set_kind, set_style_property
from core.protocol import GenerateOptions, Mode

_SMALLEST, _FIRST_SIZE = QSize(800, 620), QSize(1040, 720)
_PROMPT = tr("Write a Python function that reverses a list, and explain it in two short sentences.")
_HOW = tr(
    "The engine does one thing at a time: plain decoding runs first, then the other side, each on its own true clock. "
    "Then both are shown on one clock, which starts at the first token."
)
_READS, _WAITS = tr("Reads the prompt"), tr("Waits for its turn")
_PROMPT_LINES = 3
_MOST_SEED = 2**31 - 1


class RaceWindow(QDialog):
    """A window beside the chat's. Closing it stops the race."""

    def __init__(self, model: RaceModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Race"))
        self.setMinimumSize(_SMALLEST)
        self._model = model
        self._devices = Devices()
        self._modes: tuple[Mode, ...] = ()
        self.replay = Replay(self)
        self.prompt = QPlainTextEdit(_PROMPT)
        self.prompt.setAccessibleName(tr("Prompt of the race"))
        self.prompt.setTabChangesFocus(True)
        set_kind(self.prompt, "prompt")
        self.prompt.setFixedHeight(_PROMPT_LINES * self.prompt.fontMetrics().lineSpacing() + 20)
        self.mode = ComboBox()
        self.mode.setAccessibleName(tr("Mode of the right side"))
        self.tokens = number_field(16, 4096, 256, tr("Tokens at most"))
        self.seed = number_field(0, _MOST_SEED, 0, tr("Seed of both sides"))
        self.temperature = QDoubleSpinBox()
        self.temperature.setRange(0.0, 2.0)
        self.temperature.setSingleStep(0.1)
        self.temperature.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.temperature.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        self.temperature.setAccessibleName(tr("Temperature of both sides"))
        self.temperature.setToolTip(tr("0 takes the most likely token"))
        self.start = push_button(tr("Start"), tr("Race plain decoding with the chosen mode"))
        set_kind(self.start, "primary")
        self.stop = push_button(tr("Stop"), tr("Stop the race; what was recorded stays"))
        set_kind(self.stop, "stop")
        self.left = SideView(tr("Plain decoding"))
        self.right = SideView("")
        self.status = label("", "muted", wraps=True)
        self.verdict = label("", "verdict", wraps=True)
        self.verdict.setAccessibleName(tr("Verdict"))
        self.again = push_button(tr("Replay"), tr("Show both sides again on one clock"))
        self.skip = push_button(tr("To the end"), tr("Show the end at once"))
        self.copy = push_button(tr("Copy"), tr("Copy the race as text"))
        self.close_button = push_button(tr("Close"), tr("Back to the chat; a race under way is stopped"))
        self.notice = ProblemNotice()
        self._lay_out()
        self._connect()
        self.resize(_FIRST_SIZE)
        self.refresh()
        self.start.setFocus()

    def set_devices(self, devices: Devices) -> None:
        """What the modes run on."""
        self._devices = devices
        self._modes = ()
        self.refresh()

    def refresh(self) -> None:
        """Look again which modes the loaded pair has."""
        modes = self._model.modes
        if modes != self._modes:
            self._modes = modes
            self.mode.clear()
            self.mode.addItems([mode_label(mode, self._devices) for mode in modes])
        self._show_state()

    def reject(self) -> None:
        """Close."""
        self._model.stop()
        self.replay.skip()
        super().reject()

    # ------------------------------------------------------------------- layout

    def _lay_out(self) -> None:
        choice = FlowLayout()
        for name, widget in (
            (tr("Against"), self.mode),
            (tr("Tokens"), self.tokens),
            (tr("Temperature"), self.temperature),
            (tr("Seed"), self.seed),
        ):
            choice.addWidget(named(name, widget))
        choice.addWidget(self.start)
        choice.addWidget(self.stop)
        sides = QHBoxLayout()
        sides.setSpacing(12)
        sides.addWidget(self.left, 1)
        sides.addWidget(self.right, 1)
        below = FlowLayout()
        for button in (self.again, self.skip, self.copy, self.close_button):
            below.addWidget(button)
        _, layout = scrolled_page(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(10)
        layout.addWidget(label(tr("Race"), "title"))
        layout.addWidget(label(_HOW, "muted", wraps=True))
        layout.addWidget(self.prompt)
        layout.addLayout(choice)
        layout.addWidget(self.notice)
        layout.addLayout(sides, 1)
        self.verdict.setMinimumHeight(2 * self.verdict.fontMetrics().lineSpacing())
        layout.addWidget(self.verdict)
        layout.addWidget(self.status)
        layout.addLayout(below)

    def _connect(self) -> None:
        self._model.state_changed.connect(self._on_state)
        self._model.recorded.connect(self._show_recorded)
        self._model.failed.connect(lambda problem: self.notice.show_problem(problem, can_retry=False))
        self.replay.moved.connect(self._show_at)
        self.replay.ended.connect(self._show_state)
        self.start.clicked.connect(self._start)
        self.stop.clicked.connect(self._model.stop)
        self.again.clicked.connect(self._replay)
        self.skip.clicked.connect(self.replay.skip)
        self.copy.clicked.connect(self._copy)
        self.close_button.clicked.connect(self.reject)

    # ------------------------------------------------------------- what happens

    def _start(self) -> None:
        self.notice.hide()
        self.replay.stop()
        mode = self._modes[self.mode.currentIndex()] if self._modes else "auto"
        options = GenerateOptions(
            mode=mode,
            max_tokens=self.tokens.value(),
            temperature=self.temperature.value(),
            seed=self.seed.value(),
        )
        self._model.start(self.prompt.toPlainText(), options)

    def _on_state(self) -> None:
        if self._model.state is RaceState.LEFT:
            self.left.show_waiting(_READS)
            self.right.show_waiting(_WAITS)
        elif self._model.state is RaceState.RIGHT:
            self.right.show_waiting(_READS)
        elif self._model.state is RaceState.DONE and self.isVisible():
            self._replay()
        elif not self._model.running and self.right.line.full_text() == _WAITS:
            self.right.show_waiting(tr("Did not run"))
        self._show_state()

    def _replay(self) -> None:
        self.replay.start(max(self._model.left.end_s, self._model.right.end_s))
        self._show_state()

    def _copy(self) -> None:
        prompt = self.prompt.toPlainText().strip()
        QGuiApplication.clipboard().setText(words.report(self._model, prompt, self._devices))

    # ------------------------------------------------------------- what is shown

    def _show_state(self) -> None:
        model, replaying = self._model, self.replay.running
        self.right.name_it(mode_label(model.right.mode, self._devices))
        for widget in (self.prompt, self.mode, self.tokens, self.temperature, self.seed):
            widget.setEnabled(not model.running)
        self.start.setEnabled(not model.running)
        self.stop.setEnabled(model.running and model.state is not RaceState.STOPPING)
        done = model.state is RaceState.DONE
        self.again.setEnabled(done and not replaying)
        self.skip.setEnabled(replaying)
        self.copy.setEnabled(done)
        self.status.setText(words.status(model, replaying, self._devices))
        result = words.result(model, self._devices)
        hidden = replaying  # the end of a race is not told before it has been seen
        self.verdict.setText("" if hidden else result.sentence)
        set_style_property(self.verdict, "dress", "" if hidden else result.dress)

    def _show_recorded(self) -> None:
        side, recording = (
            (self.right, self._model.right) if self._model.right.token_ids else (self.left, self._model.left)
        )
        if recording.token_ids:
            side.show_at(recording, recording.end_s)

    def _show_at(self, time_s: float) -> None:
        self.left.show_at(self._model.left, time_s)
        self.right.show_at(self._model.right, time_s)
