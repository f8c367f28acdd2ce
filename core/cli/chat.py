"""`mirror-sd chat`: one answer, or a conversation."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from core.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    StatusLine,
    add_pair_options,
    chosen_pair,
    engine,
    events_of,
    print_event,
    print_problem,
)
from core.client import EngineClient
from core.errors import BadRequest
from core.protocol import (
    MODES,
    ChatMessage,
    Done,
    Event,
    Failed,
    Generate,
    GenerateOptions,
    ModeChanged,
    Prefill,
    Progress,
    Step,
)


def add_command(commands: Any) -> None:
    """Register the command and its options."""
    defaults = GenerateOptions()
    parser: argparse.ArgumentParser = commands.add_parser("chat", help="answer a prompt, or hold a conversation")
    add_pair_options(parser)
    parser.add_argument("--prompt", help="the message; without it standard input is read, or a conversation begins")
    parser.add_argument("--mode", choices=MODES, default=defaults.mode)
    parser.add_argument("--width", type=int, metavar="N", help="rows of a verification pass (proposals + 1)")
    parser.add_argument("--temperature", type=float, default=defaults.temperature, metavar="T")
    parser.add_argument("--seed", type=int, default=defaults.seed, metavar="N")
    parser.add_argument("--top-k", type=int, default=defaults.top_k, metavar="N", help="0 keeps all tokens")
    parser.add_argument("--top-p", type=float, default=defaults.top_p, metavar="P")
    parser.add_argument("--min-p", type=float, default=defaults.min_p, metavar="P")
    parser.add_argument("--repetition-penalty", type=float, default=defaults.repetition_penalty, metavar="R")
    parser.add_argument("--max-tokens", type=int, default=defaults.max_tokens, metavar="N")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end the answer before this text")
    parser.add_argument("--json", action="store_true", help="write every event as a line of JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer and return the exit code."""
    chat = Chat(arguments)
    prompt: str | None = arguments.prompt
    with asyncio.Runner() as runner:
        if prompt is None and sys.stdin.isatty():
            return runner.run(chat.converse())
        return runner.run(chat.answer_once(sys.stdin.read() if prompt is None else prompt))


class Chat:
    """A conversation in the terminal."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Raises `DemoTargetMissing`."""
        self._pair = chosen_pair(arguments)
        self._options = GenerateOptions(
            mode=arguments.mode,
            width=arguments.width,
            max_tokens=arguments.max_tokens,
            temperature=arguments.temperature,
            seed=arguments.seed,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            min_p=arguments.min_p,
            repetition_penalty=arguments.repetition_penalty,
            stop=tuple(arguments.stop),
        )
        self._json: bool = arguments.json
        self._messages: list[ChatMessage] = []
        self._status = StatusLine()

    async def answer_once(self, prompt: str) -> int:
        """One prompt, one answer. Raises `BadRequest` for an empty prompt."""
        if not prompt.strip():
            raise BadRequest("There is no prompt.", "Give one with --prompt, or on standard input.")
        async with engine() as client:
            return await self._answer(client, prompt)

    async def converse(self) -> int:
        """Prompt after prompt until end of input."""
        print("Ctrl+D ends the conversation, Ctrl+C stops an answer.", file=sys.stderr)
        async with engine() as client:
            while True:
                try:
                    # input() blocks a thread, not the loop: the worker's messages go on being read.
                    prompt = await asyncio.to_thread(input, "> ")
                except EOFError:
                    print(file=sys.stderr)
                    return 0
                if prompt.strip():
                    await self._answer(client, prompt)

    async def _answer(self, client: EngineClient, prompt: str) -> int:
        self._messages.append(ChatMessage("user", prompt))
        call = await client.send(Generate(self._pair, tuple(self._messages), self._options))
        code = 0
        async for event in events_of(call):
            if self._json:
                print_event(event)
            else:
                self._show(event)
            if isinstance(event, Failed):
                self._messages.pop()
                code = EXIT_FAILED
            elif isinstance(event, Done):
                self._messages.append(ChatMessage("assistant", event.text))
                code = EXIT_INTERRUPTED if event.finish_reason == "cancelled" else 0
        return code

    def _show(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._status.progress(event)
        elif isinstance(event, Prefill):
            self._status.show(f"reading the prompt ({event.done} of {event.total} tokens)")
        elif isinstance(event, Step):
            self._status.clear()
            if event.thinking and sys.stderr.isatty():
                print(f"\x1b[2m{event.thinking}\x1b[0m", end="", file=sys.stderr, flush=True)
            print(event.text, end="", flush=True)
        elif isinstance(event, ModeChanged):
            if event.cause == "failure":
                print(f"\n[from here on in mode {event.mode}: {event.reason}]", file=sys.stderr, flush=True)
        elif isinstance(event, Done):
            self._status.clear()
            print(flush=True)
            print(statistics_line(event), file=sys.stderr)
        elif isinstance(event, Failed):
            self._status.clear()
            print_problem(event.problem)


def statistics_line(done: Done) -> str:
    """The figures of an answer in one line; what was not measured is left out."""
    figures = [f"{done.mode}: {done.tokens_per_second:.1f} tok/s", f"{done.tokens} tokens"]
    if done.tokens:
        figures.append(f"{done.time_to_first_token_s:.2f} s to first token")
    if done.proposed:
        figures.append(f"{done.accepted_per_step:.2f} tokens per step")
        figures.append(f"{done.accepted / done.proposed:.0%} of {done.proposed} proposals accepted")
    if done.proposed and done.plain_ms_per_token and done.decode_s:
        plain_s = done.plain_decode_s
        figures.append(
            f"{plain_s / done.decode_s:.2f}x plain decoding ({done.decode_s:.1f} s instead of {plain_s:.1f} s)"
        )
    figures.append(f"ended by {done.finish_reason.replace('_', ' ')}")
    return " | ".join(figures)
