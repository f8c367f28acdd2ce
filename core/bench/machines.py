"""What steps cost on a machine, as figures with their sources, and the machines that are projected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from core.bench.replay import ReplayedStep
from core.engine.costs import Costs
from core.protocol import Mode


@dataclass(frozen=True)
class Cost:
    """A figure."""

    value: float
    """Milliseconds, unless the field of the machine says otherwise."""
    source: str
    assumed: bool = False
    """Nobody measured it on this machine with this pair."""


@dataclass(frozen=True)
class Published:
    """How many tokens a step others got, with blocks of 16 that are verified whole."""

    tokens: float
    source: str


@dataclass(frozen=True)
class Machine:
    """A machine with a pair."""

    name: str
    verify: dict[int, Cost]
    """By rows, those that are known."""
    between: Cost
    """A factor: passes of other rows against the straight line between known ones."""
    gpu_draft: Cost
    """A block in MLX with its LM head."""
    ane_draft: Cost
    """A block as programs."""
    redraft: Cost
    """The same in mode `mirror`, after a miss."""
    branch_draft: Cost
    """Branches side by side."""
    head: Cost
    """The LM head of a block that was drafted by programs, on the target's device."""
    sync: Cost
    """Everything else in a step with a draft: handing over, waiting, rolling back."""
    beside: Cost
    """A share: how much longer a verification takes while the draft runs beside it."""
    columns: int = 64
    """For branches."""
    acceptance: tuple[Published, ...] = ()

    def verify_ms(self, rows: int) -> float:
        """Of a pass over so many rows."""
        if rows in self.verify:
            return self.verify[rows].value
        known = sorted(self.verify)
        line = float(np.interp(rows, known, [self.verify[each].value for each in known]))
        return line * self.between.value

    def step_ms(self, step: ReplayedStep) -> float:
        """Of a whole step."""
        verify = self.verify_ms(step.rows)
        if step.mode == "plain":
            return verify
        if step.mode == "gpu":
            return self.gpu_draft.value + verify + self.sync.value
        if step.mode == "ane":
            return self.ane_draft.value + self.head.value + verify + self.sync.value
        before = {"hit": 0.0, "miss": self.redraft.value, None: self.ane_draft.value}[step.branch]
        if step.branches:
            verify = max(verify * (1 + self.beside.value), self.branch_draft.value)
        return before + self.head.value + self.sync.value + verify

    def controller_costs(self, modes: Sequence[Mode], most_rows: int) -> Costs:
        """What the engine would measure at load, for those of the modes that draft."""
        head_ms = self.head.value + self.sync.value
        draft_ms = {"gpu": self.gpu_draft.value + self.sync.value, "ane": self.ane_draft.value + head_ms}
        verify_ms = self.verify_ms(most_rows)
        beside_ms = max(verify_ms * self.beside.value, self.branch_draft.value - verify_ms)
        return Costs(
            verify_ms=tuple(self.verify_ms(rows) for rows in range(1, most_rows + 1)),
            verify_ms_per_position=(0.0,) * most_rows,
            draft_ms={mode: draft_ms[mode] for mode in modes if mode in draft_ms},
            head_ms=head_ms,
            beside_ms=((self.columns, beside_ms),) if "mirror" in modes else (),
        )

    @property
    def costs(self) -> dict[str, Cost]:
        """By name."""
        found = {f"verify, {rows} rows": cost for rows, cost in self.verify.items()}
        return found | {name: getattr(self, name) for name in _single_costs()}

    def varied(self, name: str, factor: float) -> Machine:
        """The same machine with one of the single costs times `factor`."""
        cost: Cost = getattr(self, name)
        return replace(self, **{name: replace(cost, value=cost.value * factor)})  # type: ignore[arg-type]


def _single_costs() -> list[str]:
    return [field.name for field in fields(Machine) if field.type == "Cost"]


_LINE = Cost(1.0, "a straight line between the known ones; kernels may have steps there", assumed=True)
_FREE_COLUMNS = "as one block: reading the weights decides, so columns up to 64 are free"
_SEED = "0xClandestine/mirror-sd"
_PEER = "shipstuff/mlx-ane-sd"
_CHAT = Published(4.24, "DFlash's paper: Qwen3-8B, chat (MT-Bench), greedy, H200")

M4_MAX = Machine(
    name="M4 Max, Qwen3.5-27B-4bit with its DFlash draft",
    verify={
        1: Cost(37.2, f"{_SEED}, ANE_PROFILE.md: plain decoding 26.9 tok/s"),
        16: Cost(163.6, f"{_SEED}, ANE_PROFILE.md: verification of 16 rows, recurrent layers not rolled back"),
    },
    between=_LINE,
    gpu_draft=Cost(68.9, f"{_SEED}, ANE_PROFILE.md: a whole `gpu` step of 232.5 ms less the verification"),
    ane_draft=Cost(36.0, f"{_SEED}, README: 8-bit weights, blocks of 16 (see the next machine)"),
    redraft=Cost(36.0, "as above", assumed=True),
    branch_draft=Cost(36.0, _FREE_COLUMNS, assumed=True),
    head=Cost(7.7, f"{_SEED}, docs/optimization-attempts.md, EXP-003: of an 8B target", assumed=True),
    sync=Cost(4.0, f"{_SEED}, docs/optimization-attempts.md, EXP-003: preparing a draft", assumed=True),
    beside=Cost(0.032, "aosama/astronomical: decoding beside a Neural Engine at full rate, M5 Pro", assumed=True),
    acceptance=(_CHAT, Published(5.47, f"{_SEED}, ANE_PROFILE.md: one coding prompt, temperature 0.6")),
)

M4_PRO = Machine(
    name="M4 Pro, Qwen3-4B in bf16 with its DFlash draft",
    verify={
        1: Cost(34.2, f"{_PEER}, README: plain decoding 29.27 tok/s"),
        16: Cost(72.0, f"{_PEER}, notes/swift_runner_bench.md: verification of 16 rows"),
    },
    between=_LINE,
    gpu_draft=Cost(
        39.0,
        f"{_PEER}, notes/dflash_mlx_reproduction.md: 43.6 tok/s at 4.84 tokens a step, less the verification; "
        "both are means over other prompts",
        assumed=True,
    ),
    ane_draft=Cost(10.0, f"{_PEER}, notes/swift_runner_bench.md: 16-bit weights; 5.4 ms with 6 bits"),
    redraft=Cost(10.0, "as above", assumed=True),
    branch_draft=Cost(10.0, _FREE_COLUMNS, assumed=True),
    head=Cost(20.0, f"{_PEER}, notes/swift_runner_bench.md: of 15 rows, in MLX"),
    sync=Cost(0.6, f"{_PEER}, notes/swift_runner_bench.md: everything else in a step"),
    beside=Cost(0.032, "aosama/astronomical: decoding beside a Neural Engine at full rate, M5 Pro", assumed=True),
    acceptance=(Published(3.57, f"{_PEER}, notes/swift_runner_bench.md: mean of four prompts, greedy"), _CHAT),
)

_SLOW = Cost(190.0, f"{_SEED}, README: a draft's time in its table of results, 8-bit weights, blocks of 32")

M4_MAX_SLOW_DRAFT = replace(
    M4_MAX,
    name=f"{M4_MAX.name}, the draft as slow as its own table of results has it",
    ane_draft=_SLOW,
    redraft=replace(_SLOW, assumed=True),
    branch_draft=replace(_SLOW, assumed=True),
)

MACHINES = (M4_MAX, M4_MAX_SLOW_DRAFT, M4_PRO)
