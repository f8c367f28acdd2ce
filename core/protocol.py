"""The messages between a client (window or terminal) and the worker process, and their wire form.

A frame is a 4-byte little-endian length and that many bytes of msgpack. Requests carry the id that the
client gave them; the events that answer a request carry the same id; id 0 marks events nobody asked for.
"""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

from core.check_messages import Check, CheckedPrompt, CheckStarted, Verdict
from core.errors import Problem, ProtocolError
from core.kernel_messages import (
    BuildKernels,
    CleanKernels,
    CompileKernels,
    KernelList,
    KernelProgress,
    KernelRequest,
    KernelsBuilt,
    KernelsCleaned,
    KernelsCompiled,
    KernelsPlaced,
    ListKernels,
    PlaceKernels,
)
from core.message import Message
from core.modes import MODES as MODES
from core.modes import MissingMode as MissingMode
from core.modes import Mode as Mode
from core.pairs import Pair

Origin = Literal["draft", "correction", "bonus", "plain"]
ChangeCause = Literal["choice", "failure"]
"""`choice`: another mode is expected to be faster here. `failure`: the one before cannot go on."""
LoadPart = Literal["target", "draft", "programs", "plain", "costs", "check"]
"""A part of a pair's preparation: reading two models, the draft's programs, two measurements, a check if wished."""
FinishReason = Literal["stop", "stop_string", "length", "context", "cancelled"]

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")
HEADER_BYTES = _LENGTH.size


# ---------------------------------------------------------------- requests


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class GenerateOptions(msgspec.Struct, frozen=True):
    """How an answer is decoded."""

    mode: Mode = "auto"
    width: int | None = None
    """Rows of a verification pass (proposals + 1); None takes the draft's block size."""
    max_tokens: int = 1024
    temperature: float = 0.0
    """0 takes the most likely token."""
    seed: int = 0
    top_k: int = 0
    """0 keeps all tokens."""
    top_p: float = 1.0
    min_p: float = 0.0
    """Keep tokens at least this likely, relative to the likeliest."""
    repetition_penalty: float = 1.0
    """Above 1, tokens of the prompt and the answer so far become less likely."""
    stop: tuple[str, ...] = ()
    thinking: bool | None = None
    """Whether the model is to think before it answers, where its template has a switch; None as the template does."""


class Load(Message, frozen=True):
    """Load the pair unless it is loaded. Answered by `Progress`..., then `Loaded` or `Failed`.

    A cancel within the check, which comes last, ends it and leaves the pair loaded.
    """

    pair: Pair
    check: bool = False
    """Whether to compare a few answers with those of plain decoding once the pair is there."""


class Unload(Message, frozen=True):
    """Free the loaded pair. Answered by `Unloaded`."""


class Generate(Message, frozen=True):
    """Answer the conversation, or continue the answer at its end; loads the pair first where needed.

    Answered by `Progress`... and `Loaded` (only where the pair had to be loaded), `Prefill`..., `Step` and
    `ModeChanged`..., then `Done` (also when cancelled) or `Failed`.
    """

    pair: Pair
    messages: tuple[ChatMessage, ...]
    options: GenerateOptions = GenerateOptions()


class Cancel(Message, frozen=True):
    """Stop the request with id `request_id` at its next boundary. Itself not answered.

    A `Generate` then ends with `Done` and finish reason `cancelled`, anything else with `Failed` of kind
    `Cancelled`.
    """

    request_id: int


class Benchmark(Message, frozen=True):
    """Time every mode of the pair on the prompts, in turns. Answered by `Progress`..., `BenchmarkDone`."""

    pair: Pair
    prompts: tuple[str, ...]
    max_tokens: int = 64
    runs: int = 3
    width: int | None = None


class Shutdown(Message, frozen=True):
    """Free everything and end the process with exit code 0."""


Request = Load | Unload | Generate | Cancel | Benchmark | Check | Shutdown | KernelRequest


# ------------------------------------------------------------------ events


class BlasReport(msgspec.Struct, frozen=True):
    """Which matrix library MLX's CPU back end uses."""

    name: str
    """`OpenBLAS`, `Mirror SD` for our own kernels alone, `stock`, or `Metal` where the CPU back end is not used."""
    path: str
    verdict: Literal["checked", "not needed", "not found", "wrong results", "switched off", "too late"]
    hint: str = ""
    core_type: str = ""
    """The kernels that OpenBLAS was told to use; empty for its own choice."""
    kernels: str = ""
    """The instruction set of our own kernels; empty where they are not used."""
    kernel_rows: int = 0
    """Products of up to this many rows are computed by them, with the same result for a row at every width."""
    kernels_path: str = ""
    """The library that holds them."""

    @property
    def library(self) -> str:
        """The library's name and kernels."""
        return f"{self.name} {self.core_type}".rstrip()

    @property
    def own_kernels(self) -> str:
        """What our own kernels do, in words; empty where they are not used."""
        if not self.kernels:
            return ""
        rows = f"for up to {self.kernel_rows} rows" if self.path else "for everything"
        return f"{self.kernels}, {rows}, same result at every width"


