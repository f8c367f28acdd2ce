"""The tokenizer: the ids that the model was trained with, every text back as it was, special tokens known."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import socket
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import regex
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from core.engine.tokenizer import Tokenizer
from core.errors import MissingFile, UnreadableModel, UnsupportedModel
from core.formats.gguf_header import GgufInfo, read_gguf
from core.pairs import demo_pair
from helpers import gguf_files as files

# First and last code point of Unicode blocks.
BLOCKS = [
    (0x0020, 0x007E),  # Basic Latin
    (0x00A0, 0x024F),  # Latin supplements
    (0x0300, 0x036F),  # combining marks
    (0x0370, 0x03FF),  # Greek
    (0x0400, 0x052F),  # Cyrillic
    (0x0531, 0x058F),  # Armenian
    (0x0590, 0x05FF),  # Hebrew
    (0x0600, 0x06FF),  # Arabic, with its digits
    (0x0700, 0x074F),  # Syriac
    (0x0900, 0x097F),  # Devanagari
    (0x0980, 0x09FF),  # Bengali
    (0x0A00, 0x0B7F),  # Gurmukhi, Gujarati, Oriya
    (0x0B80, 0x0D7F),  # Tamil, Telugu, Kannada, Malayalam
    (0x0D80, 0x0EFF),  # Sinhala, Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x10FF),  # Myanmar, Georgian
    (0x1100, 0x11FF),  # Hangul Jamo
    (0x1200, 0x139F),  # Ethiopic, Cherokee supplement
    (0x13A0, 0x167F),  # Cherokee, Canadian syllabics
    (0x1780, 0x18AF),  # Khmer, Mongolian
    (0x1E00, 0x1FFF),  # Latin additional, Greek extended
    (0x2000, 0x206F),  # spaces, joiners, direction marks
    (0x2070, 0x22FF),  # superscripts, currency, arrows, mathematics
    (0x2300, 0x2BFF),  # technical, boxes, shapes, braille
    (0x3000, 0x30FF),  # CJK punctuation, Hiragana, Katakana
    (0x3400, 0x4DBF),  # CJK extension A
    (0x4E00, 0x9FFF),  # CJK
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0xE000, 0xF8FF),  # private use
    (0xFE00, 0xFEFF),  # variation selectors, Arabic forms
    (0xFF00, 0xFFEF),  # full-width forms
    (0x10000, 0x103FF),  # Linear B, Gothic
    (0x12000, 0x123FF),  # cuneiform
    (0x1D400, 0x1D7FF),  # mathematical alphabets and digits
    (0x1F300, 0x1FAFF),  # emoji
    (0x20000, 0x2A6DF),  # CJK extension B
    (0xE0000, 0xE007F),  # tags
    (0x0000, 0x10FFFF),  # anything
]
SNIPPETS = [
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "👍🏽",
    "🇩🇪",
    "e\u0301\u0327",
    "क्षि",
    "ـــ",
    "  ",
    "\t\t",
    "\n\n\n",
    " \n ",
    "\r\n",
    "1234567890",
    "３．１４",
    "don't",
    "WE'LL",
    "def f(x):\n    return x**2\n",
    '{"a": [1, 2.5e-3]}',
    "https://example.org/?q=1&r=%20",
    "<|im_end|>",
    "</s>",
    "\x00",
    "\ufeff",
]

# SmolLM2's vocabulary has no token for these bytes: six control characters, and the lead bytes of planes 4 to 11,
# which hold no characters. The others never occur in UTF-8.
ABSENT_BYTES = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}
IMPOSSIBLE_BYTES = {0xC0, 0xC1, *range(0xF5, 0x100)}


def strings_of_all_scripts() -> list[str]:
    rng = random.Random(20)

    def piece() -> str:
        if rng.random() < 0.3:
            return rng.choice(SNIPPETS)
        first, last = rng.choice(BLOCKS)
        points = (rng.randint(first, last) for _ in range(rng.randint(1, 12)))
        characters = (chr(p) for p in points if not 0xD800 <= p <= 0xDFFF)
        return "".join(c for c in characters if not ABSENT_BYTES & set(c.encode()))

    return [rng.choice(("", " ", "\n")).join(piece() for _ in range(rng.randint(1, 8))) for _ in range(1000)]


STRINGS = strings_of_all_scripts()


class ReferenceBpe:
    """SmolLM2's encoding, written down plainly: single digits, GPT-2's pattern, then the earliest merge first."""

    _WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def __init__(self, info: GgufInfo) -> None:
        self._ids = {token: i for i, token in enumerate(info.strings("tokenizer.ggml.tokens"))}
        self._ranks = {merge: rank for rank, merge in enumerate(info.strings("tokenizer.ggml.merges"))}
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        self._characters = dict(
            zip(printable + [b for b in range(256) if b not in printable], files.byte_alphabet(), strict=True)
        )

    def encode(self, text: str) -> list[int]:
        pieces = (piece for part in regex.split(r"(\p{N})", text) for piece in self._WORDS.findall(part))
        return [self._ids[token] for piece in pieces for token in self._merged(piece)]

    def _merged(self, piece: str) -> list[str]:
        parts = [self._characters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            ranks = [self._ranks.get(f"{a} {b}", 1 << 60) for a, b in itertools.pairwise(parts)]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == 1 << 60:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return parts


@pytest.fixture(scope="module")
def demo_info() -> GgufInfo:
    return read_gguf(demo_pair().target)


# --------------------------------------------------------------- the demo target


def test_the_strings_cover_all_scripts() -> None:
    categories = {unicodedata.category(c) for text in STRINGS for c in text}
    assert {"Lu", "Ll", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "So", "Sm", "Zs", "Cf", "Co", "Cn"} <= categories
    assert len(set(STRINGS)) > 950


@pytest.mark.parametrize("parse_special", [True, False])
def test_a_thousand_strings_of_all_scripts_come_back_as_they_were(
    demo_tokenizer: Tokenizer, parse_special: bool
) -> None:
    for text in STRINGS:
        expected = text.replace("<|im_end|>", "") if parse_special else text
        assert demo_tokenizer.decode(demo_tokenizer.encode(text, parse_special=parse_special)) == expected


def test_ids_equal_those_of_a_plainly_written_bpe(demo_tokenizer: Tokenizer, demo_info: GgufInfo) -> None:
    reference = ReferenceBpe(demo_info)
    for text in STRINGS:
        assert demo_tokenizer.encode(text, parse_special=False) == reference.encode(text)


def test_ids_of_known_texts(demo_tokenizer: Tokenizer) -> None:
    assert demo_tokenizer.encode("The capital of France is", parse_special=True) == [504, 3575, 282, 4649, 314]
    assert demo_tokenizer.encode("<|im_start|>user\n", parse_special=True) == [1, 4093, 198]
    digits = demo_tokenizer.encode("2024", parse_special=True)
    assert [demo_tokenizer.token_text(i) for i in digits] == ["2", "0", "2", "4"]


def test_every_special_token_of_the_file_is_known(demo_tokenizer: Tokenizer, demo_info: GgufInfo) -> None:
    types: Any = demo_info.metadata["tokenizer.ggml.token_type"]
    tokens = demo_info.strings("tokenizer.ggml.tokens")
    controls = {i for i, kind in enumerate(types) if kind == 3}
    assert len(controls) == 17
    assert demo_tokenizer.special_ids == controls
    for i in controls:
        assert demo_tokenizer.encode(f"a{tokens[i]}b", parse_special=True).count(i) == 1
        assert not set(demo_tokenizer.encode(f"a{tokens[i]}b", parse_special=False)) & controls
        assert demo_tokenizer.token_bytes(i) == b""
        assert demo_tokenizer.token_text(i) == tokens[i]
        assert tokens[i] in demo_tokenizer.control_spellings
    assert demo_tokenizer.vocab_size == len(tokens)


def test_ends_of_an_answer_are_end_of_turn_and_end_of_text(demo_tokenizer: Tokenizer) -> None:
    assert {demo_tokenizer.token_text(i) for i in demo_tokenizer.eos_ids} == {"<|im_end|>", "<|endoftext|>"}


def test_token_bytes_are_the_bytes_of_the_text(demo_tokenizer: Tokenizer) -> None:
    ids = demo_tokenizer.encode("naïve 😀\n", parse_special=True)
    assert b"".join(map(demo_tokenizer.token_bytes, ids)) == "naïve 😀\n".encode()
    singles = {demo_tokenizer.token_bytes(i) for i in range(demo_tokenizer.vocab_size)}
    assert {b for b in range(256) if bytes([b]) not in singles} == ABSENT_BYTES | IMPOSSIBLE_BYTES


def test_ids_beyond_the_vocabulary_carry_no_text(demo_tokenizer: Tokenizer) -> None:
    assert demo_tokenizer.token_bytes(demo_tokenizer.vocab_size) == b""
    assert demo_tokenizer.decode([demo_tokenizer.vocab_size + 7]) == ""


# ----------------------------------------------------------- other GGUF tokenizers


def tiny_info(**changes: Any) -> GgufInfo:
    entries = files.metadata() | {f"tokenizer.{key}".replace("__", "."): value for key, value in changes.items()}
    return GgufInfo(Path("tiny.gguf"), {key: value for key, value in entries.items() if value is not None}, {})


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["x", "='", "12345", " ", " y", "\n", "\n", "Z"]),
        ("default", ["x", "='", "12345", " ", " y", "\n", "\n", "Z"]),
        ("smollm", ["x", "='", "1", "2", "3", "4", "5", " ", " y", "\n", "\n", "Z"]),
        ("llama-bpe", ["x", "='", "123", "45", " ", " y", "\n\n", "Z"]),
        ("qwen2", ["x", "='", "1", "2", "3", "4", "5", " ", " y", "\n\n", "Z"]),
    ],
)
def test_text_is_split_as_each_pre_tokenizer_does(pre: str, pieces: list[str]) -> None:
    # Every part of the text is a token, and merges that begin earlier in the text come first: whatever the
    # pre-tokenizer leaves together becomes one token.
    text = "".join(pieces)
    spelled = text.replace(" ", "Ġ").replace("\n", "Ċ")
    ends = range(len(text) + 1)
    parts = list(dict.fromkeys(spelled[a:b] for a in ends for b in ends if b - a > 1))
    info = tiny_info(
        ggml__pre=pre,
        ggml__tokens=[*files.CONTROLS, *files.byte_alphabet(), *parts],
        ggml__token_type=None,
        ggml__merges=[f"{part[:-1]} {part[-1]}" for part in parts],
    )
    tokenizer = Tokenizer.from_gguf(info)
    assert [tokenizer.token_text(i) for i in tokenizer.encode(text, parse_special=False)] == pieces


def test_user_defined_tokens_are_matched_and_keep_their_text() -> None:
    tokens = [*files.vocabulary(), "<tool>", "<|kind|>"]
    types = [3 if t in files.CONTROLS else 1 for t in files.vocabulary()] + [4, 4]
    tokenizer = Tokenizer.from_gguf(tiny_info(ggml__tokens=tokens, ggml__token_type=types))
    tool, kind = len(tokens) - 2, len(tokens) - 1
    assert tokenizer.encode("<tool>", parse_special=False) == [tool]
    assert tokenizer.decode([tool]) == "<tool>"
    # Spelled like a marker of the conversation: a control token, whatever the file calls it.
    assert tokenizer.special_ids == {0, 1, 2, kind}


def test_ends_named_in_the_metadata_are_ends() -> None:
    assert Tokenizer.from_gguf(tiny_info(ggml__eot_token_id=9, ggml__eom_token_id=11)).eos_ids == {0, 2, 9, 11}


@pytest.mark.parametrize(
    ("changes", "found"),
    [({"ggml__model": "bert"}, "'bert'"), ({"ggml__pre": "tekken"}, "'tekken'")],
)
def test_other_tokenizers_are_refused_by_name(changes: dict[str, str], found: str) -> None:
    with pytest.raises(UnsupportedModel, match=found):
        Tokenizer.from_gguf(tiny_info(**changes))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"ggml__tokens": None}, "tokens is not a list"),
        ({"ggml__tokens": [*files.vocabulary()[:-1], "a"]}, "names a token twice"),
        ({"ggml__merges": ["no pair here", "a"]}, "contradicts itself"),
        ({"ggml__merges": ["Q Z"]}, "contradicts itself"),
        ({"ggml__merges": None}, "merges is not a list"),
        ({"ggml__token_type": [1, 2]}, "list of token types"),
        ({"ggml__eos_token_id": 100_000}, "eos token is none of its tokens"),
        ({"ggml__bos_token_id": "x"}, "bos token is none of its tokens"),
    ],
)
def test_contradictions_are_named(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(UnreadableModel, match=found):
        Tokenizer.from_gguf(tiny_info(**changes))


# ---------------------------------------------------------- Hugging Face folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level folder, as its publisher would save it."""
    path = tmp_path_factory.mktemp("models") / "tiny-folder"
    backend = Backend(
        models.BPE({t: i for i, t in enumerate(files.vocabulary())}, [tuple(m.split()) for m in files.MERGES])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(files.CONTROLS)
    PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|im_start|>", eos_token="<|im_end|>", chat_template=files.TEMPLATE
    ).save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 2}))
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a local folder must not need the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_a_folder_gives_the_same_ids_as_the_same_data_in_a_gguf_file(folder: Path) -> None:
    from_folder, from_gguf = Tokenizer.from_folder(folder), Tokenizer.from_gguf(tiny_info(ggml__pre="gpt-2"))
    for text in STRINGS[:200]:
        ids = from_folder.encode(text, parse_special=True)
        assert ids == from_gguf.encode(text, parse_special=True)
        assert from_folder.decode(ids) == from_gguf.decode(ids)
    assert from_folder.special_ids == from_gguf.special_ids
    assert from_folder.vocab_size == from_gguf.vocab_size
    messages = [{"role": "user", "content": "hello"}]
    assert from_folder.render_chat(messages) == from_gguf.render_chat(messages)


