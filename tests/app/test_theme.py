"""Colours with enough contrast, and a window that follows the chosen scheme."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from app.theme import DARK, LIGHT, Colors, Theme, colors

TEXT_PAIRS = [
    (text, ground)
    for text in ("text", "muted")
    for ground in ("window", "panel", "card", "hover", "code", "inline_code")
] + [
    ("text", "selection"),
    ("accent", "window"),
    ("accent", "card"),
    ("good", "window"),
    ("warn", "window"),
    ("bad", "window"),
    ("on_fill", "accent_fill"),
    ("on_fill", "bad_fill"),
    *((name, "code") for name in ("keyword", "string", "comment", "number", "name")),
]
GRAPHIC_PAIRS = [(name, ground) for name in ("accent", "good", "warn", "bad") for ground in ("panel", "track")]


def contrast(first: str, second: str) -> float:
    """The contrast ratio of WCAG 2, section 1.4.3."""

    def luminance(name: str) -> float:
        color = QColor(name)
        parts = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in (color.redF(), color.greenF(), color.blueF())
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colors", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize(("text", "ground"), TEXT_PAIRS)
def test_texts_have_the_contrast_of_wcag_aa(colors: Colors, text: str, ground: str) -> None:
    assert contrast(getattr(colors, text), getattr(colors, ground)) >= 4.5


@pytest.mark.parametrize("colors", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize(("graphic", "ground"), GRAPHIC_PAIRS)
def test_graphics_have_the_contrast_of_wcag_aa(colors: Colors, graphic: str, ground: str) -> None:
    assert contrast(getattr(colors, graphic), getattr(colors, ground)) >= 3.0


def test_the_scheme_can_be_chosen_and_followed(theme: Theme, qapp: QApplication) -> None:
    theme.set_scheme("light")
    assert colors() == LIGHT
    assert qapp.palette().color(QPalette.ColorRole.Window).name() == LIGHT.window
    assert LIGHT.border in qapp.styleSheet()
    theme.set_scheme("dark")
    assert colors() == DARK
    assert DARK.border in qapp.styleSheet()
    theme.set_scheme("system")
    assert colors() in (DARK, LIGHT)
