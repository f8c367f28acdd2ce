"""The tokenizer of a target, whether its data comes from a GGUF file or from a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from core.engine.gguf_header import GgufInfo


class Tokenizer:
    """Text to token ids and back, and the model's chat template."""

    vocab_size: int
    """Ids the tokenizer knows; the model's logits may have more columns (padding)."""
    special_ids: frozenset[int]
    """Control tokens: they carry no text."""
    eos_ids: frozenset[int]
    """Every token that ends an answer."""
    chat_template: str | None

    @classmethod
    def from_gguf(cls, info: GgufInfo) -> Tokenizer:
        """Byte-level BPE from the metadata of a GGUF file.

        Raises `UnsupportedModel` for other tokenizers and pre-tokenizers, `UnreadableModel` where data is
        missing or contradicts itself.
        """
        raise NotImplementedError

    @classmethod
    def from_folder(cls, folder: str | Path) -> Tokenizer:
        """From a Hugging Face folder; local files only, no remote code.

        Raises `MissingFile`, `UnreadableModel` and `UnsupportedModel`.
        """
        raise NotImplementedError

    def encode(self, text: str, *, parse_special: bool) -> list[int]:
        """Ids of `text`, no beginning-of-text token added.

        With `parse_special` the spelling of a control token becomes that token; without, it is plain text.
        """
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens carry none, bytes that are no UTF-8 become U+FFFD."""
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for: empty for control tokens and for ids beyond the vocabulary."""
        raise NotImplementedError

    def token_text(self, token_id: int) -> str:
        """A token alone, for display: control tokens by name, half a character as U+FFFD."""
        raise NotImplementedError

    def render_chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The chat template's text for `messages` (role, content), up to where the answer begins.

        Raises `UnsupportedModel` where there is no template or it cannot run, `BadRequest` where the template
        itself refuses the conversation.
        """
        raise NotImplementedError
