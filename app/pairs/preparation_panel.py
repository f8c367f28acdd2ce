"""The preparation of a pair: one bar over all of it, the stage in words, times, programs, and what can be done."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.engine import PairState, PairStatus
from app.language import tr
from app.pairs.mode_selector import Devices
from app.pairs.preparation import PreparationLog, outcome_lines
from app.widgets import label, push_button, set_kind, set_style_property
from core.protocol import Loaded
from core.units import clock

_BAR_STEPS = 1000
_TICK_MS = 500
_STOP_TIP = tr("Stop the preparation; what is prepared already is kept")


class PreparationPanel(QFrame):
    """Shows how a pair is loaded, from the first event to what there is to tell at the end."""

    stop_wanted = Signal()
    """Pressed again it ends the engine process, whatever it does."""
    retry_wanted = Signal()
    ready = Signal(bool)
    """The pair can be used. Whether there is something to read about it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.devices = Devices()
        """What the modes run on; set by the window."""
        set_kind(self, "pair-card")
        self.setAccessibleName(tr("Preparation of a pair"))
        self._log: PreparationLog | None = None  # of the preparation under way
        self._event_s = 0.0
        self._stopped = False  # the user asked for it
        self.headline = label("", "strong", wraps=True)
        self.bar = QProgressBar()
        self.bar.setRange(0, _BAR_STEPS)
        self.bar.setTextVisible(False)
        self.stage = label("", "value", wraps=True)
        self.times = label("", "muted", wraps=True)
        self.notes = label("", "value", wraps=True)
        self.details = label("", "muted", wraps=True)
        self.details.hide()
        self.stop = push_button(tr("Stop"), _STOP_TIP, self.stop_wanted)
        self.retry = push_button(tr("Try again"), tr("Load the pair again"), self.retry_wanted)
        self.close_button = push_button(tr("Dismiss"), tr("Hide this"))
        self.show_details = push_button(tr("Steps"), tr("Show every step, and the stage of each program"))
        self._ticking = QTimer(self)
        self._ticking.setInterval(_TICK_MS)
        self._lay_out()
        self._connect()
        self.hide()

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for button in self.buttons():
            buttons.addWidget(button)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(6)
        for widget in (self.headline, self.bar, self.stage, self.times, self.notes):
            layout.addWidget(widget)
        layout.addLayout(buttons)
        layout.addWidget(self.details)

    def _connect(self) -> None:
        self.show_details.setCheckable(True)
        self.show_details.toggled.connect(lambda shown: self.details.setVisible(shown and bool(self.details.text())))
        self.stop.clicked.connect(self._stopping)
        self.close_button.clicked.connect(self.hide)
        self._ticking.timeout.connect(self._show_times)

    def buttons(self) -> tuple[QPushButton, ...]:
        """In the order in which they stand."""
        return (self.stop, self.retry, self.close_button, self.show_details)

    @property
    def is_busy(self) -> bool:
        """Whether a pair is being prepared."""
        return self._log is not None

    def show_status(self, status: PairStatus) -> None:
        """Follow the engine's pair."""
        if status.state is PairState.LOADING:
            self._follow(status)
        elif self._log is not None:
            self._end(status)

    def _follow(self, status: PairStatus) -> None:
        if self._log is None or self._log.name != status.name:
            self._log = PreparationLog(status.name)
            self._begin()
        if status.progress is not None:
            self._log.take(status.progress)
        self._event_s = time.monotonic()
        self._show()

    def _begin(self) -> None:
        set_style_property(self.bar, "failed", False)
        self._stopped = False
        self.stop.setText(tr("Stop"))
        self.stop.setToolTip(_STOP_TIP)
        self._show_buttons(running=True)
        self._ticking.start()
        self.show()

    def _end(self, status: PairStatus) -> None:
        log, self._log = self._log, None
        assert log is not None
        self._ticking.stop()
        self.details.hide()
        self._show_buttons(running=False, failed=status.state is PairState.FAILED)
        if status.state is PairState.READY and status.loaded is not None:
            self._end_well(log, status.loaded)
        elif status.problem is not None and not self._stopped:
            self.headline.setText(tr("{pair} could not be loaded").format(pair=log.name))
            self.stage.setText(" ".join(part for part in (status.problem.sentence, status.problem.hint) if part))
            set_style_property(self.bar, "failed", True)
        else:  # stopped
            self.hide()

    def _end_well(self, log: PreparationLog, loaded: Loaded) -> None:
        lines = outcome_lines(loaded, self.devices)
        self.headline.setText(tr("{pair} is ready").format(pair=log.name))
        self.bar.setValue(_BAR_STEPS)
        self.stage.setText(tr("Prepared and loaded in {time}.").format(time=clock(loaded.load_s)))
        self.times.hide()
        self._show_text(lines)
        self.setVisible(bool(lines))
        self.ready.emit(bool(lines))

    def _show(self) -> None:
        log = self._log
        assert log is not None
        self.headline.setText(tr("Preparing {pair}").format(pair=log.name))
        self.bar.setValue(round(_BAR_STEPS * log.share))
        spoken = tr("Preparing {pair}: {percent:.0f} %, {stage}")
        self.bar.setAccessibleName(spoken.format(pair=log.name, percent=100 * log.share, stage=log.words))
        self.stage.setText(f"{log.words[:1].upper()}{log.words[1:]}")
        self._show_times()
        self._show_text(log.notes)
        self.details.setText("\n".join(filter(None, (*log.part_lines(), log.program_line()))))
        self.details.setVisible(self.show_details.isChecked() and bool(self.details.text()))
        if log.part == "check" and not self._stopped:
            self.stop.setText(tr("Skip the check"))

    def _show_text(self, lines: list[str]) -> None:
        self.notes.setText("\n".join(lines))
        self.notes.setVisible(bool(lines))

    def _show_times(self) -> None:
        if self._log is None:
            return
        since_s = time.monotonic() - self._event_s
        if self._log.left_s is None:
            left = tr("how long it takes here is not known yet")
        elif since_s < self._log.left_s:
            left = tr("about {time} left, by earlier times").format(time=clock(self._log.left_s - since_s))
        else:
            left = tr("longer than earlier times")
        so_far = tr("{time} so far").format(time=clock(self._log.elapsed_s + since_s))
        self.times.setText(f"{so_far}  ·  {left}")
        self.times.show()

    def _show_buttons(self, *, running: bool, failed: bool = False) -> None:
        self.stop.setVisible(running)
        self.retry.setVisible(failed)
        self.close_button.setVisible(not running)
        self.show_details.setVisible(running)

    def _stopping(self) -> None:
        self._stopped = True
        self.stop.setText(tr("Stop now"))
        self.stop.setToolTip(tr("End the engine process, whatever it does"))
        self.stage.setText(tr("Stopping after this step …"))
