"""Puts a formula's picture in the place of its source, on the base line of the text around it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, QUrl
from PySide6.QtGui import (
    QFontMetricsF,
    QImage,
    QPainter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextImageFormat,
)

from app.chat.formats import FORMULA_SOURCE
from app.chat.formulas import Formula, FormulaKey
from app.chat.markdown import WrittenFormula
from app.theme import COLUMN_WIDTH

_WIDEST_PX = COLUMN_WIDTH - 120
_SMALLEST_SCALE = 0.6
"""A formula that had to shrink more stays source, which wraps."""


def insert_pictures(places: Sequence[WrittenFormula], formula: Formula, key: FormulaKey) -> None:
    """Replace the source at each place, unless it has gone since, or the picture would not fit into the column."""
    scale = min(1.0, _WIDEST_PX / formula.width)
    if not places or scale < _SMALLEST_SCALE:
        return
    document = places[0].cursor.document()
    alone = _form(
        document, key, "alone", formula.image, QSizeF(formula.width, formula.ascent + formula.descent) * scale
    )
    half_x = QFontMetricsF(document.defaultFont()).xHeight() / 2
    within = _form(document, key, "within", *_on_base_line(formula, half_x, scale))
    within.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
    edit = QTextCursor(document)
    edit.beginEditBlock()
    for place in places:
        _replace(place, alone, within)
    edit.endEditBlock()


def _replace(place: WrittenFormula, alone: QTextImageFormat, within: QTextImageFormat) -> None:
    cursor = QTextCursor(place.cursor)
    source = str(cursor.charFormat().property(FORMULA_SOURCE))
    end = cursor.position()
    # By its length: what was replaced right before it may have joined the selection.
    cursor.setPosition(max(end - _units(source), 0))
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
    if cursor.selectedText() != source.replace("\n", " "):
        return
    is_alone = cursor.block().length() == cursor.selectionEnd() - cursor.selectionStart() + 1
    form = QTextImageFormat(alone if is_alone else within)
    form.setProperty(FORMULA_SOURCE, source)
    cursor.removeSelectedText()
    cursor.insertImage(form)


def _form(document: QTextDocument, key: FormulaKey, use: str, image: QImage, size: QSizeF) -> QTextImageFormat:
    name = f"formula:{hashlib.sha1(f'{key} {use}'.encode(errors='replace'), usedforsecurity=False).hexdigest()}"
    document.addResource(QTextDocument.ResourceType.ImageResource.value, QUrl(name), image)
    form = QTextImageFormat()
    form.setName(name)
    form.setWidth(size.width())
    form.setHeight(size.height())
    form.setToolTip(key.source)
    return form


def _on_base_line(formula: Formula, half_x: float, scale: float) -> tuple[QImage, QSizeF]:
    """The picture with room above or below.

    Qt sets a picture aligned to the middle so that (height + x-height / 2) / 2 of it lie above the base line.
    """
    ascent, descent = formula.ascent * scale, formula.descent * scale
    height = max(2 * ascent - half_x, 2 * descent + half_x)
    top = (height + half_x) / 2 - ascent
    size = QSizeF(formula.width * scale, height)
    ratio = formula.image.width() / formula.width
    image = QImage((size * ratio).toSize(), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    drawn = QSizeF(formula.width, formula.ascent + formula.descent) * scale * ratio
    painter.drawImage(QRectF(QPointF(0, top * ratio), drawn), formula.image)
    painter.end()
    return image, size


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
