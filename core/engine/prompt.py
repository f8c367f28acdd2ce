"""From a conversation to the token ids that the target reads."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from core.engine.thinking import CLOSE, OPEN
from core.engine.tokenizer import Tokenizer
from core.errors import MirrorError
from core.protocol import ChatMessage

log = logging.getLogger("mirror_sd.prompt")


@dataclass(frozen=True)
class Prompt:
    """A rendered conversation."""

    ids: tuple[int, ...]
    text: str
    opens_thinking: bool
    """Whether the text ends in an open <think>, so that the answer begins inside the thinking."""


def thinks_by_itself(tokenizer: Tokenizer) -> bool | None:
    """Whether the template has the model think unless it is told; None where it has no switch for that."""
    if "enable_thinking" not in (tokenizer.chat_template or ""):
        return None
    question = [{"role": "user", "content": "Hi"}]
    try:
        told_not_to, untold = tokenizer.render_chat(question, thinking=False), tokenizer.render_chat(question)
        told_to = tokenizer.render_chat(question, thinking=True)
    except MirrorError as error:  # each answer will say so
        log.warning("The template's switch for thinking is not known: %s", error.problem.detail)
        return None
    return None if told_to == told_not_to else untold == told_to


def render_prompt(tokenizer: Tokenizer, messages: Sequence[ChatMessage], thinking: bool | None = None) -> Prompt:
    """Render the chat template and encode the result. `thinking`: see `Tokenizer.render_chat`.

    An answer at the end is one to be continued: the prompt ends with its text. A control token's spelling inside a
    message's content stays plain text; only the template writes control tokens. Raises `BadRequest` and
    `UnsupportedModel` as `Tokenizer.render_chat` does.
    """
    # Templates trim, split and join contents, so borders round a content would not survive. Instead each control
    # token's spelling in a content is interrupted by a mark, which goes wherever the template puts the text.
    mark = _unused_character([tokenizer.chat_template or "", *(message.content for message in messages)])
    contents = [_interrupt(tokenizer, message.content, mark) for message in messages]
    begun = contents.pop() if messages and messages[-1].role == "assistant" else ""
    rendered = tokenizer.render_chat(
        [{"role": message.role, "content": content} for message, content in zip(messages, contents, strict=False)],
        thinking,
    )
    if begun:  # its thinking is over
        rendered += f"\n{CLOSE}\n\n{begun}" if rendered.rstrip().endswith(OPEN) else begun
    text = rendered.replace(mark, "")
    ids = tokenizer.encode(text, parse_special=True) if text == rendered else _encode(tokenizer, rendered, mark)
    return Prompt(tuple(ids), text, not begun and text.rstrip().endswith(OPEN))


def shared_beginning(
    tokenizer: Tokenizer, messages: Sequence[ChatMessage], prompt: Sequence[int], thinking: bool | None = None
) -> int:
    """How many first tokens of `prompt`, the conversation's, other conversations have too: its system prompt.

    Found by another first question, since templates have system prompts of their own. Raises as `render_prompt`.
    """
    first = next((place for place, message in enumerate(messages) if message.role == "user"), None)
    if first is None:
        return 0
    another = "1" if messages[first].content.lstrip().startswith("0") else "0"
    changed = [*messages[:first], ChatMessage("user", another)]
    pairs = zip(prompt, render_prompt(tokenizer, changed, thinking).ids, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _unused_character(texts: Sequence[str]) -> str:
    """A private-use character that none of the texts has."""
    used = set().union(*texts)
    return next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in used)


def _interrupt(tokenizer: Tokenizer, content: str, mark: str) -> str:
    """`content` with `mark` after the first character of every control token's spelling, overlapping ones too."""
    spellings = "|".join(re.escape(spelling) for spelling in tokenizer.control_spellings) or "(?!)"
    return re.sub(f"(?={spellings}).", lambda found: found[0] + mark, content, flags=re.DOTALL)


def _encode(tokenizer: Tokenizer, rendered: str, mark: str) -> list[int]:
    """Encode a text in which interrupted spellings are plain text and whole ones are control tokens."""
    ids: list[int] = []
    at = 0
    for control in tokenizer.control_pattern.finditer(rendered):
        ids += tokenizer.encode(rendered[at : control.start()].replace(mark, ""), parse_special=False)
        ids += tokenizer.encode(control.group(), parse_special=True)
        at = control.end()
    return ids + tokenizer.encode(rendered[at:].replace(mark, ""), parse_special=False)
