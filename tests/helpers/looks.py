"""Whether what a window shows can be read: nothing cut off, nothing over something else, nothing outside."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QTextBrowser,
    QWidget,
)

from app.chat.find import FindBar
from app.widgets import ElidedLabel

_KINDS = (QLabel, QAbstractButton, QComboBox, QPlainTextEdit, QLineEdit, QAbstractSpinBox)
_OVER_THE_TEXT = (QScrollArea, FindBar)
"""What lies in them lies over the text by design."""


def assert_sound_look(window: QWidget) -> None:
    """Fails with the widget that is cut off, outside the window or its scrolled page, or under another one."""
    boxes = {widget: _box(widget, window) for widget in _leaves(window)}
    for widget, box in boxes.items():
        _assert_whole(widget)
        page = _page(widget, window)
        within = QRect(widget.mapTo(page, QPoint(0, 0)), widget.size())
        assert page.rect().contains(within), (told(widget), within, page.rect())
        assert box is not None or page is not window, told(widget)
    placed = [(widget, box) for widget, box in boxes.items() if box is not None and not _lies_over(widget)]
    for index, (first, box) in enumerate(placed):
        for second, other in placed[index + 1 :]:
            assert not box.intersects(other), (told(first), told(second), box, other)
    for area in window.findChildren(QScrollArea):
        if area.isVisible() and area.horizontalScrollBarPolicy() is Qt.ScrollBarPolicy.ScrollBarAlwaysOff:
            assert area.widget().width() <= area.viewport().width(), told(area)


def told(widget: QWidget) -> str:
    """The widget in words."""
    text = getattr(widget, "text", lambda: "")()
    return f"{type(widget).__name__} {widget.accessibleName()!r} {text!r} {widget.geometry()}"


def _assert_whole(widget: QWidget) -> None:
    if isinstance(widget, ElidedLabel):
        assert widget.text() == widget.full_text() or widget.toolTip(), told(widget)
    elif isinstance(widget, QLabel) and widget.text():
        room = widget.contentsRect().size()
        assert _needed(widget, room.width()).height() <= room.height() + 1, (told(widget), room)
        assert _needed(widget, room.width()).width() <= room.width() + 1, (told(widget), room)
    elif isinstance(widget, QAbstractButton | QComboBox | QLineEdit):
        least = widget.minimumSizeHint()
        assert widget.height() >= least.height() - 1, (told(widget), least)
        if isinstance(widget, QAbstractButton):
            assert widget.width() >= least.width(), (told(widget), least)


def _needed(label: QLabel, width: int) -> QSize:
    flags = label.alignment().value | (Qt.TextFlag.TextWordWrap.value if label.wordWrap() else 0)
    return label.fontMetrics().boundingRect(QRect(0, 0, width, 100_000), flags, label.text()).size()


def _leaves(root: QWidget) -> list[QWidget]:
    """The visible widgets that hold text or are pressed."""
    return [
        widget
        for widget in root.findChildren(QWidget)
        if isinstance(widget, _KINDS)
        and widget.isVisible()
        and widget.window() is root
        and not isinstance(widget.parent(), QAbstractButton | QLineEdit | QAbstractSpinBox | QComboBox | QTextBrowser)
    ]


def _page(widget: QWidget, window: QWidget) -> QWidget:
    """What the widget must lie in: the page of the scrolled area around it, or the window."""
    parent = widget.parentWidget()
    while parent is not None and parent is not window:
        area = parent.parentWidget().parentWidget() if parent.parentWidget() is not None else None
        if isinstance(area, QScrollArea) and area.widget() is parent:
            return parent
        parent = parent.parentWidget()
    return window


def _lies_over(widget: QWidget) -> bool:
    return isinstance(widget.parent(), _OVER_THE_TEXT)


def _box(widget: QWidget, window: QWidget) -> QRect | None:
    """Where the widget shows in the window; None where part of it is hidden."""
    box = QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())
    shown = widget.visibleRegion().boundingRect()
    return box if shown.size() == widget.size() else None
