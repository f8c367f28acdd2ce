"""Text of many scripts, emoji sequences and broken UTF-8, streamed from tokens that are cut at any byte."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from core.engine.text import Detokenizer, StopStrings
from core.engine.tokenizer import Tokenizer

SCRIPTS = {
    "Latin": "Straße, ça va?",
    "Vietnamese": "Tiếng Việt",
    "Greek": "Ελλάδα",
    "Cyrillic": "Привіт, світ",
    "Armenian": "Բարեւ Ձեզ",
    "Georgian": "გამარჯობა",
    "Hebrew": "שָׁלוֹם עולם",
    "Arabic": "السلام عليكم",
    "Syriac": "ܫܠܡܐ",
    "Thaana": "ދިވެހި",
    "N'Ko": "ߒߞߏ",
    "Devanagari": "नमस्ते दुनिया",
    "Bengali": "বাংলা ভাষা",
    "Gurmukhi": "ਪੰਜਾਬੀ",
    "Gujarati": "ગુજરાતી",
    "Oriya": "ଓଡ଼ିଆ",
    "Tamil": "தமிழ் மொழி",
    "Telugu": "తెలుగు",
    "Kannada": "ಕನ್ನಡ",
    "Malayalam": "മലയാളം",
    "Sinhala": "සිංහල",
    "Thai": "ภาษาไทย",
    "Lao": "ພາສາລາວ",
    "Tibetan": "བོད་སྐད།",
    "Myanmar": "မြန်မာဘာသာ",
    "Khmer": "ភាសាខ្មែរ",
    "Ethiopic": "አማርኛ",
    "Cherokee": "ᏣᎳᎩ",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ",
    "Hangul": "한국어",
    "Hangul, decomposed": "한국",
    "Kana": "ひらがなカタカナ",
    "Han": "漢字，汉字。",
    "Han beyond the first plane": "𠮷野家",
    "Gothic": "𐌲𐌿𐍄𐌹𐍃𐌺",
    "Mathematics": "∀𝑥∈ℝ: ⌈𝑥⌉ ≥ 𝑥",
}
EMOJI = {
    "one": "a😀b",
    "family": "👨‍👩‍👧‍👦",
    "family in the middle of text": "we 👩‍👩‍👦 are",
    "flags": "🇩🇪🇯🇵",
    "flag of tags": "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "rainbow flag": "🏳️‍🌈",
    "skin tones": "👍🏽👋🏿",
    "profession with a skin tone": "👩🏾‍🚀",
    "keycaps": "1️⃣#️⃣",
    "heart and its variation": "❤️❤",
    "heart on fire": "❤️‍🔥",
}
TEXTS = SCRIPTS | EMOJI
BROKEN = {
    "lone continuation byte": b"\x80",
    "many continuation bytes": b"\xbf\x80\x80\x80\x80",
    "two-byte sequence cut": b"\xc3",
    "three-byte sequence cut after one": b"\xe6",
    "three-byte sequence cut after two": b"\xe6\xbc",
    "four-byte sequence cut after three": b"\xf0\x9f\x98",
    "sequence cut by another one": b"\xf0\x9f\xe6\xbc\xa2",
    "overlong slash": b"\xc0\xaf",
    "overlong of three bytes": b"\xe0\x80\xaf",
    "overlong of four bytes": b"\xf0\x80\x80\xaf",
    "half a surrogate pair": b"\xed\xa0\x80",
    "surrogate pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond the last code point": b"\xf4\x90\x80\x80",
    "five-byte sequence": b"\xf8\x88\x80\x80\x80",
    "bytes that never occur": b"\xfe\xff",
}


class Pieces:
    """A tokenizer that has every piece of a text as a token, wherever it is cut."""

    def __init__(self, raw: bytes) -> None:
        table = {byte: chr(byte) for byte in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))}
        table |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in table)}
        self.raw = raw
        pieces = {raw[a:b] for a, b in combinations(range(len(raw) + 1), 2)}
        self.ids = {piece: n for n, piece in enumerate(sorted(pieces))}
        backend = Backend(models.BPE({"".join(map(table.get, piece)): n for piece, n in self.ids.items()}, []))
        backend.decoder = decoders.ByteLevel()
        self.tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend), [], "pieces")

    def cut(self, cuts: Sequence[int]) -> list[bytes]:
        return [self.raw[a:b] for a, b in pairwise([0, *cuts, len(self.raw)])]

    def stream(self, cuts: Sequence[int]) -> Iterator[str]:
        """What each token adds, and what the end adds."""
        detokenizer = Detokenizer(self.tokenizer)
        for piece in self.cut(cuts):
            yield detokenizer.add(self.ids[piece])
        yield detokenizer.flush()


def every_split(length: int) -> Iterator[tuple[int, ...]]:
    """All ways to cut `length` bytes: 2 to the power of length - 1."""
    places = range(1, length)
    return (cuts for count in range(length) for cuts in combinations(places, count))


def beginning(text: str, most_bytes: int = 10) -> str:
    """Whole characters of the beginning, few enough to be cut in every way."""
    return text.encode()[:most_bytes].decode(errors="ignore")


def splits(length: int) -> st.SearchStrategy[list[int]]:
    return st.sets(st.sampled_from(range(1, length))).map(sorted) if length > 1 else st.just([])


def assert_whole_characters_come_at_once(pieces: Pieces, cuts: Sequence[int]) -> None:
    """After every token the text so far is that of all characters whose last byte was there; and none is broken."""
    given_out, read = "", b""
    *streamed, rest = pieces.stream(cuts)
    for piece, text in zip(pieces.cut(cuts), streamed, strict=True):
        given_out, read = given_out + text, read + piece
        assert given_out == read.decode(errors="ignore"), cuts
    assert rest == ""
    assert given_out == pieces.raw.decode()


def test_there_are_texts_of_more_than_twenty_scripts():
    scripts = {unicodedata.name(char).split()[0] for text in SCRIPTS.values() for char in text if char.isalpha()}
    assert len(scripts) >= 30


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_split_of_a_words_beginning(text):
    raw = beginning(text).encode()
    pieces = Pieces(raw)
    for cuts in every_split(len(raw)):
        assert_whole_characters_come_at_once(pieces, cuts)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_two_cuts_of_the_whole_text_and_every_byte_alone(text):
    raw = text.encode()
    pieces = Pieces(raw)
    for cuts in (*combinations(range(1, len(raw)), 2), range(1, len(raw))):
        assert_whole_characters_come_at_once(pieces, cuts)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_split_of_texts_of_several_scripts(data):
    raw = "".join(data.draw(st.lists(st.sampled_from(sorted(TEXTS.values())), min_size=1, max_size=2))).encode()
    assert_whole_characters_come_at_once(Pieces(raw), data.draw(splits(len(raw))))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_demo_targets_own_tokens_give_every_text_back_in_whole_characters(demo_tokenizer, text):
    detokenizer = Detokenizer(demo_tokenizer)
    streamed = [detokenizer.add(token) for token in demo_tokenizer.encode(text, parse_special=False)]
    assert "".join(streamed) == text
    assert detokenizer.flush() == ""
    assert not any("\ufffd" in piece for piece in streamed)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(data=st.data())
def test_tokens_for_characters_and_for_single_bytes_in_any_mix(data):
    """As in SentencePiece vocabularies: what has no token of its own comes as bytes."""
    text = data.draw(st.sampled_from(sorted(TEXTS.values()))).replace(" ", "")
    vocabulary = {"<unk>": 0} | {f"<0x{byte:02X}>": 1 + byte for byte in range(256)}
    vocabulary |= {character: 257 + n for n, character in enumerate(sorted(set(text)))}
    backend = Backend(models.BPE(vocabulary, [], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(["<unk>"])
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend), [], "mixed")
    detokenizer = Detokenizer(tokenizer)
    for character in text:
        if data.draw(st.booleans()):
            assert detokenizer.add(vocabulary[character]) == character
        else:
            *most, last = (detokenizer.add(1 + byte) for byte in character.encode())
            assert not any(most)
            assert last == character
    assert detokenizer.flush() == ""


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize(("before", "after"), [("", ""), ("é", "漢"), ("", "a"), ("😀", "")])
def test_every_split_of_invalid_utf_8_gives_what_the_whole_gives(broken, before, after):
    raw = before.encode() + broken + after.encode()
    pieces = Pieces(raw)
    expected = raw.decode(errors="replace")
    assert expected.startswith(before + "\ufffd")
    assert expected.endswith(after)
    for cuts in every_split(len(raw)):
        streamed = list(pieces.stream(cuts))
        assert "".join(streamed) == expected, cuts


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_split_of_text_with_invalid_bytes_anywhere(data):
    parts = st.sampled_from([*BROKEN.values(), *(text.encode() for text in TEXTS.values())])
    raw = b"".join(data.draw(st.lists(parts, min_size=1, max_size=3)))
    raw = raw[: data.draw(st.integers(1, len(raw)))]
    pieces = Pieces(raw)
    expected = pieces.tokenizer.decode([pieces.ids[raw]])
    assert "".join(pieces.stream(data.draw(splits(len(raw))))) == expected == raw.decode(errors="replace")


# ------------------------------------------------------------------ stop strings


def stopped(pieces: Pieces, stop: str, cuts: Sequence[int]) -> tuple[str, int | None]:
    """The text before the stop string, and how many bytes had been read when it was found."""
    stops, text, read = StopStrings([stop]), "", 0
    sizes = [*map(len, pieces.cut(cuts)), 0]
    for new, size in zip(pieces.stream(cuts), sizes, strict=True):
        read += size
        text += stops.add(new)
        if stops.found:
            return text, read
    return text + stops.flush(), None


def assert_stops(pieces: Pieces, stop: str, cuts: Sequence[int]) -> None:
    text = pieces.raw.decode()
    at = text.index(stop)
    complete = len(text[: at + len(stop)].encode())
    found_at = next(cut for cut in [*cuts, len(pieces.raw)] if cut >= complete)  # the token that completes it
    assert stopped(pieces, stop, cuts) == (text[:at], found_at), cuts


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_stop_string_is_found_across_every_token_border(text):
    text = beginning(text)
    pieces = Pieces(text.encode())
    for stop in {text[-2:], text[:1], text[len(text) // 2 :]}:
        for cuts in every_split(len(pieces.raw)):
            assert_stops(pieces, stop, cuts)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_stop_string_in_any_text_cut_in_any_way(data):
    text = data.draw(st.sampled_from(sorted(TEXTS.values())))
    start = data.draw(st.integers(0, len(text) - 1))
    stop = text[start : data.draw(st.integers(start + 1, len(text)))]
    pieces = Pieces(text.encode())
    assert_stops(pieces, stop, data.draw(splits(len(pieces.raw))))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_stop_string_that_does_not_occur_loses_nothing(data):
    text = data.draw(st.sampled_from(sorted(TEXTS.values())))
    pieces = Pieces(text.encode())
    cuts = data.draw(splits(len(pieces.raw)))
    assert stopped(pieces, text[-1] + "\x00", cuts) == (text, None)
