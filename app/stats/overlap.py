"""The overlap timeline with its legend, the figures of the step under the pointer, zoom and export."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QDialog, QFileDialog, QSizePolicy, QVBoxLayout, QWidget

from app.flow_layout import FlowLayout
from app.language import tr
from app.pairs.mode_selector import Devices
from app.stats import words
from app.stats.lane_paint import work_box, work_brush
from app.stats.painted import PaintedFigure, Role
from app.stats.row import FigureRow
from app.stats.step_record import AnswerRecord, StepRecord, Work
from app.stats.timeline import Timeline
from app.stats.trace_file import write_trace
from app.theme import SMALL_PX, colors, scaled, sized
from app.widgets import label, push_button, set_kind
from core.errors import MirrorError

_HINT = tr("Point at a step, or use the keys comma and full stop.")
_DETAIL_LINES = 4
_LARGE = QSize(1000, 280)
_SWATCH = QSize(14, 10)
_LEGEND_ROW_PX = 17
_LEGEND = (
    (Work.VERIFY, tr("verification")),
    (Work.DRAFT, tr("draft, after it")),
    (Work.PROPOSE, tr("making proposals")),
    (Work.HIT, tr("draft beside: hit ●")),
    (Work.DISCARDED, tr("discarded")),
    (Work.REDRAFT, tr("after a miss ✕")),
)


class Legend(PaintedFigure):
    """Says what the colours, patterns and shapes mean."""

    def __init__(self, columns: int = 2, parent: QWidget | None = None) -> None:
        super().__init__(Role.Graphic, tr("Legend"), parent)
        self._columns = columns
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleDescription(", ".join(name for _, name in _LEGEND))

    def sizeHint(self) -> QSize:  # noqa: N802
        """All rows."""
        return QSize(scaled(120), scaled(_LEGEND_ROW_PX) * -(-len(_LEGEND) // self._columns))

    def set_columns(self, columns: int) -> None:
        """So many side by side."""
        self._columns = columns
        self.updateGeometry()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw it, row by row."""
        painter = QPainter(self)
        painter.setFont(sized(self.font(), scaled(SMALL_PX - 1)))
        width, row_px = self.width() / self._columns, scaled(_LEGEND_ROW_PX)
        swatch = QSize(scaled(_SWATCH.width()), scaled(_SWATCH.height()))
        for index, (work, name) in enumerate(_LEGEND):
            row, column = divmod(index, self._columns)
            x, y = column * width, row * row_px
            box = QRectF(x, y + (row_px - swatch.height()) / 2, swatch.width(), swatch.height())
            painter.fillRect(box, QColor(colors().track))
            painter.fillRect(work_box(work, box), work_brush(work))
            painter.setPen(QColor(colors().muted))
            left = swatch.width() + 5
            text = QRectF(x + left, y, width - left, row_px)
            painter.drawText(text, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)


class OverlapView(QWidget):
    """The timeline and what belongs to it."""

    problem_met = Signal(object)
    """`Problem`: the trace could not be written."""
    enlarge_requested = Signal()

    def __init__(self, large: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._record = AnswerRecord()
        self._devices = Devices()
        self.hidden = FigureRow(tr("Draft time beside the target"), tr("Known once a draft has worked in this answer."))
        self.timeline = Timeline()
        self.legend = Legend()
        self.counts = label("", "muted", wraps=True)
        self.detail = label(_HINT, "muted", wraps=True)
        self.detail.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.detail.setAccessibleName(tr("Figures of the step"))
        self._lines = {self.counts: 1 if large else 2, self.detail: 2 if large else _DETAIL_LINES}
        self._columns = 3 if large else 2
        self.zoom_out = push_button("\u2212", tr("Show more time (-)"))
        self.zoom_out.setAccessibleName(tr("Zoom out"))
        self.zoom_in = push_button("+", tr("Show less time (+)"))
        self.zoom_in.setAccessibleName(tr("Zoom in"))
        self.all = push_button(tr("All"), tr("The whole answer (Home)"))
        self.newest = push_button(tr("Newest"), tr("Follow the newest steps (End)"))
        self.enlarge = push_button(tr("Larger…"), tr("The timeline in a window of its own"))
        self.export = push_button(tr("Export…"), tr("Write the steps as a trace for ui.perfetto.dev: times, no text"))
        if large:
            self.enlarge.hide()
        self._lay_out()
        self._connect()
        self.set_narrow(False)
        self.show_record(self._record)

    def show_record(self, record: AnswerRecord) -> None:
        """Show this answer as it stands."""
        self._record = record
        self.timeline.show_record(record)
        self.hidden.show_value(words.MISSING if record.overlap is None else f"{100 * record.overlap:.0f} %")
        self.counts.setText(words.overlap_line(record))
        self.export.setEnabled(bool(record.steps))

    def set_devices(self, devices: Devices) -> None:
        """What the modes run on."""
        self._devices = devices

    def export_to(self, path: Path) -> None:
        """Write the trace there."""
        try:
            write_trace(self._record, path)
        except MirrorError as error:
            self.problem_met.emit(error.problem)
        else:
            written = tr("Written to {file}. It opens at ui.perfetto.dev, and in chrome://tracing.")
            self.detail.setText(written.format(file=path.name))

    def set_narrow(self, narrow: bool) -> None:
        """Whether there is less room than the text asks for."""
        self.legend.set_columns(1 if narrow else self._columns)
        for text, lines in self._lines.items():
            # Room for so many lines, so that nothing moves; where they are short there may be more of them.
            spacing = QFontMetrics(sized(self.font(), scaled(SMALL_PX))).lineSpacing()
            text.setMinimumHeight(0 if narrow else lines * spacing + 2)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for widget in (self.hidden, self.timeline, self.legend, self.counts, self.detail):
            layout.addWidget(widget)
        buttons = FlowLayout(spacing=2)
        for button in (self.zoom_out, self.zoom_in, self.all, self.newest, self.enlarge, self.export):
            set_kind(button, "tiny")
            buttons.addWidget(button)
        layout.addLayout(buttons)

    def _connect(self) -> None:
        self.timeline.step_pointed.connect(self._show_step)
        self.zoom_out.clicked.connect(lambda: self.timeline.zoom(1 / 1.5))
        self.zoom_in.clicked.connect(lambda: self.timeline.zoom(1.5))
        self.all.clicked.connect(self.timeline.show_all)
        self.newest.clicked.connect(self.timeline.show_latest)
        self.enlarge.clicked.connect(self.enlarge_requested)
        self.export.clicked.connect(self._choose_file)

    def _show_step(self, step: StepRecord | None) -> None:
        text = "" if step is None else words.step_lines(step, self._devices)
        self.detail.setText(text or _HINT)
        self.timeline.setAccessibleDescription(text)

    def _choose_file(self) -> None:
        dialog = QFileDialog(self, tr("Export the trace"), "mirror-sd-trace.json", tr("Trace (*.json)"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("json")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda name: self.export_to(Path(name)))
        dialog.open()


class TimelineWindow(QDialog):
    """The timeline at a size where single steps of long answers can be told apart."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Overlap timeline"))
        self.view = OverlapView(large=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 18, 18, 14)
        layout.addWidget(self.view)
        layout.addStretch()
        self.resize(_LARGE)
