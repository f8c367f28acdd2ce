"""The chip that says whether speculation pays, and why it is not at work where it is not."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.stats import words
from app.stats.figures import Figures, verdict
from app.theme import scaled
from app.widgets import ElidedLabel, set_style_property

_WIDEST = 360


class VerdictChip(ElidedLabel):
    """Hidden until there is something to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("chip", parent)
        self._limit()
        self._sentence = ""
        self.hide()

    def show_figures(self, figures: Figures) -> None:
        """Show the verdict on this answer."""
        if figures.inactive:
            self._show(words.inactive_text(figures.inactive), words.inactive_text(figures.inactive), "inactive")
        elif figures.speed_up is not None:
            text, sentence = words.verdict_text(figures.speed_up), words.verdict_sentence(figures.speed_up)
            self._show(text, sentence, verdict(figures.speed_up))
        else:
            self.hide()

    def _show(self, text: str, sentence: str, kind: str) -> None:
        if text != self.full_text() or sentence != self._sentence:
            self._sentence = sentence
            self.set_full_text(text)
            self.setToolTip(sentence)
            self.setAccessibleDescription(sentence)
            set_style_property(self, "verdict", kind)
        self.show()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._limit()

    def _limit(self) -> None:
        self.setMaximumWidth(scaled(_WIDEST))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """An elided label tells its own text only; the sentence says more."""
        super().resizeEvent(event)
        self.setToolTip(self._sentence)
