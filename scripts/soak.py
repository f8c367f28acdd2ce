"""Answers back to back for many minutes, with random modes and cancels: `soak.py [--minutes 20]`.

Prints the worker's memory minute by minute. Fails where an answer ends in an error, where memory still grows after the
first five minutes, or where the worker does not end with exit code 0.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter

import psutil

from core.bench.prompts import PROMPTS
from core.client import EngineClient
from core.pairs import Pair, pair_from_paths
from core.protocol import ChatMessage, Done, Event, Failed, Generate, GenerateOptions, Heartbeat, Load, Loaded, Step

_WARM_MINUTES = 5
_MOST_GROWTH_BYTES = 32 << 20


class _Soak:
    """One worker, and what became of its answers."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._chance = random.Random(1)
        self._rss_bytes = 0
        self.finishes: Counter[str] = Counter()
        self.modes: Counter[str] = Counter()
        self.by_minute: list[int] = []
        self.threads: list[int] = []

    async def run(self, minutes: float) -> int | None:
        """Answer for so long; returns the worker's exit code."""
        client = EngineClient("terminal", self._on_event)
        try:
            loaded = [event async for event in await client.send(Load(self._pair))][-1]
            assert isinstance(loaded, Loaded), loaded
            began_s = time.monotonic()
            while (passed_s := time.monotonic() - began_s) < 60 * minutes:
                if passed_s >= 60 * (len(self.by_minute) + 1):
                    self._note_minute(client)
                await self._answer(client, loaded)
        finally:
            code = await client.close()
        return code

    async def _answer(self, client: EngineClient, loaded: Loaded) -> None:
        chance = self._chance
        options = GenerateOptions(
            mode=chance.choice(loaded.modes),
            max_tokens=chance.choice([8, 40, 120]),
            temperature=chance.choice([0.0, 0.8]),
            seed=chance.randrange(1000),
        )
        call = await client.send(Generate(self._pair, (ChatMessage("user", chance.choice(PROMPTS)),), options))
        steps_left = chance.choice([0, 1, 5, 1000, 1000])
        async for event in call:
            if isinstance(event, Step):
                steps_left -= 1
                self.modes[event.mode] += 1
            if steps_left <= 0:
                await call.cancel()
                steps_left = 1000
            if isinstance(event, Failed):
                raise SystemExit(f"an answer in mode {options.mode} failed: {event.problem}")
            if isinstance(event, Done):
                self.finishes[event.finish_reason] += 1

    def _note_minute(self, client: EngineClient) -> None:
        self.by_minute.append(self._rss_bytes)
        self.threads.append(psutil.Process(client.worker_pid).num_threads())
        done = sum(self.finishes.values())
        print(
            f"minute {len(self.by_minute)}: {self._rss_bytes / 1e6:.0f} MB, {self.threads[-1]} threads, {done} answers"
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Heartbeat):
            self._rss_bytes = event.rss_bytes


def main() -> int:
    """Parse, soak, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--target", metavar="PATH")
    parser.add_argument("--draft", metavar="DIR")
    arguments = parser.parse_args()
    soak = _Soak(pair_from_paths(arguments.target, arguments.draft))
    with asyncio.Runner() as runner:
        code = runner.run(soak.run(arguments.minutes))
    print(f"answers {dict(soak.finishes)}, steps {dict(soak.modes)}, exit code {code}")
    later = soak.by_minute[_WARM_MINUTES - 1 :]
    growth_bytes = max(later) - later[0] if later else 0
    print(f"growth after {_WARM_MINUTES} minutes: {growth_bytes / 1e6:.0f} MB; threads {soak.threads}")
    return int(code != 0 or growth_bytes > _MOST_GROWTH_BYTES)


if __name__ == "__main__":
    sys.exit(main())
