"""The tokenizer of a target, whether its data comes from a GGUF file or from a Hugging Face folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import tokenizers
from tokenizers import AddedToken
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from core.engine.gguf_tokenizer import eos_ids_from_gguf, hugging_face_from_gguf
from core.errors import BadRequest, MirrorError, MissingFile, UnreadableModel, UnsupportedModel
from core.formats.gguf_header import GgufInfo

_ENDS_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>")
"""Control tokens that end an answer in every model that has them, also where its files forget to say so."""
_MARKER = re.compile(r"<[|｜].+[|｜]>")  # noqa: RUF001 - DeepSeek spells its markers with wide bars
"""Added tokens spelled like this structure the conversation even where the files do not call them special."""


class Tokenizer:
    """Text to token ids and back, and the model's chat template. For one thread."""

    def __init__(self, hugging_face: PreTrainedTokenizerFast, eos_ids: Iterable[int], name: str) -> None:
        """Use `from_gguf` or `from_folder`. `name` is for errors."""
        self._name = name
        self._hf = hugging_face
        self._backend: tokenizers.Tokenizer = hugging_face.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        added = self._backend.get_added_tokens_decoder()
        self._backend.add_special_tokens([token for token in added.values() if _MARKER.fullmatch(token.content)])
        self._added = self._backend.get_added_tokens_decoder()
        controls = {i: token for i, token in self._added.items() if token.special}
        self.vocab_size: int = self._backend.get_vocab_size()
        """Ids the tokenizer knows; the model's logits may have more columns (padding)."""
        self.special_ids: frozenset[int] = frozenset(controls)
        """Control tokens: they carry no text."""
        ends = (self._backend.token_to_id(text) for text in _ENDS_OF_TURN)
        self.eos_ids: frozenset[int] = frozenset(eos_ids) | (self.special_ids & frozenset(ends))
        """Every token that ends an answer."""
        self.control_spellings: tuple[str, ...] = tuple(token.content for token in controls.values())
        self.control_pattern: re.Pattern[str] = _pattern(controls.values())
        """Finds control tokens in a text, with the whitespace that they swallow."""
        self._byte_level, self.strips_first_space = self._read_decoder()

    @classmethod
    def from_gguf(cls, info: GgufInfo) -> Tokenizer:
        """From the metadata of a GGUF file: byte-level BPE, or SentencePiece's BPE by scores.

        Raises `UnsupportedModel` for other tokenizers and pre-tokenizers, `UnreadableModel` where data is
        missing or contradicts itself.
        """
        return cls(hugging_face_from_gguf(info), eos_ids_from_gguf(info), info.path.name)

    @classmethod
    def from_folder(cls, folder: str | Path) -> Tokenizer:
        """From a Hugging Face folder; local files only, no remote code.

        Raises `MissingFile`, `UnreadableModel` and `UnsupportedModel`.
        """
        folder = Path(folder)
        if not (folder / "config.json").is_file():
            raise MissingFile(f"{folder} is not a model folder: it holds no config.json.", "Check the path.")
        try:
            hugging_face = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # the libraries raise whatever comes, plain Exception included
            raise _unreadable(folder, "the tokenizer", error) from error
        if getattr(hugging_face, "backend_tokenizer", None) is None:
            raise UnsupportedModel(
                f"The tokenizer of {folder.name} ({type(hugging_face).__name__}) exists only as a Python program.",
                "Choose a model with a tokenizer.json.",
            )
        ends = {i for file in ("generation_config.json", "config.json") for i in _eos_ids(folder / file)}
        if hugging_face.eos_token_id is not None:
            ends.add(hugging_face.eos_token_id)
        return cls(hugging_face, ends, folder.name)

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files in the Hugging Face layout."""
        self._hf.save_pretrained(str(folder))

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that renders a conversation, where the model has one."""
        template = self._hf.chat_template
        if isinstance(template, dict):  # several templates by name
            template = template.get("default")
        return template if isinstance(template, str) else None

    @property
    def first_ids(self) -> tuple[int, ...]:
        """What the model wants before a text of its own: its beginning-of-text token, or nothing."""
        return tuple(self._backend.encode("", add_special_tokens=True).ids)

    def encode(self, text: str, *, parse_special: bool) -> list[int]:
        """Ids of `text`, no beginning-of-text token added.

        With `parse_special` the spelling of a control token becomes that token; without, it is plain text.
        """
        self._backend.encode_special_tokens = not parse_special
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens carry none, bytes that are no UTF-8 become U+FFFD."""
        raw = b"".join(map(self.token_bytes, ids))
        if self.strips_first_space:
            raw = raw.removeprefix(b" ")
        return raw.decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for: empty for control tokens and for ids beyond the vocabulary."""
        if token_id in self._added:
            return b"" if token_id in self.special_ids else self._added[token_id].content.encode()
        token = self._backend.id_to_token(token_id)
        if token is None:
            return b""
        if self._byte_level:
            table = _byte_of_character()
            return bytes(table[c] for c in token) if all(c in table for c in token) else token.encode()
        byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
        return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()

    def token_text(self, token_id: int) -> str:
        """A token alone, for display: control tokens by name, half a character as U+FFFD."""
        if token_id in self.special_ids:
            return self._added[token_id].content
        return self.token_bytes(token_id).decode(errors="replace")

    def render_chat(self, messages: Sequence[Mapping[str, str]], thinking: bool | None = None) -> str:
        """The chat template's text for `messages` (role, content), up to where the answer begins.

        `thinking` is what templates like Qwen3's call `enable_thinking`; None leaves it to the template.
        Raises `UnsupportedModel` where there is no template or it cannot run, `BadRequest` where the template
        itself refuses the conversation.
        """
        if self.chat_template is None:
            raise UnsupportedModel(
                f"{self._name} has no chat template, so it cannot hold a conversation.", "Choose an instruct model."
            )
        try:
            switch = {} if thinking is None else {"enable_thinking": thinking}
            text = self._hf.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, **switch)
        except Exception as error:  # a template is a program from somewhere: it may fail in any way
            raise _template_error(self._name, error) from error
        assert isinstance(text, str)
        return text

    def _read_decoder(self) -> tuple[bool, bool]:
        """Whether tokens are byte-level, and whether decoding drops the first space of a text."""
        if self._backend.decoder is None:
            raise self._unsupported_decoder("none")
        parts = _decoder_parts(json.loads(self._backend.decoder.__getstate__()))
        kinds = {part["type"] for part in parts}
        if "ByteLevel" in kinds:
            return True, False
        if "Metaspace" not in kinds and "ByteFallback" not in kinds:
            raise self._unsupported_decoder(", ".join(sorted(kinds)))
        strips = any(
            (part["type"] == "Strip" and part["start"] > 0)
            or (part["type"] == "Metaspace" and part.get("prepend_scheme") != "never")
            for part in parts
        )
        return False, strips

    def _unsupported_decoder(self, kinds: str) -> UnsupportedModel:
        return UnsupportedModel(
            f"The tokenizer of {self._name} is of a kind that is not supported.",
            "Choose another model.",
            f"decoder: {kinds}",
        )


