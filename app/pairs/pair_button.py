"""The button that names the pair, tells its state, and loads or frees it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QSizePolicy, QWidget

from app.engine import STATE_WORDS, PairState, PairStatus
from app.language import tr
from app.theme import colors, scaled
from app.widgets import ElidedLabel, set_kind

LEAST_WIDTH, _MOST_WIDTH = 180, 420
_SIDE, _GAP, _DOT = 12, 8, 10
_DOT_COLORS = {
    PairState.NOT_READY: "muted",
    PairState.LOADING: "warn",
    PairState.READY: "good",
    PairState.FAILED: "bad",
}


def state_text(status: PairStatus) -> str:
    """The state in words: `loading 40 %`, `failed: The draft is damaged.`"""
    if status.state is PairState.LOADING and status.percent is not None:
        return tr("loading {percent} %").format(percent=status.percent)
    if status.state is PairState.FAILED and status.problem:
        return tr("failed: {problem}").format(problem=status.problem.sentence)
    return STATE_WORDS[status.state]


class PairButton(QPushButton):
    """Shows a dot, the pair's name and its state; a click opens what can be done."""

    load_requested = Signal()
    stop_requested = Signal()
    unload_requested = Signal()
    choice_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "pair")
        self._name = ElidedLabel("strong")
        self._state = ElidedLabel("muted")
        self._dot = _Dot()
        layout = self._row = QHBoxLayout(self)
        layout.setContentsMargins(_SIDE, 0, _SIDE, 0)
        layout.setSpacing(_GAP)
        for widget in (self._dot, self._name, self._state):
            widget.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            layout.addWidget(widget)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.clicked.connect(self._open_menu)
        self._downloads = ""
        self.show_status(PairStatus())

    @property
    def state_text(self) -> str:
        """The state as a whole, whatever of it shows."""
        return self._state.full_text()

    def show_downloads(self, text: str) -> None:
        """Show how downloads of pairs stand, beside the state; empty where there are none."""
        self._downloads = text
        self.show_status(self._status)

    def show_status(self, status: PairStatus) -> None:
        """Show the pair's state."""
        self._status = status
        self._name.set_full_text(status.name or tr("No pair"))
        self._dot.set_color(_DOT_COLORS[status.state])
        text = "  ·  ".join(part for part in (state_text(status), self._downloads) if part)
        self._state.set_full_text(text)
        self.setAccessibleName(tr("Pair {pair}, {state}").format(pair=self._name.full_text(), state=text))
        self.setToolTip("\n".join(part for part in self._details() if part))
        self.updateGeometry()
        self._fit()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for name and state, within reason."""
        return QSize(min(self._whole_width(), scaled(_MOST_WIDTH)), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Name and state give way."""
        return QSize(scaled(LEAST_WIDTH), super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More or less room."""
        super().resizeEvent(event)
        self._fit()

    def _whole_width(self) -> int:
        """With room for both texts, whether both show or not."""
        texts = self._name.sizeHint().width() + self._state.sizeHint().width()
        return texts + self._dot.sizeHint().width() + 2 * (_SIDE + _GAP) + 2

    def _fit(self) -> None:
        """That a pair is ready is the first thing to leave out: the dot tells it too."""
        spare = self._status.state is PairState.READY and not self._downloads
        self._state.setVisible(not spare or self.width() >= self._whole_width())

    def _details(self) -> list[str]:
        status = self._status
        lines = [self._name.full_text(), status.stage]
        if status.left_s is not None:
            lines.append(tr("about {seconds:.0f} s left, by earlier times").format(seconds=status.left_s))
        if status.problem:
            lines += [status.problem.sentence, status.problem.hint]
        if status.loaded:
            block, context = status.loaded.block_size, status.loaded.context_length
            with_draft = tr("block of {block}, context of {context:,} tokens")
            alone = tr("no draft, context of {context:,} tokens")
            lines.append((with_draft if block else alone).format(block=block, context=context))
            lines.append(tr("loaded in {seconds:.1f} s").format(seconds=status.loaded.load_s))
            if status.loaded.programs_on:
                lines.append(tr("the draft's programs run on: {device}").format(device=status.loaded.programs_on))
                lines.append(status.loaded.programs_origin)
            lines += [
                tr("{mode} is not there: {reason}").format(mode=missing.mode, reason=missing.reason)
                for missing in status.loaded.missing
            ]
        return lines

    def _open_menu(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for text in self._details():
            if text:
                menu.addAction(text).setEnabled(False)
        menu.addSeparator()
        menu.addAction(tr("Choose a pair …"), self.choice_requested.emit)
        if self._status.state is PairState.READY:
            menu.addAction(tr("Free its memory"), self.unload_requested.emit)
        elif self._status.state is PairState.LOADING:
            menu.addAction(tr("Stop loading"), self.stop_requested.emit)
        else:
            menu.addAction(tr("Load"), self.load_requested.emit)
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))


class _Dot(QWidget):
    """A dot in a colour of the theme."""

    def __init__(self) -> None:
        super().__init__()
        self._color = "muted"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(scaled(_DOT), scaled(_DOT))

    def set_color(self, name: str) -> None:
        self._color = name
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(getattr(colors(), self._color)))
        painter.drawEllipse(self.rect().adjusted(1, 1, -1, -1))
