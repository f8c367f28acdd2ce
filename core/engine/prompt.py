"""From a conversation to the token ids that the target reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.engine.tokenizer import Tokenizer
from core.protocol import ChatMessage


@dataclass(frozen=True)
class Prompt:
    """A rendered conversation."""

    ids: tuple[int, ...]
    text: str
    opens_thinking: bool
    """Whether the text ends in an open <think>, so that the answer begins inside the thinking."""


def render_prompt(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> Prompt:
    """Render the chat template and encode the result.

    A control token's spelling inside a message's content stays plain text; only the template writes control
    tokens. Raises `BadRequest` and `UnsupportedModel` as `Tokenizer.render_chat` does.
    """
    raise NotImplementedError
