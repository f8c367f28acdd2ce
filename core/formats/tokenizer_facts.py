"""What can be known of a tokenizer without running it: its tokens, its ends, whether its template can think."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from core.formats.gguf_header import GgufInfo


class TokenizerFacts(msgspec.Struct, frozen=True):
    """Empty fields were not there to be read."""

    tokens: int = 0
    """Tokens it knows; a model's vocabulary may be larger (padding)."""
    digest: str = ""
    """SHA-256 over every token and its id: equal digests are equal tokenizers, as far as a draft cares."""
    ends: tuple[int, ...] = ()
    """Tokens that end an answer, as config and generation config name them."""
    can_think: bool | None = None
    """Whether the chat template has a switch for thinking, or opens it; None without a template."""
    problem: str = ""
    """Why its file could not be read."""


class _Added(msgspec.Struct, frozen=True):
    id: int
    content: str


class _Model(msgspec.Struct, frozen=True):
    vocab: dict[str, int] | list[tuple[str, float]]


class _TokenizerJson(msgspec.Struct, frozen=True):
    model: _Model
    added_tokens: tuple[_Added, ...] = ()


def folder_tokenizer(folder: Path, config: Mapping[str, Any]) -> TokenizerFacts:
    """From `tokenizer.json` and the files beside it, as far as they are there."""
    try:
        ends = _ends(config) or _ends(_json(folder / "generation_config.json"))
        can_think = _can_think(folder)
        path = folder / "tokenizer.json"
        if not path.is_file():
            return TokenizerFacts(ends=ends, can_think=can_think)
        file = msgspec.json.decode(path.read_bytes(), type=_TokenizerJson)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return TokenizerFacts(problem=f"its tokenizer's files cannot be read: {error}")
    vocabulary = file.model.vocab
    ids = vocabulary if isinstance(vocabulary, dict) else {text: i for i, (text, _) in enumerate(vocabulary)}
    ids = ids | {token.content: token.id for token in file.added_tokens}
    return TokenizerFacts(len(ids), token_digest(ids.items()), ends, can_think)


def gguf_tokenizer_facts(info: GgufInfo) -> TokenizerFacts:
    """From a GGUF header, as far as it has them."""
    tokens = info.metadata.get("tokenizer.ggml.tokens")
    template = info.metadata.get("tokenizer.chat_template")
    end = info.metadata.get("tokenizer.ggml.eos_token_id")
    ends = (end,) if isinstance(end, int) else ()
    can_think = thinks(template) if isinstance(template, str) else None
    if not isinstance(tokens, list):
        return TokenizerFacts(ends=ends, can_think=can_think)
    return TokenizerFacts(len(tokens), token_digest((str(text), i) for i, text in enumerate(tokens)), ends, can_think)


def token_digest(ids: Iterable[tuple[str, int]]) -> str:
    """The digest of (token, id) pairs in any order."""
    listed = "\0".join(f"{i}\0{text}" for i, text in sorted((i, text) for text, i in ids))
    return hashlib.sha256(listed.encode(errors="surrogatepass")).hexdigest()


def thinks(template: str) -> bool:
    """Whether a chat template has a switch for thinking, or opens it."""
    return "enable_thinking" in template or "<think>" in template


def _can_think(folder: Path) -> bool | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return thinks(path.read_text(encoding="utf-8", errors="replace"))
    template = _json(folder / "tokenizer_config.json").get("chat_template")  # one, or several by name
    return None if template is None else thinks(str(template))


def _ends(config: Mapping[str, Any]) -> tuple[int, ...]:
    text = config.get("text_config")
    value = config.get("eos_token_id", text.get("eos_token_id") if isinstance(text, dict) else None)
    values = value if isinstance(value, list) else [value]
    return tuple(sorted({v for v in values if isinstance(v, int) and not isinstance(v, bool)}))


def _json(path: Path) -> dict[str, Any]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.is_file() else {}
