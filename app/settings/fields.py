"""Fields for values of settings, one class a kind: `show_value` tells nothing, `edited` has what the user chose."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QWheelEvent
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QLineEdit, QPlainTextEdit, QSpinBox

from app.combo_box import ComboBox
from app.language import tr
from app.widgets import set_kind
from core.pairs import Pair
from core.settings import Declaration

_SIDE_PX = 10


class Switch(QCheckBox):
    """On or off."""

    edited = Signal(object)

    def __init__(self, _declaration: Declaration) -> None:
        super().__init__()
        self.clicked.connect(lambda: self.edited.emit(self.isChecked()))

    def show_value(self, value: bool) -> None:
        """Show a value."""
        self.setChecked(value)


class Choice(ComboBox):
    """One of several values."""

    edited = Signal(object)

    def __init__(self, declaration: Declaration) -> None:
        super().__init__()
        self.setSizeAdjustPolicy(ComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        for value, text in declaration.choices:
            self.addItem(tr(text), value)
        self.activated.connect(lambda: self.edited.emit(self.currentData()))

    def show_value(self, value: str) -> None:
        """Show a value."""
        self.setCurrentIndex(self.findData(value))


class PairChoice(ComboBox):
    """The pair used last, or always the same one."""

    edited = Signal(object)

    def __init__(self, _declaration: Declaration) -> None:
        super().__init__()
        self._pairs: list[Pair | None] = [None]
        self.addItem(tr("The one used last"))
        self.setSizeAdjustPolicy(ComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.activated.connect(lambda: self.edited.emit(self._pairs[self.currentIndex()]))

    def offer(self, pair: Pair | None) -> None:
        """Let a pair be chosen as well."""
        if pair not in self._pairs and pair is not None:
            self._pairs.append(pair)
            self.addItem(pair.name)

    def show_value(self, value: Pair | None) -> None:
        """Show a value."""
        self.offer(value)
        self.setCurrentIndex(self._pairs.index(value))


class WholeNumber(QSpinBox):
    """A whole number with its unit."""

    edited = Signal(object)

    def __init__(self, declaration: Declaration) -> None:
        super().__init__()
        self.lineEdit().setTextMargins(_SIDE_PX, 0, _SIDE_PX, 0)
        self.setRange(int(declaration.least or 0), int(declaration.greatest or 0))
        self.setSuffix(f" {tr(declaration.unit)}" if declaration.unit else "")
        self.setGroupSeparatorShown(True)
        self.setKeyboardTracking(False)  # a number half typed is none
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.valueChanged.connect(self.edited.emit)

    def show_value(self, value: int) -> None:
        """Show a value."""
        self.blockSignals(True)
        self.setValue(value)
        self.blockSignals(False)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the page."""
        event.ignore()


class Number(QDoubleSpinBox):
    """A number with two digits behind the point."""

    edited = Signal(object)

    def __init__(self, declaration: Declaration) -> None:
        super().__init__()
        self.lineEdit().setTextMargins(_SIDE_PX, 0, _SIDE_PX, 0)
        self.setRange(declaration.least or 0.0, declaration.greatest or 0.0)
        self.setSingleStep(0.1)
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.valueChanged.connect(self.edited.emit)

    def show_value(self, value: float) -> None:
        """Show a value."""
        self.blockSignals(True)
        self.setValue(value)
        self.blockSignals(False)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the page."""
        event.ignore()


class Line(QLineEdit):
    """One line of text, taken with Enter or when the field is left."""

    edited = Signal(object)

    def __init__(self, _declaration: Declaration) -> None:
        super().__init__()
        self._shown = ""
        self.editingFinished.connect(self._on_finished)

    def show_value(self, value: str) -> None:
        """Show a value."""
        self._shown = value
        self.setText(value)

    def _on_finished(self) -> None:
        text = self.text().strip()
        if text != self._shown:
            self._shown = text
            self.edited.emit(text)


class Lines(QPlainTextEdit):
    """Several lines of text, taken when the field is left."""

    edited = Signal(object)

    def __init__(self, declaration: Declaration) -> None:
        super().__init__()
        set_kind(self, "field")
        self._shown = ""
        self._lines = declaration.lines
        self.setTabChangesFocus(True)
        self.setFixedHeight(self._lines * self.fontMetrics().lineSpacing() + 18)

    def show_value(self, value: str) -> None:
        """Show a value."""
        self._shown = value
        self.setPlainText(value)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Take the text."""
        super().focusOutEvent(event)
        text = self.toPlainText()
        if text != self._shown:
            self._shown = text
            self.edited.emit(text)


AnyField = Switch | Choice | PairChoice | WholeNumber | Number | Line | Lines


def make_field(declaration: Declaration) -> AnyField:
    """The field for a setting."""
    if declaration.kind == "text" and declaration.lines > 1:
        return Lines(declaration)
    kinds: dict[str, type[AnyField]] = {
        "switch": Switch,
        "choice": Choice,
        "pair": PairChoice,
        "whole number": WholeNumber,
        "number": Number,
        "text": Line,
    }
    return kinds[declaration.kind](declaration)
