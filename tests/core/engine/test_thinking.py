"""Thinking is told from the answer, however the stream is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.thinking import ThinkingSplitter


def split(text, cuts=(), opened=False):
    splitter = ThinkingSplitter(opened)
    thinking, answer, start = "", "", 0
    for cut in [*sorted(cuts), len(text)]:
        piece = splitter.add(text[start:cut])
        thinking, answer, start = thinking + piece.thinking, answer + piece.answer, cut
    rest = splitter.flush()
    return thinking + rest.thinking, answer + rest.answer


CASES = [
    ("Plain answer.", False, "", "Plain answer."),
    ("<think>\nHm.\n</think>\n\nYes.", False, "\nHm.\n", "Yes."),
    ("\n <think>Hm.</think>Yes.", False, "Hm.", "Yes."),
    ("Hm.\n</think>\n\nYes.", True, "Hm.\n", "Yes."),
    ("<think>never closed </thin", False, "never closed </thin", ""),
    ("cut off", True, "cut off", ""),
    ("<think></think>Yes.", False, "", "Yes."),
    ("The tag <think> opens, </think> closes.", False, "", "The tag <think> opens, </think> closes."),
    ("<think>a</think>Then <think>b</think>.", False, "a", "Then <think>b</think>."),
    ("<thin ice", False, "", "<thin ice"),
    ("  <thi", False, "", "  <thi"),
    ("", False, "", ""),
]


@pytest.mark.parametrize(("text", "opened", "thinking", "answer"), CASES)
def test_every_single_cut(text, opened, thinking, answer):
    for cut in range(len(text) + 1):
        assert split(text, [cut], opened) == (thinking, answer)
    assert split(text, range(len(text)), opened) == (thinking, answer)


@given(st.text(alphabet="<>/think \nab", max_size=40), st.sets(st.integers(0, 40)), st.booleans())
def test_cuts_never_matter(text, cuts, opened):
    assert split(text, [cut for cut in cuts if cut <= len(text)], opened) == split(text, (), opened)


def test_thinking_can_be_watched_while_it_streams():
    splitter = ThinkingSplitter(opened=True)
    assert splitter.add("First, ").thinking == "First, "
    assert splitter.add("a <").thinking == "a "
    assert splitter.add("b").thinking == "<b"
