"""Shows a run of Markdown prose while it is written."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QWidget

from app.chat.blocks import ProseClosed
from app.chat.copying import plain_text
from app.chat.fitted import FittedText
from app.chat.formula_pictures import insert_pictures
from app.chat.formulas import Formula, FormulaKey, formulas
from app.chat.markdown import MarkdownWriter, WrittenFormula
from app.language import tr
from app.theme import BODY_PX, colors, scaled


class ProseView(FittedText):
    """Consecutive blocks of prose in one document, of which only the last one is still changed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Answer text"))
        self._colors = colors()
        self._closed: list[tuple[str, bool]] = []
        self._open: str | None = None
        self._open_start = QTextCursor(self.document())
        self._open_start.setKeepPositionOnInsert(True)
        self._end_is_free = True  # the document ends in an empty block that the next block may take
        self._waiting: dict[FormulaKey, list[WrittenFormula]] = {}
        self.chars = 0
        """Length of the Markdown of the closed blocks."""

    def write(self, blocks: Sequence[ProseClosed], width: int) -> None:
        """Write complete blocks and lay them out at this width."""
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for block in blocks:
            self.close_open(block.source, block.goes_on)
        cursor.endEditBlock()
        self.lay_out(width)

    def plain_text(self) -> str:
        """All of it as plain text."""
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        return plain_text(cursor)

    def show_open(self, source: str) -> None:
        """The last block now reads `source`."""
        if self._open is None:
            self._begin_block()
        if source != self._open:
            self._replace_open(source)
            self._open = source

    def close_open(self, source: str, goes_on: bool = False) -> None:
        """The last block is complete. `goes_on`: the next one stands right under it."""
        if self._open is None:
            self._begin_block()
        if source != self._open:
            self._replace_open(source)
        if goes_on and not self._end_is_free:
            cursor = QTextCursor(self.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            form = cursor.blockFormat()
            form.setBottomMargin(0)
            cursor.setBlockFormat(form)
        self._open = None
        self._closed.append((source, goes_on))
        self.chars += len(source)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """New colours: the document carries the old ones, so it is made again."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._colors is not colors():
            self._colors = colors()
            closed, opened = self._closed, self._open
            self.document().clear()
            self._stop_waiting()
            self._closed, self._open, self._end_is_free, self.chars = [], None, True, 0
            for source, goes_on in closed:
                self.close_open(source, goes_on)
            if opened is not None:
                self.show_open(opened)

    def _begin_block(self) -> None:
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if not self._end_is_free:
            cursor.insertBlock()
        self._open_start.setPosition(cursor.position())

    def _replace_open(self, source: str) -> None:
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.setPosition(self._open_start.position())
        if not cursor.atEnd():
            cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
        writer = MarkdownWriter(cursor, self._colors)
        writer.write(source)
        by_key: dict[FormulaKey, list[WrittenFormula]] = {}
        for written in writer.formulas:
            key = FormulaKey(written.latex, written.display, scaled(BODY_PX), self._colors.text)
            by_key.setdefault(key, []).append(written)
        for key, places in by_key.items():
            self._draw_formula(key, places)
        cursor.endEditBlock()
        self._end_is_free = writer.block_is_free

    # ---------------------------------------------------------------- formulas

    def _draw_formula(self, key: FormulaKey, places: list[WrittenFormula]) -> None:
        self._wait(key, places)  # before asking: the formula may be set before the answer is here
        outcome = formulas().get(key)
        if outcome != "pending":
            places = self._end_wait(key)
        if isinstance(outcome, Formula):
            insert_pictures(places, outcome, key)

    def _on_formula(self, key: FormulaKey) -> None:
        places = self._end_wait(key)
        if places:
            self._draw_formula(key, places)
            self.reshaped.emit()

    def _wait(self, key: FormulaKey, places: list[WrittenFormula]) -> None:
        if not self._waiting:
            formulas().ready.connect(self._on_formula)
        self._waiting.setdefault(key, []).extend(places)

    def _end_wait(self, key: FormulaKey) -> list[WrittenFormula]:
        if key not in self._waiting:
            return []
        places = self._waiting.pop(key)
        if not self._waiting:
            formulas().ready.disconnect(self._on_formula)
        return places

    def _stop_waiting(self) -> None:
        if self._waiting:
            formulas().ready.disconnect(self._on_formula)
        self._waiting.clear()
