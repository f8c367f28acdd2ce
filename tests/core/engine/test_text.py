"""Streamed text equals the text decoded as a whole, however it is split; stop strings cut exactly."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from core.engine.text import Detokenizer, StopStrings
from core.engine.tokenizer import Tokenizer
from helpers import gguf_files as files


def byte_tokenizer() -> Tokenizer:
    """A token for every byte (ids 0 to 255) and one control token (256)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = printable + [b for b in range(256) if b not in printable]
    vocabulary = dict(zip(files.byte_alphabet(), order, strict=True))
    backend = Backend(models.BPE(vocabulary | {"<|end|>": 256}, []))
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|end|>"])
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend), [256], "bytes")


BYTES = byte_tokenizer()


def stream(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.add(i) for i in ids), detokenizer.flush()]


# ------------------------------------------------------------------- characters


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 256), max_size=40))
def test_pieces_joined_equal_the_whole_for_any_bytes(ids: list[int]) -> None:
    expected = bytes(i for i in ids if i < 256).decode(errors="replace")
    assert "".join(stream(BYTES, ids)) == BYTES.decode(ids) == expected


@settings(deadline=None, derandomize=True)
@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_byte_by_byte_every_piece_is_a_whole_character(text: str) -> None:
    pieces = stream(BYTES, list(text.encode()))
    assert [piece for piece in pieces if piece] == list(text)
    ends = [sum(map(len, (c.encode() for c in text[: n + 1]))) - 1 for n in range(len(text))]
    assert [n for n, piece in enumerate(pieces) if piece] == ends  # each one as soon as its last byte is there


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_pieces_joined_equal_the_whole_for_any_tokens_of_the_demo_target(demo_tokenizer: Tokenizer, seed: int) -> None:
    rng = random.Random(seed)
    ids = [rng.randrange(demo_tokenizer.vocab_size + 3) for _ in range(60)]
    ids += demo_tokenizer.encode("👩‍👩‍👧 漢字 नमस्ते", parse_special=False)
    assert "".join(stream(demo_tokenizer, ids)) == demo_tokenizer.decode(ids)


def test_real_text_never_shows_half_a_character(demo_tokenizer: Tokenizer) -> None:
    text = "Smile 😀👩‍👩‍👧‍👦, 漢字かな交じり, مرحبا, שלום, नमस्ते, e\u0301!"
    ids = demo_tokenizer.encode(text, parse_special=False)
    pieces = stream(demo_tokenizer, ids)
    assert "".join(pieces) == text
    assert len(ids) > len(text)  # most characters are split between tokens
    assert not any("\ufffd" in piece for piece in pieces)


def test_a_character_left_incomplete_shows_as_replacement_only_at_the_end() -> None:
    assert stream(BYTES, list("a😀".encode())[:-1]) == ["a", "", "", "", "\ufffd"]


def test_control_tokens_give_no_text_not_even_inside_a_character() -> None:
    assert stream(BYTES, [0xC3, 256, 0xA9, 256]) == ["", "", "é", "", ""]


def test_the_first_space_of_word_tokenizers_is_dropped_once() -> None:
    backend = Backend(models.BPE({"<unk>": 0, "▁a": 1, "b": 2, "▁": 3}, []))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Strip(" ", 1)])
    backend.add_special_tokens(["<unk>"])
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend), [0], "words")
    assert stream(tokenizer, [0, 1, 2, 1, 3]) == ["", "a", "b", " a", " ", ""]
    for ids in ([1, 1], [3, 1], [2, 1], [0, 3, 3]):
        assert "".join(stream(tokenizer, ids)) == tokenizer.decode(ids)


# ----------------------------------------------------------------- stop strings


def cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """What must stay, character by character: up to the start of the first stop string that is complete."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if stop and text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


def split(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(c % (len(text) + 1) for c in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


WORDS = st.text("ab", max_size=14)
STOPS = st.lists(st.text("ab", max_size=4), max_size=3)


@settings(max_examples=800, deadline=None, derandomize=True)
@given(WORDS, STOPS, st.lists(st.integers(0, 20), max_size=6))
def test_the_text_is_cut_right_before_the_stop_string_however_it_is_split(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    stopper = StopStrings(stops)
    given_out = ""
    seen = ""
    expected, found = cut(text, stops)
    for piece in split(text, cuts):
        seen += piece
        given_out += stopper.add(piece)
        assert expected.startswith(given_out)  # nothing is ever taken back
        assert stopper.found == cut(seen, stops)[1]  # and the end is seen at once
    assert given_out + stopper.flush() == expected
    assert stopper.found == found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(WORDS, STOPS)
def test_only_what_may_begin_a_stop_string_is_held_back(text: str, stops: list[str]) -> None:
    stopper = StopStrings(stops)
    out = "".join(map(stopper.add, text))
    held = text[len(out) :]
    if not stopper.found and held:
        assert any(stop.startswith(held) and stop != held for stop in stops)


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["Hello", " wor", "ld. E", "ND of it"], ["END"], "Hello world. "),
        (["one\n", "\ntwo"], ["\n\n"], "one"),
        (["abab", "ac"], ["abac"], "ab"),
        (["x STO", "x STOP y"], ["STOP"], "x STOx "),
        (["all of it"], [], "all of it"),
        (["all of it"], ["", "zzz"], "all of it"),
        (["stop"], ["stop"], ""),
        (["unfinished ST"], ["STOP"], "unfinished ST"),
    ],
)
def test_examples(pieces: list[str], stops: list[str], expected: str) -> None:
    stopper = StopStrings(stops)
    assert "".join(map(stopper.add, pieces)) + stopper.flush() == expected


def test_nothing_comes_after_a_stop_string() -> None:
    stopper = StopStrings(["."])
    assert [stopper.add("a.b"), stopper.add("c."), stopper.flush()] == ["a", "", ""]
    assert stopper.found
