"""What a selection in an answer is as plain text and as Markdown. Formulas are their source in both."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from PySide6.QtGui import QFont, QTextBlock, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextTable

from app.chat.formats import FOOTNOTE_LABEL, FORMULA_SOURCE, IS_CODE, ITEM_GAP_PX, QUOTE_LEVEL

_SPECIAL = re.compile(r"([\\`*])")  # not brackets: `\\[` begins a formula
_TASKS = {QTextBlockFormat.MarkerType.Unchecked: "[ ] ", QTextBlockFormat.MarkerType.Checked: "[x] "}


def plain_text(selection: QTextCursor) -> str:
    """The selected text; cells of a row are parted by tabs."""
    lines: list[str] = []
    row: tuple[QTextTable, int] | None = None
    for block, start, end in _blocks(selection):
        text = "".join(_plain(text, form) for text, form in _fragments(block, start, end)).replace("\u2028", "\n")
        before, row = row, _row(block)
        if row is not None and row == before:
            lines[-1] += f"\t{text}"
        elif text or not _is_hair(block):
            lines.append(text)
    return "\n".join(lines)


def markdown(selection: QTextCursor) -> str:
    """The selection as Markdown that reads the same again."""
    parts: list[str] = []
    kinds: list[str] = []
    row: tuple[QTextTable, int] | None = None
    for block, start, end in _blocks(selection):
        before, row = row, _row(block)
        text = "".join(_marked(text, form) for text, form in _fragments(block, start, end))
        if row is None:
            if text or not _is_hair(block):
                parts.append(_block_markdown(block, text))
                is_tight = block.textList() is not None and block.blockFormat().bottomMargin() == ITEM_GAP_PX
                kinds.append("item" if is_tight else "block")
        elif row == before:
            parts[-1] += f" {text} |"
        else:
            if before is not None and before[1] == 0:
                parts.append("|" + "---|" * row[0].columns())
                kinds.append("row")
            parts.append(f"| {text} |")
            kinds.append("row")
    gaps = ["", *(_gap(before, kind) for before, kind in itertools.pairwise(kinds))]
    return "".join(gap + part for gap, part in zip(gaps, parts, strict=False))


def _gap(before: str, kind: str) -> str:
    return "\n" if before == "item" or before == kind == "row" else "\n\n"


def _blocks(selection: QTextCursor) -> Iterator[tuple[QTextBlock, int, int]]:
    """Every block that the selection touches, with the selected range in the document's positions."""
    start, end = selection.selectionStart(), selection.selectionEnd()
    block = selection.document().findBlock(start)
    while block.isValid() and block.position() <= end:
        yield block, max(start, block.position()), min(end, block.position() + block.length() - 1)
        block = block.next()


def _fragments(block: QTextBlock, start: int, end: int) -> Iterator[tuple[str, QTextCharFormat]]:
    iterator = block.begin()
    while not iterator.atEnd():
        fragment = iterator.fragment()
        first, last = max(start, fragment.position()), min(end, fragment.position() + fragment.length())
        if first < last:
            # Qt counts UTF-16 units.
            units = fragment.text().encode("utf-16-le", "surrogatepass")
            begin = 2 * (first - fragment.position())
            piece = units[begin : begin + 2 * (last - first)]
            yield piece.decode("utf-16-le", "surrogatepass"), fragment.charFormat()
        iterator += 1


def _row(block: QTextBlock) -> tuple[QTextTable, int] | None:
    cursor = QTextCursor(block)
    table = cursor.currentTable()
    return (table, table.cellAt(cursor).row()) if table is not None else None


def _is_hair(block: QTextBlock) -> bool:
    return block.blockFormat().lineHeightType() == QTextBlockFormat.LineHeightTypes.FixedHeight.value


def _plain(text: str, form: QTextCharFormat) -> str:
    return str(form.property(FORMULA_SOURCE)) if form.isImageFormat() else text


def _marked(text: str, form: QTextCharFormat) -> str:
    if form.hasProperty(FORMULA_SOURCE):
        return str(form.property(FORMULA_SOURCE))
    if form.hasProperty(FOOTNOTE_LABEL):
        return f"[^{form.property(FOOTNOTE_LABEL)}]"
    if form.hasProperty(IS_CODE):
        fence = "``" if "`" in text else "`"
        result = f"{fence}{text}{fence}"
    else:
        result = _SPECIAL.sub(r"\\\1", text).replace("\u2028", "  \n")
    for mark, on in (
        ("**", form.fontWeight() >= QFont.Weight.Bold),
        ("*", form.fontItalic()),
        ("~~", form.fontStrikeOut()),
    ):
        if on and text.strip():
            body = result.strip(" ")
            lead = result[: len(result) - len(result.lstrip(" "))]
            result = f"{lead}{mark}{body}{mark}{result[len(lead) + len(body) :]}"
    return f"[{result}]({form.anchorHref()})" if form.isAnchor() else result


def _block_markdown(block: QTextBlock, text: str) -> str:
    form, listed = block.blockFormat(), block.textList()
    if form.hasProperty(IS_CODE):
        text = "    " + block.text().replace("\u2028", "\n    ")
    elif form.headingLevel():
        text = "#" * form.headingLevel() + " " + text
    elif form.hasProperty(FOOTNOTE_LABEL):
        label = str(form.property(FOOTNOTE_LABEL))
        text = f"[^{label}]: {text.removeprefix(f'[^{label}]').lstrip()}"
    elif listed is not None:
        number = listed.itemText(block)
        marker = f"{number} " if number[:1].isdigit() else "- "
        text = "   " * (listed.format().indent() - 1) + marker + _TASKS.get(form.marker(), "") + text
    elif not text:
        text = "---"
    quotes = form.property(QUOTE_LEVEL)
    return f"{'> ' * int(quotes)}{text}" if quotes else text
