"""Colours, fonts and sizes of the window: the one place that names any of them.

Widgets that paint ask `colors()` and look again on `QEvent.StyleChange`, which each change of colours or sizes sends
them. Sizes are named as they are beside text of the usual size; `scaled` gives their pixels at the size in use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.stylesheet import stylesheet

Scheme = Literal["system", "light", "dark"]

BODY_PX = 14
SMALL_PX = 12
CODE_PX = 13
TITLE_PX = 22
_LARGE_TEXT_PX = 17
NUMBER_PX = 26
GAP = 8
COLUMN_WIDTH = 760
SIDEBAR_WIDTH = 244
PANEL_WIDTH = 304


@dataclass(frozen=True)
class Colors:
    """One set of colours, as `#rrggbb`. Names say what a colour is for; `*_fill` lie under white text."""

    window: str
    panel: str
    card: str
    hover: str
    border: str
    text: str
    muted: str
    accent: str
    accent_fill: str
    good: str
    warn: str
    bad: str
    bad_fill: str
    on_fill: str
    track: str
    code: str
    inline_code: str
    selection: str
    keyword: str
    string: str
    comment: str
    number: str
    name: str


DARK = Colors(
    window="#17181c",
    panel="#1c1e25",
    card="#23262f",
    hover="#2c303b",
    border="#343843",
    text="#e9eaee",
    muted="#a3a8b6",
    accent="#6ea6ff",
    accent_fill="#2f69d9",
    good="#4fc48d",
    warn="#e6ab54",
    bad="#f0857b",
    bad_fill="#c2413a",
    on_fill="#ffffff",
    track="#31343f",
    code="#111216",
    inline_code="#2a2d37",
    selection="#34518a",
    keyword="#82b1ff",
    string="#7fd6a4",
    comment="#8f95a5",
    number="#e8b86f",
    name="#c9a9ff",
)

LIGHT = Colors(
    window="#ffffff",
    panel="#f5f6f9",
    card="#eef1f6",
    hover="#e4e8f0",
    border="#d6dae3",
    text="#1a1c22",
    muted="#5a6172",
    accent="#1f5fd6",
    accent_fill="#2563d9",
    good="#167c4d",
    warn="#8a5600",
    bad="#b3261e",
    bad_fill="#c2352c",
    on_fill="#ffffff",
    track="#dde1e9",
    code="#f5f6f9",
    inline_code="#e9ecf2",
    selection="#bcd3ff",
    keyword="#1f5fd6",
    string="#167c4d",
    comment="#626a7a",
    number="#8a5600",
    name="#7433b8",
)


@dataclass
class _Look:
    """What is in use."""

    dark: Colors = DARK
    light: Colors = LIGHT
    text_px: int = BODY_PX
    code_px: int = CODE_PX


_look = _Look()


def colors() -> Colors:
    """The colour set in use.

    It is another object after every change of colours or sizes: who keeps it sees by that when to draw anew.
    """
    dark = QGuiApplication.palette().color(QPalette.ColorRole.Window).lightnessF() < 0.5
    return _look.dark if dark else _look.light


def scaled(pixels: float) -> int:
    """A size beside text of the usual size, in pixels beside the text in use."""
    return max(1, round(pixels * _look.text_px / BODY_PX))


def is_large_text() -> bool:
    """Whether there is no room for text and a field side by side."""
    return _look.text_px > _LARGE_TEXT_PX


def body_font() -> QFont:
    """The system's interface font in the size of running text."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(_look.text_px)
    return font


def code_font() -> QFont:
    """The system's fixed-pitch font."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPixelSize(_look.code_px)
    return font


def sized(font: QFont, pixels: int, bold: bool = False) -> QFont:
    """`font` in another size."""
    result = QFont(font)
    result.setPixelSize(pixels)
    result.setBold(bold)
    return result


class Theme(QObject):
    """Dresses the application in light or dark and follows the system unless told otherwise."""

    def __init__(self, app: QApplication, scheme: Scheme = "system") -> None:
        super().__init__(app)
        self._app = app
        self._scheme = scheme
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    def set_scheme(self, scheme: Scheme) -> None:
        """Switch at once."""
        self._scheme = scheme
        self._apply()

    def set_sizes(self, text_px: int, code_px: int) -> None:
        """Switch at once: everything grows with the text, code has a size of its own."""
        if (text_px, code_px) != (_look.text_px, _look.code_px):
            _look.text_px, _look.code_px = text_px, code_px
            _look.dark, _look.light = replace(DARK), replace(LIGHT)
            self._apply()

    def _apply(self) -> None:
        dark = self._scheme == "dark"
        if self._scheme == "system":
            dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        chosen = DARK if dark else LIGHT
        self._app.setPalette(_palette(chosen))
        self._app.setFont(body_font())
        self._app.setStyleSheet(stylesheet(chosen, scaled, code_font()))


def _palette(colors: Colors) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for target, color in {
        role.Window: colors.window,
        role.WindowText: colors.text,
        role.Base: colors.window,
        role.AlternateBase: colors.panel,
        role.Text: colors.text,
        role.PlaceholderText: colors.muted,
        role.Button: colors.card,
        role.ButtonText: colors.text,
        role.ToolTipBase: colors.card,
        role.ToolTipText: colors.text,
        role.Highlight: colors.selection,
        role.HighlightedText: colors.text,
        role.Link: colors.accent,
        role.LinkVisited: colors.accent,
        role.Accent: colors.accent,
    }.items():
        palette.setColor(target, QColor(color))
    for target in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, target, QColor(colors.muted))
    return palette
