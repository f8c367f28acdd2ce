"""How many tokens of a draft are accepted: by the engine, by the public dflash package, and after a branch hit.

Greedy, on prompts that no draft was trained on. Counts depend on models and prompts, not on the machine's speed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from core.bench.peers import Peer
from core.bench.rows import Row, single
from core.engine.decode import Limits
from core.engine.loader import LoadedPair
from core.engine.measure import decode_anew
from core.training.acceptance import after_branch_hits


@dataclass(frozen=True)
class Walk:
    """One answer, as a draft and its target went through it."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    """The answer."""
    steps: tuple[int, ...]
    """Tokens of each step after the first: accepted ones and the target's own."""


def held_out_prompts() -> list[str]:
    """A hundred messages that the demo target wrote under a seed that no training uses.

    Those whose greedy answer goes in circles are left out.
    """
    prompts: list[str] = json.loads(resources.files("core.bench").joinpath("held_out_prompts.json").read_text())
    return prompts


def our_walks(loaded: LoadedPair, prompts: Sequence[tuple[int, ...]], width: int, max_tokens: int) -> list[Walk]:
    """Decode every prompt in `gpu` mode."""
    walks = []
    for prompt in prompts:
        steps = decode_anew(loaded, prompt, "gpu", Limits(max_tokens, loaded.tokenizer.eos_ids, width))
        tokens = tuple(token for step in steps for token in step.tokens)
        walks.append(Walk(prompt, tokens, tuple(len(step.tokens) for step in steps[1:])))
    return walks


def peer_walks(peer: Peer, walks: Sequence[Walk], width: int) -> list[Walk]:
    """The same answers by a peer, each as long as ours."""
    answers = [peer.answer(walk.prompt, len(walk.tokens), width) for walk in walks]
    return [Walk(walk.prompt, answer.tokens, answer.step_tokens) for walk, answer in zip(walks, answers, strict=True)]


def acceptance_rows(name: str, walks: Sequence[Walk], width: int) -> list[Row]:
    """Tokens per step, and the share of steps with at least k accepted tokens."""
    # The last step of an answer is cut by its end: it says nothing about the draft.
    steps = [tokens for walk in walks for tokens in walk.steps[:-1]]
    per_answer = [sum(walk.steps[:-1]) / len(walk.steps[:-1]) for walk in walks if len(walk.steps) > 1]
    rows = [Row(f"{name}: tokens per step", sum(steps) / len(steps), "tokens", (min(per_answer), max(per_answer)))]
    for k in range(1, width):
        share = sum(tokens > k for tokens in steps) / len(steps)
        rows.append(single(f"{name}: at least {k} accepted", share, "of steps"))
    return rows


def branch_row(name: str, loaded: LoadedPair, walks: Sequence[Walk]) -> Row:
    """Tokens per step of blocks drafted for the outcome that came true, as a share of freshly drafted ones."""
    assert loaded.drafter is not None
    after, fresh = 0, 0
    for walk in walks:
        ours, theirs = after_branch_hits(loaded.drafter.draft, loaded.target, walk.prompt, walk.tokens, walk.steps)
        after, fresh = after + ours, fresh + theirs
    return single(f"{name}: tokens per step after a branch hit", after / fresh, "of a fresh draft's")
