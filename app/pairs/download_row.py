"""A pair's download: bar, figures, files with their ticks, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.language import tr
from app.pairs import words
from app.pairs.downloads import PairProgress
from app.widgets import label, push_button, set_style_property
from core.hub.progress import ENDED

_BAR_STEPS = 1000  # bytes do not fit a C int


class DownloadRow(QWidget):
    """Shows the progress that it is given and tells what the user wants."""

    pause_wanted = Signal()
    resume_wanted = Signal()
    cancel_wanted = Signal(bool)
    """Whether to keep what has arrived."""
    dismissed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.bar = QProgressBar()
        self.bar.setRange(0, _BAR_STEPS)
        self.bar.setTextVisible(False)
        self.status = label("", "value", wraps=True)
        self.problem = label("", "muted", wraps=True)
        self.files = label("", "muted", wraps=True)
        self.files.hide()
        self.pause = push_button(tr("Pause"), tr("Pause the download of {pair}").format(pair=name), self.pause_wanted)
        self.resume = push_button(
            tr("Resume"), tr("Go on with the download of {pair}").format(pair=name), self.resume_wanted
        )
        self.retry = push_button(
            tr("Try again"), tr("Try the download of {pair} again").format(pair=name), self.resume_wanted
        )
        self.cancel = push_button(tr("Cancel"), tr("Cancel the download of {pair}").format(pair=name))
        self.keep = push_button(tr("Keep what arrived"), tr("Cancel, and keep what has arrived for later"))
        self.delete = push_button(tr("Delete what arrived"), tr("Cancel, and delete what has arrived"))
        self.go_on = push_button(tr("Do not cancel"), tr("Leave the download of {pair} as it is").format(pair=name))
        self.dismiss = push_button(
            tr("Dismiss"), tr("Leave the failed download of {pair}").format(pair=name), self.dismissed
        )
        self.show_files = push_button(tr("Files"), tr("Show the files of {pair}").format(pair=name))
        self._connect()
        self._lay_out()
        self._asking = False

    def _connect(self) -> None:
        self.cancel.clicked.connect(lambda: self._ask(True))
        self.go_on.clicked.connect(lambda: self._ask(False))
        self.keep.clicked.connect(lambda: self._cancel(keep=True))
        self.delete.clicked.connect(lambda: self._cancel(keep=False))
        self.show_files.setCheckable(True)
        self.show_files.toggled.connect(self.files.setVisible)

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for button in self.buttons():
            buttons.addWidget(button)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(6)
        for widget in (self.bar, self.status, self.problem):
            layout.addWidget(widget)
        layout.addLayout(buttons)
        layout.addWidget(self.files)

    def buttons(self) -> tuple[QPushButton, ...]:
        """In the order in which they stand."""
        first = (self.pause, self.resume, self.retry, self.cancel, self.dismiss, self.show_files)
        return (*first, self.keep, self.delete, self.go_on)

    def show_progress(self, progress: PairProgress) -> None:
        """Show how far it is."""
        self._progress = progress
        share = progress.bytes_done / progress.bytes_total if progress.bytes_total else 0.0
        self.bar.setValue(int(_BAR_STEPS * share))
        set_style_property(self.bar, "failed", progress.state == "failed")
        line = words.progress_line(progress)
        spoken = tr("Download of {pair}: {percent} %, {progress}")
        self.bar.setAccessibleName(spoken.format(pair=self._name, percent=progress.percent, progress=line))
        self.status.setText(line)
        problem = progress.problem
        self.problem.setText(" ".join(part for part in (problem.sentence, problem.hint) if part) if problem else "")
        self.problem.setVisible(problem is not None)
        files = progress.files
        verified = sum(file.state == "done" for file in files)
        self.show_files.setText(tr("Files: {verified} of {files} verified").format(verified=verified, files=len(files)))
        self.files.setText("\n".join(words.file_line(file) for file in files))
        self._show_buttons()

    def _show_buttons(self) -> None:
        state = self._progress.state
        going = state not in ENDED and not self._asking
        self.pause.setVisible(going and state != "paused")
        self.resume.setVisible(going and state == "paused")
        self.cancel.setVisible(going)
        self.retry.setVisible(state == "failed")
        self.dismiss.setVisible(state == "failed")
        self.show_files.setVisible(bool(self.files.text()) and not self._asking)
        asking = self._asking and state not in ENDED
        for button in (self.keep, self.delete, self.go_on):
            button.setVisible(asking)

    def _ask(self, asking: bool) -> None:
        self._asking = asking
        self._show_buttons()
        (self.keep if asking else self.cancel).setFocus()

    def _cancel(self, *, keep: bool) -> None:
        self._asking = False
        self.cancel_wanted.emit(keep)