class Hello(Message, frozen=True):
    """The first event of a worker: what it runs on."""

    version: str
    pid: int
    mlx_version: str
    device: str
    """MLX's default device, for example `cpu` or `Apple M4 Max (gpu)`."""
    blas: BlasReport
    ane_version: str
    ane_cpu_features: tuple[str, ...]


class Progress(Message, frozen=True):
    """A stage of a longer piece of work."""

    stage: str
    """In words for the user, for example `reading the target`."""
    done: int
    total: int
    """In steps of equal meaning; 0 where the total is not known."""
    share: float | None = None
    """Of the whole, 0 to 1, by time; None where that is not known."""
    elapsed_s: float = 0.0
    left_s: float | None = None
    """By earlier times on this machine; None where there were none."""
    part: LoadPart | None = None
    """While a pair is loaded: which part of it this is."""
    parts: tuple[LoadPart, ...] = ()
    """While a pair is loaded: all that there are."""
    kernels: KernelProgress | None = None
    """In the part `programs`: the stage of the program that is worked on."""
    note: str = ""
    """What was found out at this point, a sentence for the user: kept programs, the reason for a miss, a fall back."""


class Loaded(Message, frozen=True):
    """The pair is ready."""

    pair: Pair
    modes: tuple[Mode, ...]
    missing: tuple[MissingMode, ...]
    """Modes that the pair might have and cannot use."""
    block_size: int
    """Rows of the draft's block (0 without a draft)."""
    context_length: int
    load_s: float
    plain_tokens_per_second: float
    """Plain decoding as measured at load: one over the median time of a one-row pass."""
    programs_on: str = ""
    """What runs the draft's programs, in words, as the runtime says: `Neural Engine`, `processor`...; empty without."""
    programs_origin: str = ""
    """Whether the programs were kept from an earlier time, and why not; a sentence."""
    programs_context: int = 0
    """Tokens of a conversation that the draft sees as programs: its beginning and its newest part; 0 without."""
    verdict: Verdict | None = None
    """Of the check at the end; None where none was made, or it was stopped."""
    thinks: bool | None = None
    """Whether the model thinks before it answers unless it is told; None where its template has no switch for that."""


class Unloaded(Message, frozen=True):
    """Nothing is loaded any more."""


class Prefill(Message, frozen=True):
    """Progress of reading the prompt, in tokens; `reused` of them were in the cache already."""

    done: int
    total: int
    reused: int


class StepToken(msgspec.Struct, frozen=True):
    """One emitted token and where it came from."""

    id: int
    text: str
    """The token alone, for display; half a character shows as U+FFFD."""
    origin: Origin
    """`draft`: an accepted proposal. `correction`: the target's choice where the draft was wrong. `bonus`:
    the target's choice after a block accepted whole. `plain`: no proposal stood here."""
    draft_position: int = 0
    """1-based position in the block of the proposal that was judged here; 0 where there was none."""
    draft_said: str = ""
    """For a correction: the text of the token that the draft had proposed."""


class BusySpan(msgspec.Struct, frozen=True):
    """When a device was busy, in seconds since the request's first pass began."""

    start_s: float
    end_s: float


class Step(Message, frozen=True):
    """One decode step: what one verification pass gave."""

    text: str
    """New text of the answer that is certain: whole characters, no beginning of a stop string."""
    thinking: str
    """New text of the model's thinking, which is no part of the answer."""
    tokens: tuple[StepToken, ...]
    mode: Mode
    width: int
    """Rows of the pass: proposals + 1."""
    proposed: int
    accepted: int
    draft_ms: float
    verify_ms: float
    rollback_ms: float
    host_ms: float
    """Time of the step in which no device worked."""
    target_busy: tuple[BusySpan, ...]
    """When the target's device worked for this step; the last span is the verification."""
    draft_busy: tuple[BusySpan, ...]
    """When the draft's device worked for this step's proposals, also beside the verification before it."""
    branch: Literal["hit", "miss"] | None
    """Whether these proposals had been drafted beside the verification before; None where nothing was guessed."""
    branches: int
    """Outcomes of the verification before that had been drafted for."""
    tokens_so_far: int
    elapsed_s: float
    """Since the first token was known; 0 at the first one."""
    context_used: int
    """Positions in the target's cache."""
    rejected: tuple[str, ...] = ()
    """Texts of the proposals that were not accepted, in their order; the first stood where the correction stands."""


class ModeChanged(Message, frozen=True):
    """From the next step on the answer is decoded in another mode."""

    mode: Mode
    reason: str
    """A sentence for the user."""
    cause: ChangeCause


