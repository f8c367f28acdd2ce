"""The application's style sheet, filled with a set of colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Template
from typing import TYPE_CHECKING

from PySide6.QtGui import QFont

import assets

if TYPE_CHECKING:
    from app.theme import Colors

# Widgets are addressed by the `kind` property (see `set_kind`) or by object name.
_TEMPLATE = Template("""
QToolTip { background: $card; color: $text; border: 1px solid $border; padding: 6px; }

QWidget[kind="bar"] { background: $window; border-bottom: 1px solid $border; }
QWidget[kind="panel"] { background: $panel; border-left: 1px solid $border; }
QWidget[kind="panel-body"] { background: $panel; }
QWidget[kind="line"] { background: $border; }
QWidget[kind="bubble"] { background: $card; border: 1px solid $border; border-radius: 14px; }
QWidget[kind="code"] { background: $code; border: 1px solid $border; border-radius: 10px; }
QWidget[kind="code-header"] {
    background: $code; border: 1px solid $border; border-bottom-color: $code;
    border-top-left-radius: 10px; border-top-right-radius: 10px;
}
QWidget[kind="notice"] { background: $card; border: 1px solid $bad; border-radius: 10px; }
QWidget[kind="link-bubble"] { background: $card; border: 1px solid $accent; border-radius: 10px; }
QWidget[kind="find"] { background: $card; border: 1px solid $border; border-radius: 10px; }
QWidget[kind="composer"] { background: $card; border: 1px solid $border; border-radius: 14px; }
QWidget[kind="composer"][active="true"] { border: 1px solid $accent; }
QWidget[kind="picker"] { background: $window; }
QWidget[kind="pair-card"] { background: $panel; border: 1px solid $border; border-radius: 10px; }
QWidget[kind="pair-card"][greyed="true"] QLabel { color: $muted; }
QWidget[kind="pair-card"][greyed="true"] QLabel[kind="reason"] { color: $bad; }

QWidget[kind="sidebar"] { background: $panel; border-right: 1px solid $border; }
QListView[kind="chats"] { background: transparent; border: none; outline: none; }
QLineEdit[kind="title-editor"] { background: $window; padding: 2px 8px; }
QWidget[kind="undo"] { background: $card; border: 1px solid $border; border-radius: 10px; }
QWidget[kind="attachment"] { background: $window; border: 1px solid $border; border-radius: 8px; }
QPlainTextEdit[kind="field"] { background: $card; border: 1px solid $border; border-radius: 8px; padding: 4px; }
QPlainTextEdit[kind="field"]:focus { border: 1px solid $accent; }

QLabel { background: transparent; }
QLabel[kind="muted"] { color: $muted; font-size: 12px; }
QLabel[kind="bad"] { color: $bad; font-size: 12px; }
QLabel[kind="reason"] { color: $bad; font-size: 13px; }
QLabel[kind="note"] { color: $warn; font-size: 12px; }
QLabel[kind="value"] { font-size: 13px; }
QLabel[kind="value"][warns="true"] { color: $warn; }
QLabel[kind="strong"] { font-weight: 600; }
QLabel[kind="title"] { font-size: 22px; font-weight: 600; }
QLabel[kind="number"] { font-size: 26px; font-weight: 700; }
QLabel[kind="figures"] { color: $muted; font-size: 12px; }
QLabel[kind="figures"]:hover, QLabel[kind="figures"]:focus { color: $text; }
QLabel[kind="chip"] { border: 1px solid $border; border-radius: 10px; padding: 4px 12px; font-size: 12px; }
QLabel[kind="chip"][verdict="faster"] { color: $good; border-color: $good; }
QLabel[kind="chip"][verdict="equal"] { color: $muted; }
QLabel[kind="chip"][verdict="slower"] { color: $warn; border-color: $warn; }
QLabel[kind="chip"][verdict="inactive"] { color: $bad; border-color: $bad; }

QLabel[kind="verdict"] { font-size: 13px; }
QLabel[kind="verdict"][dress="good"] { color: $good; font-weight: 600; }
QLabel[kind="verdict"][dress="bad"] { color: $bad; font-weight: 600; }

QLabel[kind="tag"] { border: 1px solid $border; border-radius: 8px; padding: 2px 10px; font-size: 12px; }
QLabel[kind="tag"][good="true"] { color: $good; border-color: $good; }

QPushButton {
    background: $card; color: $text; border: 1px solid $border; border-radius: 8px; padding: 6px 14px; min-height: 18px;
}
QPushButton:hover { background: $hover; }
QPushButton:checked { background: $hover; }
QPushButton:focus { border: 1px solid $accent; }
QPushButton:disabled { color: $muted; }
QPushButton[kind="icon"] {
    background: transparent; border: 1px solid transparent; border-radius: 6px; padding: 0px; min-height: 0px;
}
QPushButton[kind="icon"]:hover { background: $hover; }
QPushButton[kind="icon"]:focus { border-color: $accent; }
QPushButton[kind="icon"]::menu-indicator { image: none; width: 0px; }
QPushButton[kind="pair"] { padding: 6px 0px; text-align: left; }
QPushButton[kind="primary"] { background: $accent_fill; color: $on_fill; border-color: $accent_fill; font-weight: 600; }
QPushButton[kind="primary"]:hover { border-color: $text; }
QPushButton[kind="primary"]:focus { border-color: $text; }
QPushButton[kind="primary"]:disabled { background: $track; color: $muted; border-color: $track; }
QPushButton[kind="stop"] { background: $bad_fill; color: $on_fill; border-color: $bad_fill; font-weight: 600; }
QPushButton[kind="stop"]:hover { border-color: $text; }
QPushButton[kind="stop"]:focus { border-color: $text; }
QPushButton[kind="stop"]:disabled { background: $track; color: $muted; border-color: $track; }
QPushButton[kind="quiet"] {
    background: transparent; color: $muted; border: 1px solid transparent; padding: 2px 8px; font-size: 12px;
    border-radius: 6px;
}
QPushButton[kind="quiet"]:hover { background: $hover; color: $text; }
QPushButton[kind="quiet"]:focus { border-color: $accent; }
QPushButton[kind="tiny"] {
    background: transparent; color: $muted; border: 1px solid transparent; padding: 2px 4px; font-size: 12px;
    border-radius: 6px; min-width: 14px;
}
QPushButton[kind="tiny"]:hover { background: $hover; color: $text; }
QPushButton[kind="tiny"]:focus { border-color: $accent; }
QPushButton[kind="scope"] { padding: 3px 10px; font-size: 12px; color: $muted; }
QPushButton[kind="scope"]:checked { color: $text; font-weight: 600; }
QPushButton[kind="suggestion"] { padding: 0px; border-radius: 10px; }
QPushButton[kind="jump"] { border-radius: 15px; padding: 5px 16px; color: $accent; }

