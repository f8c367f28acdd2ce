"""A child process that speaks the engine's protocol with canned answers, for tests of the window.

Started as `python standin_worker.py [options]`; it answers `Load`, `Unload`, `Generate`, `Cancel` and `Shutdown`
the way core/protocol.py says, heeds a cancel in every phase, and can be told to misbehave.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import re
import signal
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import BinaryIO

from core.check_messages import Check, CheckedPrompt, CheckStarted, Divergence, ModeVerdict, Verdict
from core.errors import Problem
from core.kernel_messages import KernelProgress
from core.protocol import (
    HEADER_BYTES,
    BlasReport,
    BusySpan,
    Cancel,
    Done,
    Event,
    EventFrame,
    Failed,
    FinishReason,
    Generate,
    Heartbeat,
    Hello,
    Load,
    Loaded,
    LoadPart,
    MissingMode,
    Mode,
    Origin,
    Prefill,
    Progress,
    RequestFrame,
    Shutdown,
    Step,
    StepToken,
    Unload,
    Unloaded,
    decode_request,
    encode,
    payload_length,
)

WIDTH = 16
PLAIN_TOKENS_PER_SECOND = 20.0
CONTEXT_LENGTH = 2048
PROMPT_TOKENS = 40


class Cancelled(Exception):
    """The request under way was cancelled."""


class StandInWorker:
    def __init__(self, options: argparse.Namespace, out: BinaryIO) -> None:
        self.options = options
        self.out = out
        self.write_lock = threading.Lock()
        self.requests: queue.Queue[RequestFrame | None] = queue.Queue()
        self.cancelled: set[int] = set()
        self.cancel_came = threading.Condition()
        self.current_id = 0
        self.random = random.Random(1)
        self.loaded = False

    # ------------------------------------------------------------- in and out

    def send(self, request_id: int, event: Event) -> None:
        with self.write_lock:
            self.out.write(encode(EventFrame(request_id, event)))
            self.out.flush()

    def read_requests(self) -> None:
        stream = sys.stdin.buffer
        while header := stream.read(HEADER_BYTES):
            frame = decode_request(stream.read(payload_length(header)))
            if isinstance(frame.body, Cancel):
                if not self.options.deaf:
                    self.cancel(frame.body.request_id)
            elif isinstance(frame.body, Shutdown) and self.options.deaf:
                continue
            elif isinstance(frame.body, Shutdown):
                self.requests.put(None)
            else:
                self.requests.put(frame)
        os._exit(0)

    def heartbeats(self) -> None:
        while True:
            self.send(0, Heartbeat(312_000_000, self.options.free_bytes))
            time.sleep(1)

    def wait(self, seconds: float) -> None:
        """Work for a while, unless cancelled."""
        with self.cancel_came:
            if self.cancel_came.wait_for(lambda: self.current_id in self.cancelled, seconds):
                raise Cancelled

    def cancel(self, request_id: int) -> None:
        with self.cancel_came:
            self.cancelled.add(request_id)
            self.cancel_came.notify_all()

    # ----------------------------------------------------------------- serving

    def serve(self) -> None:
        if self.options.die_at_start:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.options.hello_s)
        self.send(0, Hello("0.0.0", os.getpid(), "0.0.0", "cpu", BlasReport("OpenBLAS", "", "checked"), "0.0.0", ()))
        threading.Thread(target=self.read_requests, daemon=True).start()
        threading.Thread(target=self.heartbeats, daemon=True).start()
        if self.options.garbage:
            os.write(2, b"\xff\xfe garbage \x00 without an end" * 50 + b"\nand a line\n")
        while (frame := self.requests.get()) is not None:
            self.current_id = frame.id
            try:
                self.answer(frame)
            except Cancelled:
                self.send(frame.id, Failed(Problem("Cancelled", "Stopped.")))

    def answer(self, frame: RequestFrame) -> None:
        match frame.body:
            case Load():
                self.load(frame.id, frame.body)
            case Unload():
                self.loaded = False
                self.send(frame.id, Unloaded())
            case Generate():
                self.generate(frame.id, frame.body)
            case Check():
                self.check(frame.id, frame.body)

    def load(self, request_id: int, request: Load | Generate) -> None:
        checked = isinstance(request, Load) and request.check
        for progress in preparation(checked):
            self.send(request_id, progress)
            self.wait(self.options.load_s / 6)
        if self.options.fail_load:
            problem = Problem("UnreadableModel", "The target's file is cut off.", "Download it again.", "byte 1234")
            self.send(request_id, Failed(problem))
            return
        self.loaded = True
        modes: tuple[Mode, ...] = ("plain", "auto") if self.options.no_draft else ("plain", "gpu", "auto")
        block = 0 if self.options.no_draft else WIDTH
        verdict = Verdict((equal("plain"), equal("gpu"))) if checked else None
        load_s, speed = self.options.load_s, PLAIN_TOKENS_PER_SECOND
        self.send(
            request_id,
            Loaded(
                request.pair,
                modes,
                self.missing(),
                block,
                CONTEXT_LENGTH,
                load_s,
                speed,
                verdict=verdict,
                thinks=self.options.thinks or None,
            ),
        )

    def missing(self) -> tuple[MissingMode, ...]:
        reasons: tuple[tuple[Mode, str], ...] = (
            ("ane", self.options.no_programs),
            ("mirror", self.options.missing_mirror),
        )
        return tuple(MissingMode(mode, reason) for mode, reason in reasons if reason)

    def generate(self, request_id: int, request: Generate) -> None:
        if not self.loaded:
            self.load(request_id, request)
        if self.options.fail_generate:
            self.send(
                request_id, Failed(Problem("PromptTooLong", "The conversation is too long.", "Begin a new chat."))
            )
            return
        text = self.options.answer
        if self.options.differ and request.options.mode != "plain":
            text = f"{text.rsplit(' ', 1)[0]} otherwise"
        if self.options.thinks:
            text = f"thinking: {request.options.thinking}"
        if self.options.echo:
            text = "\n\n".join(f"{message.role}: {message.content}" for message in request.messages)
        Answer(self, request_id, request, text).run()

    def check(self, request_id: int, request: Check) -> None:
        """Plain and `gpu`; with --differ the second one's answers leave the first at their last token."""
        modes: tuple[Mode, ...] = ("plain", "gpu")
        self.send(request_id, CheckStarted(modes, self.missing(), len(request.prompts)))
        divergence = Divergence(0, 7, 1, " plain", 2, " other", 0.5, 0.001, near_tie=False)
        for prompt in range(len(request.prompts)):
            if prompt == self.options.die_after_steps:
                os.kill(os.getpid(), signal.SIGKILL)
            for number, mode in enumerate(modes):
                stage = f"decoding prompt {prompt + 1} in mode {mode}"
                done, total = prompt * len(modes) + number, len(request.prompts) * len(modes)
                self.send(request_id, Progress(stage, done, total))
                self.wait(1 / self.options.steps_per_second)
                found = divergence if self.options.differ and mode == "gpu" and prompt == 0 else None
                self.send(request_id, CheckedPrompt(mode, prompt, 8, 20.0 * (1 + number), 1.0 + number, found, ""))
        found = divergence if self.options.differ else None
        prompts = len(request.prompts)
        plain = ModeVerdict("plain", prompts, prompts, None, 20.0, 1.0, None, 0.0)
        gpu = ModeVerdict("gpu", prompts - (found is not None), prompts, found, 40.0, 2.0, 0.75, 0.5)
        self.send(request_id, Verdict((plain, gpu)))


