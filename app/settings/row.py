"""One setting on the page: what it is, its field, the way back to the default, and why a value was not taken."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QFileDialog, QHBoxLayout, QVBoxLayout, QWidget

from app.language import tr
from app.settings.fields import Line, Lines, make_field
from app.theme import is_large_text, scaled
from app.widgets import label, push_button, set_kind
from core.errors import Problem
from core.settings import Declaration

_FIELD_WIDTH = 310
_MOST_FIELD_WIDTH = 540


class SettingRow(QWidget):
    """Shows one setting; what the user does with it is told, not done."""

    edited = Signal(object)
    """The value that the user wants."""
    reset_wanted = Signal()

    def __init__(self, declaration: Declaration, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.declaration = declaration
        text, hint = tr(declaration.label), tr(declaration.hint)
        self.field = make_field(declaration)
        self.field.setAccessibleName(text)
        self.field.setAccessibleDescription(hint)
        self.field.edited.connect(self.edited)
        name = label(text, "name", wraps=True)
        name.setBuddy(self.field)
        self.hint = label(hint, "muted", wraps=True)
        self.hint.setVisible(bool(hint))
        self.problem = label("", "bad", wraps=True)
        self.problem.hide()
        self.reset = push_button(tr("Reset"), tr("Back to the default"), self.reset_wanted)
        self.reset.setAccessibleName(tr("Reset: {setting}").format(setting=text))
        set_kind(self.reset, "quiet")
        keeps = self.reset.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)  # or fields would move
        self.reset.setSizePolicy(keeps)
        self._layout = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._lay_out(name)

    def words(self) -> str:
        """What a search looks in."""
        declaration = self.declaration
        choices = " ".join(tr(text) for _, text in declaration.choices)
        return f"{tr(declaration.group)} {tr(declaration.label)} {tr(declaration.hint)} {choices}".lower()

    def show_value(self, value: Any, is_default: bool) -> None:
        """Show what is kept."""
        self.field.show_value(value)
        self.problem.hide()
        self.reset.setVisible(not is_default)

    def show_problem(self, problem: Problem, value: Any) -> None:
        """The value was not taken; a text stays as it was typed, to be corrected."""
        if not isinstance(self.field, Line | Lines):
            self.field.show_value(value)
        self.problem.setText(f"{problem.sentence} {problem.hint}".strip())
        self.problem.show()
        self.reset.show()

    def _lay_out(self, name: QWidget) -> None:
        texts = QVBoxLayout()
        texts.setSpacing(2)
        for widget in (name, self.hint, self.problem):
            texts.addWidget(widget)
        texts.addStretch()
        fields = QHBoxLayout()
        fields.setSpacing(6)
        if self.declaration.kind == "switch":
            fields.addStretch()
        fields.addWidget(self.field, 0 if self.declaration.kind == "switch" else 1)
        if self.declaration.name.endswith("_folder"):
            choose = push_button(tr("Choose …"), tr("Choose a folder"))
            choose.setAccessibleName(tr("Choose: {setting}").format(setting=tr(self.declaration.label)))
            choose.clicked.connect(self._choose_folder)
            fields.addWidget(choose)
        column = self._column = QWidget()
        fields.setContentsMargins(0, 0, 0, 0)
        column.setLayout(fields)
        self._fit()
        controls = QHBoxLayout()
        controls.setSpacing(12)
        controls.addStretch()
        controls.addWidget(column, 0, Qt.AlignmentFlag.AlignTop)
        controls.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignTop)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(12)
        self._layout.addLayout(texts, 1)
        self._layout.addLayout(controls)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    def _fit(self) -> None:
        """All fields are as wide as each other; beside large text there is no room for one."""
        large = is_large_text()
        self._layout.setDirection(QBoxLayout.Direction.TopToBottom if large else QBoxLayout.Direction.LeftToRight)
        if self.declaration.kind != "switch":
            self._column.setFixedWidth(min(scaled(_FIELD_WIDTH), _MOST_FIELD_WIDTH))
            self.field.setMinimumHeight(scaled(30))

    def _choose_folder(self) -> None:
        dialog = QFileDialog(self, tr(self.declaration.label))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.fileSelected.connect(self.edited.emit)
        dialog.open()
