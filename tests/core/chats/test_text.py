"""Automatic titles, and texts that cannot be stored."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chats.text import automatic_title, storable


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("Why is the sky blue?", "Why is the sky blue?"),
        ("  # Tides\n\nHow do *they* work?", "Tides How do they work?"),
        ("<think>secret plan</think>\nHello", "Hello"),
        ("<think>never closed", ""),
        ("- one\n* two\n1. three\n> four\n- [x] five", "one two three four five"),
        ('See [the docs](https://example.org/a?b=c) and ![a cat](cat.png "Tom")', "See the docs and a cat"),
        ("```python\nprint(1)\n```\nfix it", "print(1) fix it"),
        ("Use `x_y` and **bold _both_** and ~~gone~~", "Use x_y and bold both and gone"),
        ("keep snake_case_names and 2 * 3 * 4", "keep snake_case_names and 2 * 3 * 4"),
        ("a\0b\u202ec\ufeff", "a\ufffdb c"),
        ("word " * 30, "word word word word word word word word word word word word…"),
        ("no end, " * 8 + "x" * 50, "no end, no end, no end, no end, no end, no end, no end, no…"),
        ("x" * 200, "x" * 59 + "…"),
        ("日本語" * 40, "日本語" * 19 + "日本…"),
        ("", ""),
        ("---\n***", ""),
    ],
)
def test_a_title_is_the_beginning_of_the_message_in_plain_words(message, title):
    assert automatic_title(message) == title


def test_a_title_is_not_cut_within_a_character():
    family = "👩‍👩‍👧‍👦"
    assert automatic_title("x" * 55 + family * 3) == "x" * 55 + "…"
    assert automatic_title("e\u0301" * 100) == "e\u0301" * 29 + "…"


@given(message=st.text(st.characters(codec=None), max_size=300))
def test_a_title_is_one_short_line_whatever_the_message(message):
    title = automatic_title(message)
    assert len(title) <= 60
    assert title == title.strip()
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in title)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("unit", ["*a", "_a", "`", "[", "](", "- ", "> ", "<think>", "#", "~~~\n", "1.", "\n\n"])
def test_a_title_of_a_long_hostile_message_takes_no_time(unit):
    for _ in range(5):
        automatic_title(unit * 300_000)


@given(text=st.text(st.characters(codec=None)))
def test_what_is_stored_is_unicode_without_nul(text):
    result = storable(text)
    assert "\0" not in result.encode().decode()
    if result != text:
        assert "\ufffd" in result or any("\ud800" <= character <= "\udfff" for character in text)


def test_two_halves_that_belong_together_are_one_character():
    assert storable("\ud83d\ude00") == "\U0001f600"
    assert storable("\ude00\ud83d") == "\ufffd\ufffd"
