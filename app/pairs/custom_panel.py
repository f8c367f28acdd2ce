"""A pair of the user's own: two names, the verdicts on them, and the way into the list."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.language import tr
from app.pairs.custom_row import CustomPair
from app.widgets import label, push_button, set_kind
from core.errors import Problem
from core.pairs.locate import DEMO
from core.pairs.verdicts import Compatibility

_MARKS = {"failed": "✗", "warning": "!", "unknown": "?"}


def verdict_lines(compatibility: Compatibility) -> str:
    """All verdicts but the good ones, and how many those are."""
    lines = [f"{_MARKS[v.outcome]} {v.sentence}" for v in compatibility.verdicts if v.outcome != "ok"]
    good = sum(v.outcome == "ok" for v in compatibility.verdicts)
    return "\n".join([*lines, tr("✓ {count} checks passed.").format(count=good)])


class CustomPanel(QFrame):
    """Asks for a target and a draft, and shows what was found out."""

    check_wanted = Signal(str, str)
    add_wanted = Signal(object)
    """`CustomPair`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "pair-card")
        self.setAccessibleName(tr("A pair of your own"))
        self.target = _field(tr("Target: a folder, a GGUF file, or owner/name on the hub"))
        self.draft = _field(tr("DFlash draft: a folder, or owner/name on the hub; may stay empty"))
        self.check = push_button(
            tr("Check"), tr("Tell whether the two fit, or which known drafts fit; nothing is downloaded")
        )
        self.add = push_button(tr("Add to the list"), tr("Show this pair among the others"))
        set_kind(self.add, "primary")
        self.headline = label("", "strong", wraps=True)
        self.verdicts = label("", "value", wraps=True)
        self._custom: CustomPair | None = None
        grid = QGridLayout()
        grid.setSpacing(8)
        target_folder = self._browse(
            self.target,
            tr("Target: choose its folder"),
            tr("Choose the folder of the target"),
            tr("Choose the target's folder"),
        )
        draft_folder = self._browse(
            self.draft,
            tr("Draft: choose its folder"),
            tr("Choose the folder of the draft"),
            tr("Choose the draft's folder"),
        )
        for row, (field, name, browse) in enumerate(
            ((self.target, tr("Target"), target_folder), (self.draft, tr("Draft"), draft_folder))
        ):
            grid.addWidget(label(name, "strong"), row, 0)
            grid.addWidget(field, row, 1)
            grid.addWidget(browse, row, 2)
        buttons = QHBoxLayout()
        buttons.addWidget(self.check)
        buttons.addWidget(self.add)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(8)
        layout.addLayout(grid)
        layout.addLayout(buttons)
        layout.addWidget(self.headline)
        self.fitting = QVBoxLayout()
        layout.addLayout(self.fitting)
        layout.addWidget(self.verdicts)
        self._connect()
        self._tell("", "")

    def _connect(self) -> None:
        self.check.clicked.connect(self._check)
        for field in (self.target, self.draft):
            field.returnPressed.connect(self._check)
            field.textEdited.connect(lambda _text: self._tell("", ""))
        self.add.clicked.connect(self._add)

    def _browse(self, field: QLineEdit, title: str, tip: str, name: str) -> QPushButton:
        def choose() -> None:
            folder = QFileDialog.getExistingDirectory(self, title)
            if folder:
                field.setText(folder)
                self._tell("", "")

        button = push_button(tr("Folder …"), tip)
        button.setAccessibleName(name)
        button.clicked.connect(choose)
        return button

    def show_outcome(self, outcome: CustomPair | Problem) -> None:
        """Show what was found out."""
        self.check.setEnabled(True)
        if isinstance(outcome, Problem):
            self._tell(outcome.sentence, outcome.hint)
            return
        compatibility = outcome.inspection.compatibility
        if not outcome.draft:
            self._tell_fitting(outcome)
            return
        self._tell(
            tr("This pair can be run.") if compatibility.runs else tr("This pair cannot be run."),
            verdict_lines(compatibility),
            outcome if compatibility.runs else None,
        )

    def _tell_fitting(self, outcome: CustomPair) -> None:
        """Which known drafts there are for a target that was named alone."""
        runs, fitting = outcome.inspection.compatibility.runs, outcome.inspection.fitting
        usable = [fit for fit in fitting if fit.runs]
        if not runs:
            headline = tr("This target cannot be run.")
        elif usable:
            headline = tr("This target can be run. These known drafts have its numbers:")
        else:
            headline = tr("This target can be run. No known draft has its numbers.")
        self._tell(headline, verdict_lines(outcome.inspection.compatibility))
        for fit in usable if runs else ():
            text = tr("{draft} (made for it)") if fit.made_for else tr("{draft} (made for another target)")
            tip = tr("Name {draft} as the draft and check the pair")
            button = push_button(text.format(draft=fit.draft), tip.format(draft=fit.draft))
            button.clicked.connect(lambda _checked=False, draft=fit.draft: self.name(self.target.text(), draft))
            self.fitting.addWidget(button)

    def name(self, target: str, draft: str) -> None:
        """Fill the fields in, and check what stands there then."""
        self.target.setText(target)
        self.draft.setText(DEMO if draft == "demo-draft" else draft)
        self._check()

    def _check(self) -> None:
        self._tell(tr("Reading configs and headers …"), "")
        self.check.setEnabled(False)
        self.check_wanted.emit(self.target.text(), self.draft.text())

    def _add(self) -> None:
        if self._custom is not None:
            self.add_wanted.emit(self._custom)
            self._tell("", "")

    def _tell(self, headline: str, verdicts: str, custom: CustomPair | None = None) -> None:
        self._custom = custom
        while (item := self.fitting.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        for widget, text in ((self.headline, headline), (self.verdicts, verdicts)):
            widget.setText(text)
            widget.setVisible(bool(text))
        self.add.setVisible(custom is not None)


def _field(description: str) -> QLineEdit:
    field = QLineEdit()
    field.setPlaceholderText(description)
    field.setAccessibleName(description)
    return field