def test_ends_come_from_all_files_of_a_folder(folder: Path) -> None:
    assert Tokenizer.from_folder(folder).eos_ids == {0, 2, 7}


def test_ends_of_a_nested_config_are_found(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "generation_config.json").unlink()
    (copy / "config.json").write_text(json.dumps({"model_type": "llama", "text_config": {"eos_token_id": [9]}}))
    assert 9 in Tokenizer.from_folder(copy).eos_ids


def test_a_folder_without_config_is_missing_something(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="no config"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", '{"version": "1.0", "model": {"type": "BPE", "vocab": 3}}'),
        ("tokenizer.json", ""),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", "\x00\x01"),
        ("config.json", "not json"),
        ("generation_config.json", "[1, 2]"),
        ("generation_config.json", '{"eos_token_id": "x"}'),
    ],
)
@pytest.mark.usefixtures("no_network")
def test_a_damaged_folder_is_refused(folder: Path, tmp_path: Path, name: str, content: str) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / name).write_text(content)
    with pytest.raises(UnreadableModel, match="copy"):
        Tokenizer.from_folder(copy)


@pytest.mark.usefixtures("no_network")
def test_code_in_a_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    config = json.loads((copy / "tokenizer_config.json").read_text())
    config |= {"auto_map": {"AutoTokenizer": [None, "evil.Evil"]}, "tokenizer_class": "Evil"}
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    (copy / "config.json").write_text(json.dumps({"model_type": "evil"}))
    with pytest.raises(UnsupportedModel, match="program of its own"):
        Tokenizer.from_folder(copy)
    assert not (tmp_path / "ran").exists()


