"""The template that translators start from: it holds every text that the window looks up."""

from __future__ import annotations

import ast
from pathlib import Path

from core.settings import DECLARATIONS
from scripts.extract_texts import ROOT, template


def looked_up() -> set[str]:
    """As Python's own parser finds them."""
    return {
        node.args[0].value
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tr", "trn")
        if isinstance(node.args[0], ast.Constant)
    }


def test_it_holds_every_text() -> None:
    messages = {message.id if isinstance(message.id, str) else message.id[0] for message in template()}
    assert len(looked_up()) > 600
    assert looked_up() <= messages
    assert {declaration.label for declaration in DECLARATIONS} <= messages


def test_places_are_named_without_this_machines_folders() -> None:
    for message in template():
        for file, _ in message.locations:
            assert not Path(file).is_absolute()
            assert (ROOT / file).is_file()
