"""The page of settings, built from their declarations. Each change holds at once and is kept."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QFrame, QHBoxLayout, QLineEdit, QScrollArea, QVBoxLayout, QWidget

from app.language import tr
from app.settings.fields import PairChoice
from app.settings.model import SettingsModel
from app.settings.row import SettingRow
from app.settings.storage_section import StorageSection
from app.widgets import label, line, push_button, set_kind
from core.errors import Problem
from core.pairs import Pair
from core.settings import DECLARATIONS, Group

_SMALLEST, _FIRST_SIZE = QSize(560, 420), QSize(780, 580)


class SettingsPage(QDialog):
    """A window beside the chat's."""

    def __init__(self, model: SettingsModel, storage: StorageSection, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Settings"))
        self.setMinimumSize(_SMALLEST)
        self._model = model
        self.rows = {declaration.name: SettingRow(declaration) for declaration in DECLARATIONS}
        self._headings: dict[Group, list[QWidget]] = {}
        self.storage = storage
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search settings"))
        self.search.setAccessibleName(tr("Search settings"))
        self.search.setClearButtonEnabled(True)
        self.close_button = push_button(tr("Close"), tr("Back to the chat; everything is kept"))
        self.note = label("", "muted", wraps=True)
        self._lay_out()
        self._connect()
        for name in self.rows:
            self._show(name)
        self.resize(_FIRST_SIZE)
        self.search.setFocus()

    def open_now(self) -> None:
        """Show the settings as they stand, and what is stored."""
        self._model.look_again()
        self.storage.measure()
        self.show()
        self.activateWindow()

    def offer_pair(self, pair: Pair | None) -> None:
        """A pair that could be loaded at every start."""
        field = self.rows["pair"].field
        assert isinstance(field, PairChoice)
        field.offer(pair)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """What was typed and not taken yet is taken now."""
        self.close_button.setFocus()
        super().hideEvent(event)

    # ------------------------------------------------------------------- layout

    def _lay_out(self) -> None:
        top = QVBoxLayout()
        top.setContentsMargins(20, 16, 20, 8)
        top.setSpacing(8)
        title = QHBoxLayout()
        title.addWidget(label(tr("Settings"), "title"), 1)
        title.addWidget(self.close_button)
        top.addLayout(title)
        top.addWidget(self.search)
        body = QWidget()
        set_kind(body, "picker")
        self._list = QVBoxLayout(body)
        self._list.setContentsMargins(20, 4, 20, 20)
        self._list.setSpacing(12)
        for row in self.rows.values():
            if row.declaration.group not in self._headings:
                self._add_heading(row.declaration.group)
            self._list.addWidget(row)
        self._list.addWidget(self.storage)
        self._list.addWidget(self.note)
        self._list.addStretch(1)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addWidget(self.area, 1)

    def _add_heading(self, group: Group) -> None:
        parts = [label(tr(group), "strong")]
        heading: list[QWidget] = [*([line()] if self._headings else []), *parts]
        self._headings[group] = heading
        for widget in heading:
            self._list.addWidget(widget)

    def _connect(self) -> None:
        for name, row in self.rows.items():
            row.edited.connect(lambda value, name=name: self._model.set(name, value))
            row.reset_wanted.connect(lambda name=name: self._reset(name))
        self._model.changed.connect(self._show)
        self._model.refused.connect(self._show_problem)
        self.search.textChanged.connect(self._filter)
        self.close_button.clicked.connect(self.close)
        QShortcut(QKeySequence("Ctrl+F"), self).activated.connect(self.search.setFocus)

    # -------------------------------------------------------------------- values

    def _show(self, name: str) -> None:
        self.rows[name].show_value(getattr(self._model.values, name), self._model.is_default(name))
        if name == "simple":
            self._filter()

    def _show_problem(self, name: str, problem: Problem) -> None:
        self.rows[name].show_problem(problem, getattr(self._model.values, name))

    def _reset(self, name: str) -> None:
        self.rows[name].field.setFocus()  # the button goes away
        self._model.reset(name)
        self._show(name)

    def _filter(self) -> None:
        """Show what the search finds; without one, all but what only experts need in the simple window."""
        wanted = self.search.text().lower().split()
        hidden = 0
        shown_groups = set()
        for row in self.rows.values():
            expert = row.declaration.expert and self._model.values.simple and not wanted
            shown = not expert and all(word in row.words() for word in wanted)
            hidden += expert
            row.setVisible(shown)
            if shown:
                shown_groups.add(row.declaration.group)
        for group, heading in self._headings.items():
            for widget in heading:
                widget.setVisible(group in shown_groups)
        self.storage.setVisible(all(word in self.storage.words() for word in wanted))
        found = bool(shown_groups) or not self.storage.isHidden()
        hidden_text = tr("The simple window hides {count} settings for experts; a search finds them.")
        note = hidden_text.format(count=hidden) if hidden else "" if found else tr("No setting is named so.")
        self.note.setText(note)
        self.note.setVisible(bool(note))