def preparation(checked: bool) -> list[Progress]:
    """A load's events, two programs among them."""
    words: dict[LoadPart, str] = {"target": "reading the target", "programs": "preparing the draft's programs"}
    words |= {"costs": "measuring what steps cost"} | ({"check": "checking"} if checked else {})
    parts = tuple(words)

    def progress(part: LoadPart, share: float, kernels: KernelProgress | None = None, note: str = "") -> Progress:
        return Progress(words[part], parts.index(part), len(parts), share, 1.0, 3.0, part, parts, kernels, note)

    told = [progress("target", 0.0), progress("programs", 0.2)]
    told.append(progress("programs", 0.3, KernelProgress("build", "ingest_r32", 1, 4, 0.1), "They are made now."))
    told.append(progress("programs", 0.5, KernelProgress("compile", "layer0", 3, 4, 0.2)))
    told += [progress("costs", 0.7)] + ([progress("check", 0.9)] if checked else [])
    return told


def equal(mode: Mode) -> ModeVerdict:
    """A mode whose answers are the plain ones."""
    return ModeVerdict(mode, 3, 3, None, PLAIN_TOKENS_PER_SECOND, 1.0, None, 0.0)


class Answer:
    """One answer being written."""

    def __init__(self, worker: StandInWorker, request_id: int, request: Generate, text: str) -> None:
        self.worker = worker
        self.request_id = request_id
        self.mode = request.options.mode
        self.tokens = re.findall(r"\s*\S{1,6}", text) + ([tail] if (tail := re.search(r"\s*$", text)[0]) else [])  # type: ignore[index]
        self.sent = 0
        self.steps = self.proposed = self.accepted = 0
        self.reason: FinishReason = "stop"
        self.begun_s = time.monotonic()
        self.first_s = 0.0

    def run(self) -> None:
        try:
            self.prefill()
            self.first_s = time.monotonic()
            self.think(self.worker.options.thinking)
            self.step(1, proposed=0)
            while self.sent < len(self.tokens):
                self.worker.wait(1 / self.worker.options.steps_per_second)
                self.next_step()
        except Cancelled:
            self.reason = "cancelled"
        self.worker.send(self.request_id, self.done())

    def prefill(self) -> None:
        for done in (0, PROMPT_TOKENS // 2, PROMPT_TOKENS):
            self.worker.send(self.request_id, Prefill(done, PROMPT_TOKENS, 0))
            self.worker.wait(self.worker.options.prefill_s / 3)

    def next_step(self) -> None:
        if self.steps == self.worker.options.die_after_steps:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1
        if self.mode == "plain" or self.worker.options.no_draft:
            self.step(1, proposed=0)
            return
        self.proposed += WIDTH - 1
        self.step(1 + self.worker.random.choice((0, 1, 1, 2, 2, 3, 5)), proposed=WIDTH - 1)

    def think(self, text: str) -> None:
        """Steps that give thinking before the answer."""
        for piece in re.findall(r"\s*\S+", text):
            self.worker.wait(1 / self.worker.options.steps_per_second)
            self.step(0, proposed=0, thinking=piece)

    def step(self, count: int, proposed: int, thinking: str = "") -> None:
        pieces = self.tokens[self.sent : self.sent + count]
        accepted = max(len(pieces) - 1, 0)
        self.accepted += accepted
        self.sent += len(pieces)
        elapsed_s = time.monotonic() - self.first_s
        tokens = tuple(
            StepToken(
                zlib.crc32(piece.encode()), piece, self.origin(index, accepted, proposed), index + 1 if proposed else 0
            )
            for index, piece in enumerate(pieces)
        )
        step = Step(
            text="".join(pieces),
            thinking=thinking,
            tokens=tokens,
            mode="gpu" if proposed else "plain",
            width=proposed + 1,
            proposed=proposed,
            accepted=accepted,
            draft_ms=11.0 if proposed else 0.0,
            verify_ms=62.0,
            rollback_ms=0.4,
            host_ms=1.2,
            target_busy=(BusySpan(elapsed_s, elapsed_s + 0.06),),
            draft_busy=(),
            branch=None,
            branches=0,
            tokens_so_far=self.sent,
            elapsed_s=elapsed_s,
            context_used=PROMPT_TOKENS + self.sent,
        )
        self.worker.send(self.request_id, step)

    @staticmethod
    def origin(index: int, accepted: int, proposed: int) -> Origin:
        if not proposed:
            return "plain"
        if index < accepted:
            return "draft"
        return "bonus" if accepted == proposed else "correction"

    def done(self) -> Done:
        decode_s = time.monotonic() - self.first_s if self.sent else 0.0
        return Done(
            text="".join(self.tokens[: self.sent]),
            thinking=self.worker.options.thinking,
            token_ids=tuple(map(token_id, self.tokens[: self.sent])),
            tokens=self.sent,
            steps=self.steps,
            accepted_per_step=(self.accepted + self.steps) / self.steps if self.steps else 0.0,
            proposed=self.proposed,
            accepted=self.accepted,
            tokens_per_second=(self.sent - 1) / decode_s if self.sent > 1 else 0.0,
            time_to_first_token_s=self.first_s - self.begun_s if self.sent else 0.0,
            prompt_tokens=PROMPT_TOKENS,
            reused_tokens=0,
            decode_s=decode_s,
            plain_ms_per_token=1000 / PLAIN_TOKENS_PER_SECOND,
            mode=self.mode,
            finish_reason=self.reason,
        )


def token_id(text: str) -> int:
    return zlib.crc32(text.encode())


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--answer", default="Hello there, this is an answer.")
    parser.add_argument("--thinking", default="")
    parser.add_argument("--thinks", action="store_true", help="a model that thinks unless it is told not to")
    parser.add_argument("--answer-file", type=Path)
    parser.add_argument("--echo", action="store_true", help="answer with the conversation that was sent")
    parser.add_argument("--steps-per-second", type=float, default=500.0)
    parser.add_argument("--hello-s", type=float, default=0.0)
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--prefill-s", type=float, default=0.0)
    parser.add_argument("--free-bytes", type=int, default=8_000_000_000, help="of the machine's memory")
    parser.add_argument("--die-at-start", action="store_true")
    parser.add_argument("--die-after-steps", type=int)
    parser.add_argument("--once", type=Path, help="a file: later processes that find it do not die")
    parser.add_argument("--fail-load", action="store_true")
    parser.add_argument("--fail-generate", action="store_true")
    parser.add_argument("--no-draft", action="store_true")
    parser.add_argument("--no-programs", default="", metavar="REASON")
    parser.add_argument("--garbage", action="store_true", help="write noise to fd 2")
    parser.add_argument("--differ", action="store_true", help="other modes than plain end with another word")
    parser.add_argument("--missing-mirror", default="", metavar="REASON", help="why there is no mode mirror")
    parser.add_argument("--deaf", action="store_true", help="heed neither cancel nor shutdown")
    options = parser.parse_args()
    if options.once:
        if options.once.exists():
            options.die_after_steps = None
        options.once.touch()
    if options.answer_file:
        options.answer = options.answer_file.read_text(encoding="utf-8")
    return options


if __name__ == "__main__":
    StandInWorker(parse_options(), sys.stdout.buffer).serve()
    os._exit(0)  # the interpreter would wait for the thread that reads
