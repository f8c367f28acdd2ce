"""Made-up steps of an answer, with busy times as each mode has them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from core.protocol import BusySpan, Mode, Step, StepToken

DRAFT_S, VERIFY_S, HEAD_S = 0.012, 0.040, 0.002


def step(
    elapsed_s: float,
    so_far: int,
    tokens: int,
    mode: Mode = "gpu",
    width: int = 8,
    **changes: object,
) -> Step:
    """A step of `tokens` tokens, all but the last accepted proposals."""
    proposed = 0 if mode == "plain" or elapsed_s == 0 else width - 1
    values: dict[str, object] = {
        "text": "x", "thinking": "", "tokens": tuple(StepToken(0, "x", "draft") for _ in range(tokens)), "mode": mode,
        "width": proposed + 1, "proposed": proposed, "accepted": tokens - 1, "draft_ms": 10.0, "verify_ms": 60.0,
        "rollback_ms": 1.0, "host_ms": 2.0, "target_busy": (BusySpan(0, 0),), "draft_busy": (), "branch": None,
        "branches": 0, "tokens_so_far": so_far, "elapsed_s": elapsed_s, "context_used": 100 + so_far,
    }  # fmt: skip
    return Step(**(values | changes))  # type: ignore[arg-type]


def answer_steps(mode: Mode, count: int, width: int = 16, seed: int = 1) -> Iterator[Step]:
    """The first step, and `count` passes in this mode."""
    dice = random.Random(seed)
    now_s, so_far = 0.5, 1
    verified = BusySpan(now_s - VERIFY_S, now_s)
    yield step(0.0, 1, 1, "plain", target_busy=(verified,), draft_ms=0.0, verify_ms=VERIFY_S * 1e3)
    first_s = now_s
    for _ in range(count):
        before, target, draft = verified, [], []
        branch = None
        if mode == "mirror":
            branch = "hit" if dice.random() < 0.6 else "miss"
            draft.append(BusySpan(before.start_s + 0.001, before.start_s + 0.001 + 2 * DRAFT_S))
        if mode in ("gpu", "ane") or branch == "miss":
            draft.append(BusySpan(now_s, now_s + DRAFT_S))
            now_s += DRAFT_S
        if mode != "plain":
            target.append(BusySpan(now_s, now_s + HEAD_S))
            now_s += HEAD_S
        verified = BusySpan(now_s, now_s + VERIFY_S)
        now_s += VERIFY_S + 0.001
        accepted = 0 if mode == "plain" else min(int(dice.expovariate(0.45)), width - 1)
        so_far += accepted + 1
        yield step(
            now_s - first_s, so_far, accepted + 1, mode, width,
            target_busy=(*target, verified), draft_busy=tuple(draft), branch=branch, branches=6 if branch else 0,
            draft_ms=sum(span.end_s - span.start_s for span in draft) * 1e3, verify_ms=VERIFY_S * 1e3,
            rollback_ms=0.3, host_ms=1.0,
        )  # fmt: skip