def _pattern(controls: Iterable[AddedToken]) -> re.Pattern[str]:
    longest_first = sorted(controls, key=lambda token: -len(token.content))
    return re.compile(
        "|".join(r"\s*" * t.lstrip + re.escape(t.content) + r"\s*" * t.rstrip for t in longest_first) or "(?!)"
    )


def _decoder_parts(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    return parts


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and on, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _template_error(name: str, error: Exception) -> MirrorError:
    detail = f"{type(error).__name__}: {error}"
    if type(error) is jinja2.TemplateError:  # what `raise_exception` in a template raises
        return BadRequest(
            f"The model does not accept this conversation: {error}", "Edit the conversation or start a new one.", detail
        )
    line = f" (line {error.lineno})" if isinstance(error, jinja2.TemplateSyntaxError) else ""
    return UnsupportedModel(
        f"The chat template of {name} does not work{line}: {error}", "Choose another version of the model.", detail
    )


# ---------------------------------------------------------- Hugging Face folders


def _unreadable(folder: Path, what: str, error: Exception) -> MirrorError:
    detail = f"{folder}: {type(error).__name__}: {error}"
    if "trust_remote_code" in str(error):
        return UnsupportedModel(
            f"{folder.name} needs a program of its own to run, which is not allowed.", "Choose another model.", detail
        )
    return UnreadableModel(
        f"{what[0].upper()}{what[1:]} of {folder.name} cannot be read.", "Download the model again.", detail
    )


def _eos_ids(file: Path) -> list[int]:
    """The `eos_token_id` of a JSON file: a number, a list, or nothing."""
    if not file.is_file():
        return []
    try:
        content = json.loads(file.read_text())
        found = content.get("eos_token_id", (content.get("text_config") or {}).get("eos_token_id"))
        return [int(i) for i in (found if isinstance(found, list) else [found]) if i is not None]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _unreadable(file.parent, f"the file {file.name}", error) from error
