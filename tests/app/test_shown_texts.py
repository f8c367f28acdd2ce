"""Texts that the window shows can be translated: each stands in `tr` or `trn`, where a catalog's tools find it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

APP = Path(__file__).resolve().parents[2] / "app"
LOOK_UPS = {"tr": 1, "trn": 2}
"""With the number of texts among their arguments."""
DECLARED = {"declaration", "group", "text"}
"""What `tr` gets in app/settings/ that is written in core/settings.py."""
SETTERS = {
    *("setText", "setToolTip", "setAccessibleName", "setAccessibleDescription", "setPlaceholderText", "setWindowTitle"),
    *("setTitle", "setStatusTip", "setSuffix", "setPrefix", "setSpecialValueText", "addAction", "addItem", "addMenu"),
    *("setHorizontalHeaderLabels", "setLabelText", "setNameFilters", "setPlainText", "set_full_text", "show_value"),
    *("QLabel", "QPushButton", "QCheckBox", "QMenu", "QAction", "FigureRow", "Meter", "Dial"),
}
SHOWING = dict.fromkeys(SETTERS, slice(None)) | {
    "label": slice(1),
    "push_button": slice(2),
    "IconButton": slice(1, None),
    "Problem": slice(1, 3),
    "InternalError": slice(2),
}
"""Calls with those of their arguments that are shown."""
SAME_EVERYWHERE = ("Mirror SD", "tok/s")


def modules() -> list[Path]:
    return sorted(APP.rglob("*.py"))


def calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2], node


def written(argument: ast.expr) -> str:
    """The letters of a text that stands here as it is."""
    if isinstance(argument, ast.IfExp):
        return written(argument.body) + written(argument.orelse)
    if isinstance(argument, ast.BinOp | ast.BoolOp):
        parts = [argument.left, argument.right] if isinstance(argument, ast.BinOp) else argument.values
        return "".join(written(part) for part in parts)
    if isinstance(argument, ast.List | ast.Tuple):
        return "".join(written(part) for part in argument.elts)
    if isinstance(argument, ast.JoinedStr):
        return "".join(written(part) for part in argument.values)
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        text = re.sub("<[^>]*|[^<]*>", "", argument.value)  # without the style of rich text
        for name in SAME_EVERYWHERE:
            text = text.replace(name, "")
        return "".join(letter for letter in text if letter.isalpha())
    return ""


def loose_texts(source: str) -> list[str]:
    """What is shown and not looked up, with its line."""
    return [
        f"{call.lineno}: {ast.unparse(argument)}"
        for name, call in calls(source)
        if name in SHOWING
        for argument in call.args[SHOWING[name]]
        if len(written(argument)) > 1
    ]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(APP)))
def test_what_is_shown_is_looked_up_by_a_text_that_tools_can_read(path: Path) -> None:
    source = path.read_text()
    assert loose_texts(source) == []
    for name, call in calls(source):
        for argument in call.args[: LOOK_UPS.get(name, 0)]:
            declared = path.parent.name == "settings" and bool(DECLARED & {*ast.unparse(argument).split(".")})
            assert isinstance(argument, ast.Constant) or declared, f"line {call.lineno}"


def test_a_loose_text_is_noticed() -> None:
    assert loose_texts('button.setToolTip(f"Copy this {language}" if language else "")') != []
    assert loose_texts('button.setToolTip(tr("Copy this {language}").format(language=language))') == []