class Done(Message, frozen=True):
    """The end of an answer, with its figures."""

    text: str
    """The answer, without the thinking before it: what belongs into the conversation."""
    thinking: str
    token_ids: tuple[int, ...]
    tokens: int
    steps: int
    """Verification passes after the first token."""
    accepted_per_step: float
    """Tokens per step: accepted proposals plus the target's own token; 1.0 in plain mode, 0 without steps."""
    proposed: int
    accepted: int
    tokens_per_second: float
    """Tokens after the first over the time since the first; 0 for answers of one token."""
    time_to_first_token_s: float
    prompt_tokens: int
    reused_tokens: int
    decode_s: float
    plain_ms_per_token: float
    """Median measured time of a one-row pass; 0 where none was measured."""
    mode: Mode
    finish_reason: FinishReason

    @property
    def plain_decode_s(self) -> float:
        """What plain decoding would have taken for the tokens after the first; 0 where it was not measured."""
        return (self.tokens - 1) * self.plain_ms_per_token / 1e3

    @classmethod
    def nothing(cls, mode: Mode) -> Done:
        """An answer that was cancelled before anything happened."""
        return cls("", "", (), 0, 0, 0.0, 0, 0, 0.0, 0.0, 0, 0, 0.0, 0.0, mode, "cancelled")


class ModeTiming(msgspec.Struct, frozen=True):
    """One mode in a benchmark: medians over all runs, spreads as (least, greatest)."""

    mode: Mode
    tokens_per_second: float
    tokens_per_second_spread: tuple[float, float]
    accepted_per_step: float
    draft_ms: float
    verify_ms: float
    host_ms: float
    step_ms: float
    speed_up: float
    """Tokens per second over those of plain."""
    break_even: float
    """Tokens per step at which the mode would equal plain: its step time over that of plain."""
    same_text: int
    """Prompts whose greedy text was that of plain."""
    hit_rate: float | None = None
    """Of the steps whose outcome was guessed, the share that was guessed right; None where nothing was guessed."""
    overlap: float = 0.0
    """The share of the draft's time that lay beside the target's."""


class BenchmarkDone(Message, frozen=True):
    """The result of `Benchmark`."""

    modes: tuple[ModeTiming, ...]
    """Plain comes first."""
    width: int
    """Rows of a pass at most."""
    prompts: int


class Failed(Message, frozen=True):
    """The request ended with an error."""

    problem: Problem


class Log(Message, frozen=True):
    """A line for the log."""

    level: Literal["debug", "info", "warning", "error"]
    text: str


class Heartbeat(Message, frozen=True):
    """Sent every second while the worker lives, whatever its MLX thread does."""

    rss_bytes: int
    free_bytes: int
    """Of the machine's memory, what programs can still have without others being moved to the disk."""
    held_bytes: int = 0
    """Of the engine's memory, what earlier conversations take so that they need not be read again."""


Event = (
    Hello
    | Progress
    | Loaded
    | Unloaded
    | Prefill
    | Step
    | ModeChanged
    | Done
    | BenchmarkDone
    | CheckStarted
    | CheckedPrompt
    | Verdict
    | KernelProgress
    | KernelsBuilt
    | KernelsCompiled
    | KernelList
    | KernelsCleaned
    | KernelsPlaced
    | Failed
    | Log
    | Heartbeat
)
_LAST_EVENT: dict[type[Request], type[Event]] = {
    Load: Loaded,
    Unload: Unloaded,
    Generate: Done,
    Benchmark: BenchmarkDone,
    Check: Verdict,
    BuildKernels: KernelsBuilt,
    CompileKernels: KernelsCompiled,
    ListKernels: KernelList,
    CleanKernels: KernelsCleaned,
    PlaceKernels: KernelsPlaced,
}


def ends(request: Request, event: Event) -> bool:
    """Whether `event` is the last one that answers `request`."""
    return isinstance(event, (Failed, _LAST_EVENT.get(type(request), Failed)))


# -------------------------------------------------------------------- wire


class RequestFrame(msgspec.Struct, frozen=True, array_like=True):
    """A request under the id that its events will carry."""

    id: int
    body: Request


class EventFrame(msgspec.Struct, frozen=True, array_like=True):
    """An event of request `id`, or of none (0)."""

    id: int
    body: Event


_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(RequestFrame)
_event_decoder = msgspec.msgpack.Decoder(EventFrame)


def encode(frame: RequestFrame | EventFrame) -> bytes:
    """The frame's bytes, length first."""
    payload = _encoder.encode(frame)
    return _LENGTH.pack(len(payload)) + payload


def payload_length(header: bytes) -> int:
    """The length that a frame's first 4 bytes announce. Raises `ProtocolError` for absurd ones."""
    length: int = _LENGTH.unpack(header)[0]
    if not 0 < length <= MAX_FRAME_BYTES:
        raise ProtocolError(
            "The engine process sent something that is not a message.",
            "Send the message again: the engine is started anew.",
            f"frame length {length}",
        )
    return length


def decode_request(payload: bytes) -> RequestFrame:
    """Raises `ProtocolError` where the bytes are not a request."""
    try:
        return _request_decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise ProtocolError("The window sent a request that is not understood.", detail=str(error)) from error


def decode_event(payload: bytes) -> EventFrame:
    """Raises `ProtocolError` where the bytes are not an event."""
    try:
        return _event_decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise ProtocolError("The engine sent a message that is not understood.", detail=str(error)) from error
