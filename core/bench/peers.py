"""Other implementations in processes of their own, measured in turns with ours.

A peer reads one JSON request a line ({"prompt": [ids], "max_tokens": n, "width": rows or null}) and answers with one
line of JSON, as `scripts/peers/` shows. It sleeps in between, so that it takes nothing from whoever is measured next.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from types import TracebackType

import msgspec

from core.cpu_compiler import compiler_environment


class PeerAnswer(msgspec.Struct, frozen=True):
    """What a peer measured of one answer."""

    tokens: tuple[int, ...]
    first_token_s: float
    """From the request to the first token."""
    decode_s: float
    """From the first token to the last."""
    step_tokens: tuple[int, ...]
    """Tokens of each pass of the target after the one that gave the first token."""

    @property
    def tokens_per_second(self) -> float:
        """Tokens after the first over the time since it."""
        return (len(self.tokens) - 1) / self.decode_s


class Peer:
    """A running peer. Use as a context manager."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        """`environment` is added to ours. Kernels of MLX's CPU back end are compiled as for ours."""
        self.name = name
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **compiler_environment(),
                "TOKENIZERS_PARALLELISM": "false",
                **(environment or {}),
            },
        )
        self.versions: dict[str, str] = json.loads(self._read_line())

    def answer(self, prompt: Sequence[int], max_tokens: int, width: int | None = None) -> PeerAnswer:
        """One greedy answer that ignores ends of sequence, so that all answers have the same length.

        `width` is the rows of a verification, for peers that speculate; None for what the draft was made for.
        """
        assert self._process.stdin is not None
        request = {"prompt": list(prompt), "max_tokens": max_tokens, "width": width}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return msgspec.json.decode(self._read_line(), type=PeerAnswer)

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer {self.name} ended with exit code {self._process.wait()}")
        return line
