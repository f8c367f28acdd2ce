"""What the hub found for the search, as rows below the cards."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.language import tr
from app.pairs.hub_search import HubResults
from app.widgets import label, push_button
from core.pairs.candidates import Candidate


class HubResultList(QWidget):
    """Shows results that it is given, each with what it could be or why it can be nothing."""

    named = Signal(str, str)
    """A target and a draft for a pair of the user's own; either may be empty."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = label(tr("At the hub"), "strong")
        self.state = label("", "muted", wraps=True)
        self.rows: list[QWidget] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 4, 0, 0)
        self._layout.setSpacing(8)
        self._layout.addWidget(self.title)
        self._layout.addWidget(self.state)
        self.hide()

    def show_results(self, results: HubResults) -> None:
        """Show how the search stands."""
        for row in self.rows:
            self._layout.removeWidget(row)
            row.deleteLater()
        self.rows = [self._row(candidate) for candidate in results.candidates]
        for row in self.rows:
            self._layout.addWidget(row)
        text = _state(results)
        self.state.setText(text)
        self.state.setVisible(bool(text))
        self.setVisible(bool(results.state))

    def _row(self, candidate: Candidate) -> QWidget:
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(16, 0, 16, 0)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        greyed = candidate.role == "none"
        texts.addWidget(label(candidate.repo, "muted" if greyed else "value", wraps=True))
        gated = " " + tr("Its owner gives access on request.") if candidate.gated else ""
        texts.addWidget(label(candidate.sentence + gated, "reason" if greyed else "muted", wraps=True))
        layout.addLayout(texts, 1)
        if not greyed:
            layout.addWidget(self._button(candidate))
        return row

    def _button(self, candidate: Candidate) -> QPushButton:
        is_target = candidate.role == "target"
        target, draft = (candidate.repo, candidate.partner) if is_target else (candidate.partner, candidate.repo)
        if candidate.partner:
            text, name = tr("As a pair …"), tr("{model}: as a pair")
        elif is_target:
            text, name = tr("As target …"), tr("{model}: as target")
        else:
            text, name = tr("As draft …"), tr("{model}: as draft")
        tip = tr("Name {model} for a pair of your own; nothing is downloaded yet")
        button = push_button(text, tip.format(model=candidate.repo))
        button.setAccessibleName(name.format(model=candidate.repo))
        button.clicked.connect(lambda: self.named.emit(target, draft))
        return button


def _state(results: HubResults) -> str:
    if results.problem is not None:
        if results.problem.kind == "HubOffline":
            return tr("Offline mode is on: only the catalog and this disk were searched.")
        text = tr("The hub was not searched: {problem} {hint}")
        return text.format(problem=results.problem.sentence, hint=results.problem.hint)
    if results.state == "searching":
        return tr("Searching …")
    if results.state == "found" and not results.candidates:
        return tr("The hub has no further model for “{search}”.").format(search=results.text)
    return ""
