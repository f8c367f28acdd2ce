"""Painted figures, and what screen readers are told of them: a role and a value, which Qt cannot know."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QWidget

Role = QAccessible.Role


class PaintedFigure(QWidget):
    """A widget that paints itself. Its accessible description is its value, in words."""

    def __init__(self, role: Role, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        _install_factory()
        self.role = role
        self.setAccessibleName(name)
        self.told: QAccessibleInterface | None = None  # Qt holds it, but not its Python half


class _Told(QAccessibleWidget):
    def __init__(self, figure: PaintedFigure) -> None:
        super().__init__(figure, figure.role)
        self._figure = figure

    def text(self, kind: QAccessible.Text) -> str:
        match kind:
            case QAccessible.Text.Value:
                return self._figure.accessibleDescription()
            case QAccessible.Text.Description:
                return ""  # or it would be read twice
        return super().text(kind)


def _make(_class_name: str, about: QObject) -> QAccessibleInterface | None:
    if not isinstance(about, PaintedFigure):
        return None
    about.told = _Told(about)
    return about.told


@cache
def _install_factory() -> None:
    QAccessible.installFactory(_make)
