"""The dialog "Check this pair": prompts, progress, a table of prompts, a table of modes, a verdict."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QProgressBar,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from app.check import words
from app.check.check_model import CheckModel, CheckState
from app.flow_layout import FlowLayout
from app.language import tr
from app.notice import ProblemNotice
from app.pairs.mode_selector import Devices, mode_label
from app.widgets import label, named, number_field, push_button, scrolled_page, set_kind, set_style_property
from core.bench.prompts import FEW_PROMPTS, read_prompts

_SMALLEST, _FIRST_SIZE = QSize(640, 460), QSize(1120, 700)
_TOKENS_AT_FIRST, _MOST_TOKENS = 64, 4096
_DIFFERENCE = 2  # the column whose text may be long


class CheckDialog(QDialog):
    """A window beside the chat's. Closing it stops the check."""

    def __init__(self, model: CheckModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Check this pair"))
        self.setMinimumSize(_SMALLEST)
        self._model = model
        self._devices = Devices()
        self._prompts_file: Path | None = None
        self._filled = 0  # of the findings, in the table of prompts
        self.prompts = label("", "muted")
        self.choose_file = push_button(
            tr("Own prompts…"), tr("A text file with one prompt a line, or a JSON list of strings")
        )
        self.built_in = push_button(tr("Built-in prompts"), tr("Ten prompts of several kinds"))
        self.tokens = number_field(1, _MOST_TOKENS, _TOKENS_AT_FIRST, tr("Tokens of each answer at most"))
        self.start = push_button(tr("Start"), tr("Check the loaded pair"))
        set_kind(self.start, "primary")
        self.stop = push_button(tr("Stop"), tr("Stop the check; what was found stays"))
        set_kind(self.stop, "stop")
        self.copy = push_button(tr("Copy as text"), tr("Copy all findings, as `mirror-sd check` shows them"))
        self.close_button = push_button(tr("Close"), tr("Back to the chat; a check under way is stopped"))
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Progress of the check"))
        self.stage = label("", "muted")
        self.summary = label("", "verdict", wraps=True)
        self.summary.setAccessibleName(tr("Verdict"))
        self.missing = label("", "muted", wraps=True)
        self.notice = ProblemNotice()
        self.by_prompt = _table(tr("Answers by prompt and mode"))
        self.by_mode = _table(tr("Modes"))
        self._lay_out()
        self._connect()
        self._show()
        self.resize(_FIRST_SIZE)
        self.start.setFocus()

    def set_devices(self, devices: Devices) -> None:
        """What the modes run on."""
        self._devices = devices

    def use_prompts(self, path: Path | None) -> None:
        """Check with the prompts of this file; None for the built-in ones."""
        self._prompts_file = path
        self._show()

    def reject(self) -> None:
        """Close."""
        self._model.stop()
        super().reject()

    # ------------------------------------------------------------------- layout

    def _lay_out(self) -> None:
        choice = FlowLayout()
        for widget in (self.prompts, self.built_in, self.choose_file, named(tr("Tokens"), self.tokens)):
            choice.addWidget(widget)
        course = QHBoxLayout()
        course.setSpacing(8)
        course.addWidget(self.bar, 1)
        course.addWidget(self.start)
        course.addWidget(self.stop)
        below = QHBoxLayout()
        below.addWidget(self.copy)
        below.addStretch()
        below.addWidget(self.close_button)
        _, layout = scrolled_page(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(10)
        layout.addWidget(label(tr("Check this pair"), "title"))
        layout.addWidget(self.summary)
        layout.addLayout(choice)
        layout.addLayout(course)
        layout.addWidget(self.stage)
        layout.addWidget(self.notice)
        layout.addWidget(self.by_mode, 2)
        layout.addWidget(self.missing)
        layout.addWidget(self.by_prompt, 3)
        layout.addLayout(below)

    def _connect(self) -> None:
        self._model.changed.connect(self._show)
        self._model.failed.connect(lambda problem: self.notice.show_problem(problem, can_retry=False))
        self.start.clicked.connect(self._start)
        self.stop.clicked.connect(self._model.stop)
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._model.text()))
        self.close_button.clicked.connect(self.reject)
        self.built_in.clicked.connect(lambda: self.use_prompts(None))
        self.choose_file.clicked.connect(self._choose_file)

    def _start(self) -> None:
        self.notice.hide()
        path = self._prompts_file
        self._model.start(lambda: read_prompts(path) if path else FEW_PROMPTS, self.tokens.value())

    def _choose_file(self) -> None:
        dialog = QFileDialog(self, tr("Prompts"), "", tr("Prompts (*.txt *.json);;All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda name: self.use_prompts(Path(name)))
        dialog.open()

    # ------------------------------------------------------------- what is shown

    def _show(self) -> None:
        model = self._model
        path = self._prompts_file
        own, built_in = tr("Prompts: {file}"), tr("Prompts: {count} built-in ones")
        self.prompts.setText(own.format(file=path.name) if path else built_in.format(count=len(FEW_PROMPTS)))
        for widget in (self.built_in, self.choose_file, self.tokens, self.start):
            widget.setEnabled(not model.running)
        self.stop.setEnabled(model.state is CheckState.RUNNING)
        self.copy.setEnabled(model.started is not None)
        text, dress = words.summary(model, self._devices)
        checking = tr("Checking {pair}.").format(pair=model.request.pair.name) if model.request else ""
        self.summary.setText(text or checking)
        set_style_property(self.summary, "dress", dress)
        self._show_progress()
        started = model.started
        missing = tuple((each.mode, each.reason) for each in started.missing) if started else ()
        self.missing.setText(words.missing_lines(missing, self._devices))
        self.missing.setVisible(bool(missing))
        self._show_prompts()
        self._show_modes()

    def _show_progress(self) -> None:
        model, progress = self._model, self._model.progress
        if model.state is CheckState.DONE:
            self.bar.setRange(0, 1)
            self.bar.setValue(1)
        elif progress is None or not progress.total:
            self.bar.setRange(0, 0 if model.running else 1)  # 0 to 0 moves without an end
            self.bar.setValue(0)
        else:
            self.bar.setRange(0, progress.total)
            self.bar.setValue(progress.done)
        running = model.running and progress is not None
        self.stage.setText(f"{progress.stage[:1].upper()}{progress.stage[1:]}" if running and progress else " ")

    def _show_prompts(self) -> None:
        started, table = self._model.started, self.by_prompt
        if started is None or self._model.request is None:
            table.setRowCount(0)
            self._filled = 0
            return
        header = [tr("Prompt"), *(f"{mode_label(mode, self._devices)}, tok/s" for mode in started.modes)]
        if not table.rowCount():
            table.setColumnCount(len(header))
            table.setHorizontalHeaderLabels(header)
            table.setRowCount(started.prompts)
            for row, prompt in enumerate(self._model.request.prompts):
                _set_cell(table, row, 0, prompt.replace("\n", " "), prompt[:2000])
            _stretch(table, 0)
        for checked in self._model.checked[self._filled :]:
            column = started.modes.index(checked.mode) + 1
            _set_cell(table, checked.prompt, column, words.prompt_cell(checked), words.prompt_cell_help(checked))
        self._filled = len(self._model.checked)

    def _show_modes(self) -> None:
        """The figures so far, then those of the verdict."""
        model, table, devices = self._model, self.by_mode, self._devices
        if model.started is None:
            table.setRowCount(0)
            return
        if not table.rowCount():
            table.setColumnCount(len(words.MODE_HEADER))
            table.setHorizontalHeaderLabels(list(words.MODE_HEADER))
            for column, text in enumerate(words.MODE_HELP):
                if (item := table.horizontalHeaderItem(column)) is not None:
                    item.setToolTip(text)
            table.setRowCount(len(model.started.modes))
            _stretch(table, _DIFFERENCE)
            _show_all_rows(table)
        if model.verdict is not None:
            speed = model.verdict.modes[0].tokens_per_second
            rows = [words.mode_cells(each, speed, devices) for each in model.verdict.modes]
        else:
            rows = [words.running_cells(mode, model.checked, devices) for mode in model.started.modes]
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                _set_cell(table, row, column, text, text)


def _table(name: str) -> QTableWidget:
    table = QTableWidget()
    table.setAccessibleName(name)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setTabKeyNavigation(False)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.verticalHeader().hide()
    return table


def _stretch(table: QTableWidget, column: int) -> None:
    header = table.horizontalHeader()
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)


def _show_all_rows(table: QTableWidget) -> None:
    rows_px = sum(table.rowHeight(row) for row in range(table.rowCount()))
    around_px = table.horizontalScrollBar().sizeHint().height() + 2 * table.frameWidth()
    table.setMinimumHeight(table.horizontalHeader().sizeHint().height() + rows_px + around_px)


def _set_cell(table: QTableWidget, row: int, column: int, text: str, tip: str) -> None:
    item = table.item(row, column)
    if item is None:
        item = QTableWidgetItem()
        if column:
            item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
        table.setItem(row, column, item)
    if item.text() != text:
        item.setText(text)
        item.setToolTip(tip)
