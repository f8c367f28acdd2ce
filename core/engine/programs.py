"""A draft's programs, ready to run on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import ane
from core.engine.branches import Outcomes
from core.engine.draft_thread import DraftThread
from core.engine.drafter_ane import AneDrafter
from core.engine.target import Target

_CONTEXT = 2048
_BRANCH_COLUMNS = 32
"""For the processor, where columns cost time; the Neural Engine has room for 64 at the price of 16."""


@dataclass
class Programs:
    """What drafting with programs needs, for as long as a pair is loaded."""

    drafter: AneDrafter
    runtime: ane.CpuRuntime
    thread: DraftThread = field(default_factory=DraftThread)
    outcomes: Outcomes = field(default_factory=Outcomes)

    def share_processor(self, share: bool) -> None:
        """Whether the programs run beside the target, which then keeps half of the cores."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.runtime.threads = max(1, cores // 2) if share else cores

    def close(self) -> None:
        """End the draft's thread."""
        self.thread.close()


def load_programs(folder: Path, target: Target) -> Programs:
    """The programs of the draft in `folder`, whose taps `target` has on. Raises as `AneDrafter` does."""
    runtime = ane.CpuRuntime()
    block = ane.inspect_draft(folder).block_size
    narrow = next(width for width in (16, 32, 64) if width >= block)
    programs = runtime.load(folder, width=narrow, context=_CONTEXT)
    if narrow < _BRANCH_COLUMNS:
        programs += [
            program
            for program in runtime.load(folder, width=_BRANCH_COLUMNS, context=_CONTEXT)
            if "x" in program.inputs
        ]
    return Programs(AneDrafter(folder, programs, target), runtime)
