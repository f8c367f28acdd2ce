"""A side of a race as it was recorded, and the comparison of two."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.pairs.mode_selector import Devices
from app.race import words
from app.race.recording import Recording, first_difference
from core.protocol import Done, FinishReason, StepToken
from helpers.steps import step


def recording(*tokens: str, finish: FinishReason | None = "stop", tail: str = "") -> Recording:
    """One token each tenth of a second."""
    made = Recording("gpu")
    for index, text in enumerate(tokens):
        token = StepToken(sum(text.encode()), text, "plain")
        made.add(replace(step(0.1 * index, index + 1, 1, text=text), tokens=(token,)))
    if finish is not None:
        text = "".join(tokens) + tail
        count, end_s = len(tokens), 0.1 * (len(tokens) - 1)
        made.end(Done(text, "", (), count, count, 1.0, 0, 0, 10.0, 0.2, 40, 30, end_s, 50.0, "gpu", finish))
    return made


def test_a_side_is_shown_as_it_was_at_any_time() -> None:
    side = recording("a", "bb", "ccc")
    shown = [
        (side.at(time_s).length, side.at(time_s).tokens, side.at(time_s).ended) for time_s in (-1, 0, 0.15, 0.25, 9)
    ]
    assert shown == [(0, 0, False), (1, 1, False), (3, 2, False), (6, 3, True), (6, 3, True)]
    assert side.at(0.15).elapsed_s == 0.15
    assert side.at(9.0).elapsed_s == pytest.approx(0.2)
    assert side.at(0.1).tokens_per_second == pytest.approx(10.0)
    assert side.at(0.05).tokens_per_second is None


def test_an_empty_side_can_be_shown() -> None:
    assert Recording("plain").now().tokens == 0
    assert recording(finish="cancelled").at(3.0).ended


def test_text_that_was_held_back_belongs_to_the_last_step() -> None:
    side = recording("a", "b", tail="!")
    assert side.text == "ab!"
    assert (side.at(0.05).length, side.at(0.1).length) == (1, 3)


def test_thinking_is_a_part_of_what_is_shown() -> None:
    side = Recording("gpu")
    side.add(step(0.0, 1, 1, text="", thinking="hm "))
    side.add(step(0.1, 2, 1, text="yes"))
    side.end(Done("yes", "hm ", (), 2, 1, 1.0, 0, 0, 10.0, 0.2, 40, 0, 0.1, 50.0, "gpu", "stop"))
    assert side.text == "hm yes"


def test_only_an_answer_that_ended_by_itself_is_whole() -> None:
    assert [recording("a", finish=finish).whole for finish in ("stop", "length", "cancelled", None)] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "place", "said"),
    [
        (("a", "b", "c"), ("a", "x", "c"), 2, ("b", "x")),
        (("a", "b"), ("a",), 2, ("b", None)),
        (("a",), ("a", "b"), 2, (None, "b")),
        (("a",), ("b",), 1, ("a", "b")),
    ],
)
def test_the_first_difference_is_found(
    left: tuple[str, ...], right: tuple[str, ...], place: int, said: tuple[str | None, str | None]
) -> None:
    found = first_difference(recording(*left), recording(*right))
    assert found is not None
    assert (found.position, (found.left, found.right), found.before) == (place, said, "".join(left[: place - 1]))
    sentence = words.difference_sentence(found, "Mirror")
    assert f"token {place}:" in sentence
    assert ("ended" in sentence) is (None in said)


def test_the_same_tokens_are_no_difference() -> None:
    assert first_difference(recording("a", "b"), recording("a", "b")) is None
    assert first_difference(Recording("plain"), Recording("gpu")) is None


def test_a_short_answer_gives_no_speed_up() -> None:
    short, long_enough = recording(*"abc"), recording(*"abcdefgh")
    assert words.speed_sentence(short, short, Devices()) == "Too short to compare speeds."
    assert words.speed_sentence(long_enough, long_enough, Devices()) == (
        "GPU draft: 1.00 times the speed of plain decoding, 10.0 against 10.0 tok/s."
    )


def test_the_prompts_reading_is_told_apart() -> None:
    assert words.first_token_line(recording("a")) == "First token after 0.20 s, 10 of 40 tokens of the prompt read"
    assert words.first_token_line(Recording("plain")) == ""
