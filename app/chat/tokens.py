"""An answer's tokens, each in the colour of its origin: the source as it was decoded, since marks are tokens too."""

from __future__ import annotations

import html
import time
from bisect import bisect_right
from collections import deque

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QLabel, QToolTip, QVBoxLayout, QWidget

from app.chat.fitted import FittedText
from app.chat.lines import LineBreaker
from app.chat.token_words import NAMES, TokenOrigin, origins
from app.language import tr
from app.theme import Colors, colors
from core.protocol import Origin, Step

_SLICE_S = 0.006
_TINT_ALPHA = 46
_UNDERLINES = {
    "draft": QTextCharFormat.UnderlineStyle.SingleUnderline,
    "correction": QTextCharFormat.UnderlineStyle.WaveUnderline,
    "bonus": QTextCharFormat.UnderlineStyle.DashUnderline,
    "plain": QTextCharFormat.UnderlineStyle.NoUnderline,
}
_UNDERLINE_WORDS = {
    "draft": tr("underlined"),
    "correction": tr("wavy"),
    "bonus": tr("dashed"),
    "plain": tr("not marked"),
}


class TokenView(QWidget):
    """A legend and the tokens. Written only once it is shown, in slices of time where there are many."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.origins: list[TokenOrigin] = []
        self.text = _TokenText(self.origins)
        self.text.setAccessibleName(tr("Tokens of the answer"))
        self._legend = QLabel()
        self._legend.setWordWrap(True)
        self._colors = colors()
        self._unwritten: deque[TokenOrigin] = deque()
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._write_some)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._legend)
        layout.addWidget(self.text)
        self._show_legend()

    def add(self, step: Step) -> None:
        """The tokens of the next step."""
        for token in origins(step):
            self.origins.append(token)
            self._unwritten.append(token)
        if not self.isHidden():
            self._timer.start()

    def set_shown(self, shown: bool) -> None:
        """Show or hide; what is not written yet follows."""
        self.setVisible(shown)
        if shown:
            self._write_some()
        else:
            self._timer.stop()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """New colours: written anew."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._colors is not colors():
            self._colors = colors()
            self._show_legend()
            self.text.clear_tokens()
            self._unwritten = deque(self.origins)
            if not self.isHidden():
                self._timer.start()

    def _write_some(self) -> None:
        end_s = time.perf_counter() + _SLICE_S
        self.text.write(self._unwritten, end_s, self._colors)
        if self._unwritten:
            self._timer.start()
        else:
            self._timer.stop()
        self.text.reshaped.emit()

    def _show_legend(self) -> None:
        parts = [
            f'<span style="background-color: {_tint(origin, self._colors).name(QColor.NameFormat.HexArgb)}; '
            f'color: {self._colors.text}">&nbsp;{name}&nbsp;</span> ({_UNDERLINE_WORDS[origin]})'
            for origin, name in NAMES.items()
        ]
        legend = tr("Tokens: {legend}").format(legend=" &nbsp; ".join(parts))
        self._legend.setText(f'<span style="color: {self._colors.muted}; font-size: small">{legend}</span>')


class _TokenText(FittedText):
    """The tokens, with a card for the one under the mouse or at the text cursor."""

    def __init__(self, tokens: list[TokenOrigin]) -> None:
        super().__init__()
        self._tokens = tokens
        self._starts: list[int] = []  # in the document's positions
        self._lines = LineBreaker()
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )

    def write(self, tokens: deque[TokenOrigin], end_s: float, colors: Colors) -> None:
        """Append tokens, in order, until none is left or it is `end_s` by `time.perf_counter()`."""
        formats = {origin: _format(origin, colors) for origin in NAMES}
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        while tokens and time.perf_counter() < end_s:
            token = tokens.popleft()
            self._starts.append(cursor.position())
            cursor.insertText(self._lines.broken(token.text), formats[token.origin])
        cursor.endEditBlock()

    def clear_tokens(self) -> None:
        """Back to the empty text."""
        self._starts.clear()
        self._lines = LineBreaker()
        self.document().clear()

    def token_at(self, position: int) -> TokenOrigin | None:
        """The token that shows at a position of the document."""
        index = bisect_right(self._starts, position) - 1
        return self._tokens[index] if index >= 0 else None

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """The card of the token under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            layout = self.document().documentLayout()
            position = layout.hitTest(event.pos(), Qt.HitTestAccuracy.ExactHit)
            self._show_card(position, event.globalPos())
            return True
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """The card of the token at the text cursor, as the keys move it."""
        before = self.textCursor().position()
        super().keyPressEvent(event)
        if self.textCursor().position() != before:
            self._show_card(self.textCursor().position(), self.mapToGlobal(self.cursorRect().bottomLeft()))

    def _show_card(self, position: int, place: QPoint) -> None:
        token = self.token_at(position) if position >= 0 else None
        if token is None:
            QToolTip.hideText()
            return
        self.setAccessibleDescription(". ".join(token.card()))
        first, *others = (html.escape(line) for line in token.card())
        QToolTip.showText(place, "<br>".join([f"<b>{first}</b>", *others]), self)


def _tint(origin: Origin, colors: Colors) -> QColor:
    named = {"draft": colors.good, "correction": colors.warn, "bonus": colors.accent}
    if origin not in named:
        return QColor(Qt.GlobalColor.transparent)
    color = QColor(named[origin])
    color.setAlpha(_TINT_ALPHA)
    return color


def _format(origin: Origin, colors: Colors) -> QTextCharFormat:
    form = QTextCharFormat()
    tint = _tint(origin, colors)
    if tint.alpha():
        form.setBackground(tint)
        form.setUnderlineStyle(_UNDERLINES[origin])
        tint.setAlpha(255)
        form.setUnderlineColor(tint)
    return form
