"""What a chat is made of. All values are immutable; times are milliseconds since 1970 (UTC)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from core.errors import Problem
from core.protocol import Done, FinishReason, GenerateOptions, Mode

Role = Literal["user", "assistant"]
EndState = Literal["complete", "stopped", "interrupted", "failed"]
"""`stopped`: by the user. `interrupted`: the program ended while the answer was written. `failed`: see its problem."""
State = Literal["running"] | EndState
TimeMs = Annotated[int, msgspec.Meta(ge=0, le=253_402_128_000_000)]
"""Milliseconds since 1970 (UTC), to the end of the year 9999, beyond which there are no dates."""


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How this chat's answers are decoded; None leaves it to the program. Fields as in `GenerateOptions`."""

    width: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop: tuple[str, ...] | None = None
    thinking: bool | None = None

    def applied_to(self, options: GenerateOptions) -> GenerateOptions:
        """`options` with what this chat wants otherwise."""
        return msgspec.structs.replace(
            options, **{k: v for k, v in msgspec.structs.asdict(self).items() if v is not None}
        )


class ChatOptions(msgspec.Struct, frozen=True):
    """What the user chose for one chat."""

    system_prompt: str = ""
    sampling: Sampling = Sampling()
    pair: str = ""
    """The pair's name; empty leaves it to the program."""
    mode: Mode | None = None


class ChatSummary(msgspec.Struct, frozen=True):
    """A line of the list of chats."""

    id: int
    title: str
    """Empty until the first message."""
    pinned: bool
    updated_ms: int
    """When its last message was written."""


class Chat(msgspec.Struct, frozen=True):
    """A chat without its messages."""

    id: int
    title: str
    title_is_automatic: bool
    pinned: bool
    created_ms: int
    updated_ms: int
    options: ChatOptions
    draft: str
    """What the user has typed and not sent."""


class Attachment(msgspec.Struct, frozen=True):
    """A text file within a user message: characters `start` to `end` of its content."""

    name: str
    start: Annotated[int, msgspec.Meta(ge=0)]
    end: Annotated[int, msgspec.Meta(ge=0)]


class Figures(msgspec.Struct, frozen=True):
    """The figures of an answer, as in `Done`. All have a default, so that answers of older versions can be read."""

    tokens: int = 0
    steps: int = 0
    accepted_per_step: float = 0.0
    proposed: int = 0
    accepted: int = 0
    tokens_per_second: float = 0.0
    time_to_first_token_s: float = 0.0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    decode_s: float = 0.0
    plain_ms_per_token: float = 0.0
    mode: Mode = "plain"
    finish_reason: FinishReason = "stop"
    parts: int = 1
    """How often the engine was asked for it: one more for each time that it was continued."""
    misses_beginning: bool = False
    """Whether it was continued after a break that left no figures: they are of what came then."""

    @classmethod
    def of(cls, done: Done) -> Figures:
        """The figures of what the engine answered at once."""
        return cls(**{name: getattr(done, name) for name in _OF_DONE})

    @property
    def timed_tokens(self) -> int:
        """Tokens that came within `decode_s`: those after the first of each part."""
        return max(self.tokens - self.parts, 0)

    @property
    def plain_decode_s(self) -> float:
        """What plain decoding would have taken for the timed tokens; 0 where it was not measured."""
        return self.timed_tokens * self.plain_ms_per_token / 1e3

    def plus(self, later: Figures) -> Figures:
        """The figures of an answer that was continued: sums, and means over its tokens or steps.

        The prompt, and the time to the first token, are those of its beginning.
        """
        timed, steps = self.timed_tokens + later.timed_tokens, self.steps + later.steps
        decode_s, plain_s = self.decode_s + later.decode_s, self.plain_decode_s + later.plain_decode_s
        known = all(each.plain_ms_per_token or not each.timed_tokens for each in (self, later))
        in_steps = self.accepted_per_step * self.steps + later.accepted_per_step * later.steps
        return msgspec.structs.replace(
            self,
            tokens=self.tokens + later.tokens,
            steps=steps,
            accepted_per_step=in_steps / steps if steps else 0.0,
            proposed=self.proposed + later.proposed,
            accepted=self.accepted + later.accepted,
            tokens_per_second=timed / decode_s if decode_s else 0.0,
            decode_s=decode_s,
            plain_ms_per_token=1e3 * plain_s / timed if known and timed else 0.0,
            mode=later.mode,
            finish_reason=later.finish_reason,
            parts=self.parts + later.parts,
        )


_OF_DONE = tuple(name for name in Figures.__struct_fields__ if name in Done.__struct_fields__)


class Message(msgspec.Struct, frozen=True):
    """One message of a chat. Messages form a tree: those with one parent are versions of each other."""

    id: int
    parent_id: int | None
    """None for a first message."""
    role: Role
    content: str
    """Attached files included."""
    thinking: str
    attachments: tuple[Attachment, ...]
    state: State
    figures: Figures | None
    problem: Problem | None
    """Why a failed answer failed."""
    pair: str
    """Name of the pair that answered."""
    created_ms: int
    versions: tuple[int, ...]
    """Ids of all messages with this parent, itself included, oldest first."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a text that was searched."""

    text: str
    found: bool
    """Whether it is what was looked for."""


class Hit(msgspec.Struct, frozen=True):
    """A chat that a search found."""

    chat: ChatSummary
    title: tuple[Piece, ...]
    message_id: int | None
    """The newest message that was found; None where only the title was."""
    snippet: tuple[Piece, ...]
    """The part of that message around what was found."""