def sentencepiece_like(first: str) -> Tokenizer:
    """Words with a lower block for spaces, unknown characters as bytes; `first`: where a space is put in front."""
    words = ["▁", "h", "e", "l", "o", "▁h", "he", "ll", "▁hello", "hello"]
    vocabulary = {t: i for i, t in enumerate(["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *words])}
    backend = Backend(models.BPE(vocabulary, [("▁", "h"), ("h", "e"), ("l", "l")], byte_fallback=True))
    if first == "normalizer":
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=first)
        parts = [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=first)]
    backend.decoder = decoders.Sequence(parts)
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    hugging_face = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    return Tokenizer(hugging_face, [2], "words")


@pytest.mark.parametrize("first", ["normalizer", "first", "never"])
def test_word_tokenizers_give_bytes_and_text_too(first: str) -> None:
    tokenizer = sentencepiece_like(first)
    assert tokenizer.strips_first_space == (first != "never")
    for text in ("hello", "hello hello", "hé😀 lo", "o\n\thell", "漢字"):
        ids = tokenizer.encode(text, parse_special=True)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode([1, *ids, 2]) == text
    assert tokenizer.token_bytes(3 + 0xE9) == b"\xe9"
    assert tokenizer.token_text(3 + 0xE9) == "\ufffd"
    assert tokenizer.token_bytes(3 + 256 + 5) == b" h"


def test_an_unknown_kind_of_tokenizer_is_refused() -> None:
    backend = Backend(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModel, match="words"):
        Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend), [], "words")


def test_truncation_that_a_folder_asks_for_is_switched_off(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    content = json.loads((copy / "tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    (copy / "tokenizer.json").write_text(json.dumps(content))
    assert len(Tokenizer.from_folder(copy).encode("abcdefgh", parse_special=False)) == 8


def test_a_gguf_without_chat_template_says_so() -> None:
    tokenizer = Tokenizer.from_gguf(tiny_info(chat_template=None))
    with pytest.raises(UnsupportedModel, match=r"tiny\.gguf has no chat template"):
        tokenizer.render_chat([{"role": "user", "content": "x"}])
