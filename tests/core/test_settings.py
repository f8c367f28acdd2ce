"""The declaration of the settings: enough to build a page from, and true to what the values may be."""

from __future__ import annotations

from typing import Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from core.pairs import Pair
from core.protocol import MODES, Mode
from core.settings import DECLARATIONS, Settings, is_allowed

BY_NAME = {declaration.name: declaration for declaration in DECLARATIONS}


def test_every_setting_is_declared_once_with_its_default():
    assert [declaration.name for declaration in DECLARATIONS] == list(Settings.__struct_fields__)
    assert {name: declaration.default for name, declaration in BY_NAME.items()} == msgspec.structs.asdict(Settings())


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda declaration: declaration.name)
def test_a_declaration_tells_what_a_page_shows(declaration):
    assert declaration.label
    assert declaration.expected
    assert is_allowed(declaration.name, declaration.default)
    kind, _ = get_args(get_type_hints(Settings, include_extras=True)[declaration.name])
    if get_origin(kind) is Literal:
        assert declaration.kind == "choice"
        wanted = MODES if kind == Mode else get_args(kind)
        assert {value for value, _ in declaration.choices} == set(wanted)
        assert all(label for _, label in declaration.choices)
    else:
        assert declaration.choices == ()
        kinds = {"switch": bool, "whole number": int, "number": float, "text": str, "pair": Pair | None}
        assert kinds[declaration.kind] == kind
    if declaration.kind in ("whole number", "number"):
        assert is_allowed(declaration.name, declaration.least)
        assert is_allowed(declaration.name, declaration.greatest)
        assert not is_allowed(declaration.name, declaration.least - 1)
        assert not is_allowed(declaration.name, declaration.greatest + 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hub_endpoint", "https://hub.example.org/mirror"),
        ("hub_endpoint", "http://127.0.0.1:8080"),
        ("proxy", "socks5h://user:secret@localhost:1080"),
        ("models_folder", "/Volumes/Big disk/模型"),
        ("models_folder", "~/models"),
        ("temperature", 1),
        ("system_prompt", "a\nb 🎉"),
        ("pair", None),
        ("pair", Pair("Mine", "/a/target", "/a/draft")),
    ],
)
def test_good_values_are_allowed(name, value):
    assert is_allowed(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theme", "sepia"),
        ("theme", None),
        ("text_px", "14"),
        ("text_px", True),
        ("text_px", 14.5),
        ("max_tokens", 10**40),
        ("temperature", float("nan")),
        ("temperature", "hot"),
        ("simple", 1),
        ("hub_endpoint", "huggingface.co"),
        ("hub_endpoint", "file:///etc"),
        ("hub_endpoint", "http://a\n"),
        ("proxy", "javascript:alert(1)"),
        ("models_folder", "models"),
        ("models_folder", "/a\0b"),
        ("models_folder", "/a\ud800"),
        ("system_prompt", ["a"]),
        ("pair", "demo"),
        ("pair", {"name": "Mine"}),
        ("system_prompt", object()),
    ],
)
def test_bad_values_are_not(name, value):
    assert not is_allowed(name, value)


def test_the_token_is_no_setting():
    assert not [name for name in BY_NAME if "token" in name and name != "max_tokens"]