QLineEdit {
    background: $card; color: $text; border: 1px solid $border; border-radius: 8px; padding: 6px 10px; min-height: 18px;
}
QLineEdit:focus { border: 1px solid $accent; }
QSpinBox, QDoubleSpinBox {
    background: $card; color: $text; border: 1px solid $border; border-radius: 8px; padding: 6px 8px; min-height: 18px;
}
QSpinBox:focus, QDoubleSpinBox:focus { border: 1px solid $accent; }
QSpinBox QLineEdit, QDoubleSpinBox QLineEdit { border: none; background: transparent; padding: 0px; min-height: 0px; }
/* Without this a spin box that has no buttons places its text outside itself. */
QSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::up-button, QDoubleSpinBox::down-button {
    subcontrol-origin: border; width: 0px; height: 0px; border: none;
}
QCheckBox { spacing: 6px; }
QCheckBox:focus { color: $accent; }
QCheckBox::indicator { width: 16px; height: 16px; border: 1px solid $muted; border-radius: 4px; background: $card; }
QCheckBox::indicator:checked { background: $accent_fill; border-color: $accent_fill; image: url("$check"); }
QProgressBar { background: $track; border: none; border-radius: 4px; max-height: 8px; min-height: 8px; }
QProgressBar::chunk { background: $accent_fill; border-radius: 4px; }
QProgressBar[failed="true"]::chunk { background: $bad_fill; }

QComboBox {
    background: $card; color: $text; border: 1px solid $border; border-radius: 8px; padding: 6px 12px; min-height: 18px;
}
QComboBox:hover { background: $hover; }
QComboBox:focus { border: 1px solid $accent; }
QComboBox:disabled { color: $muted; }
QComboBox::drop-down { border: none; width: 22px; }
QComboBox QAbstractItemView { background: $card; color: $text; border: 1px solid $border; outline: none; }
QMenu { background: $card; color: $text; border: 1px solid $border; padding: 6px; }
QMenu::item { padding: 6px 14px; border-radius: 6px; }
QMenu::item:selected { background: $hover; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { height: 1px; background: $border; margin: 6px 4px; }

QTextBrowser, QPlainTextEdit { background: transparent; border: none; color: $text; }
QPlainTextEdit[kind="detail"] {
    background: $code; border: 1px solid $border; border-radius: 6px; font-size: 12px; padding: 4px;
}
QPlainTextEdit[kind="field"] { background: $card; border: 1px solid $border; border-radius: 8px; padding: 4px 6px; }
QPlainTextEdit[kind="field"]:focus { border: 1px solid $accent; }
QPlainTextEdit[kind="log"] { background: $code; border: 1px solid $border; border-radius: 8px; padding: 4px; }
QPlainTextEdit[kind="code-text"] { font: ${code_px}px "$code_family"; }
QTableWidget {
    background: $panel; color: $text; border: 1px solid $border; border-radius: 8px; font-size: 13px;
    selection-background-color: $selection; selection-color: $text; outline: none;
}
QTableWidget:focus { border: 1px solid $accent; }
QTableWidget::item { padding: 4px 8px; }
QHeaderView { background: $panel; }
QHeaderView::section {
    background: $panel; color: $muted; border: none; border-bottom: 1px solid $border; padding: 6px 8px;
    font-size: 12px;
}
QPlainTextEdit[kind="prompt"] { background: $card; border: 1px solid $border; border-radius: 8px; padding: 4px; }
QPlainTextEdit[kind="prompt"]:focus { border: 1px solid $accent; }
QScrollArea { background: transparent; border: none; }
QWidget[kind="transcript"] { background: $window; }

QScrollBar:vertical { background: transparent; width: 10px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 2px; }
QScrollBar::handle { background: $track; border-radius: 3px; }
QScrollBar::handle:vertical { min-height: 32px; }
QScrollBar::handle:horizontal { min-width: 32px; }
QScrollBar::handle:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0px; height: 0px; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
""")


_SIZE = re.compile(r"(font-size|min-height|max-height): (\d+)(?=px)")


def stylesheet(colors: Colors, scaled: Callable[[int], int], code: QFont) -> str:
    """The style sheet in these colours; `scaled` fits fonts, and heights that follow from them, to the text in use."""
    named = {name: getattr(colors, name) for name in colors.__dataclass_fields__}
    font = {"code_px": code.pixelSize(), "code_family": code.family()}
    text = _TEMPLATE.substitute(named, check=assets.path("check.svg").as_posix(), **font)
    return _SIZE.sub(lambda size: f"{size[1]}: {scaled(int(size[2])) if int(size[2]) else 0}", text)
