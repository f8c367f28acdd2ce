"""Chooses mode and width of each step by expected tokens a millisecond, from measured costs and acceptance so far.

No mode is switched off for being slow: now and then another is tried. What trials lose against the mode that seems best
is counted, and stays a small share of the time spent decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from core.engine.averages import Acceptance, Average, RepeatAcceptance
from core.engine.costs import Costs
from core.protocol import Mode

_ADVANTAGE = 1.04
"""Another mode must be this much faster to be worth a change of mind."""
_TRIAL_SHARE = 0.012
"""What trials may lose, as a share of the time spent decoding."""
_REMEMBERED_MS = 60_000.0
"""How far back that share looks: a long good time does not pay for many trials at once."""
_LEAST_STEPS_BETWEEN_TRIALS = 12
_TRIAL_STEPS = 3
"""One step more than a block drafted beside a verification needs to be of use."""
_STEPS_COMPARED = 6
"""After a change of mode: their time is laid to the mode, that of later ones to the machine."""
_RISKED_TOKENS = 2.0
"""What drafting may lose against plain decoding in one answer, in the time of so many plain tokens; gains add to it."""
_RISKED_SHARE = 0.003
"""And beyond it, as a share of the time that the answer took."""
_RISKED_BY_LOOK_UPS = 0.5
"""Of that, what look-ups may lose by themselves, where drafts have lost all that they may."""
_BOLDNESS = 0.02
"""How much better a mode looks as a trial for every ten steps that it has not run."""


@dataclass(frozen=True)
class Choice:
    """How the next step is decoded."""

    mode: Mode
    rows: int
    """Of the pass: proposals + 1."""


_PLAIN = Choice("plain", 1)


@dataclass(frozen=True)
class StepSeen:
    """How a step went."""

    mode: Mode
    rows: int
    accepted: int
    took_ms: float
    depth: int
    """Positions before it."""
    branch: Literal["hit", "miss"] | None = None


@dataclass
class _ModeState:
    """What was learned of a mode."""

    excess: Average = field(default_factory=lambda: Average(1.0, weight=8))
    """What its steps take against what the costs say, the machine's load left out."""
    idle_steps: int = 0
    """Since it ran."""
    steps_in_a_row: int = 0


class Controller:
    """Learns from every step of every answer of a loaded pair."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        proposals = costs.most_rows - 1
        self._accepted = Acceptance(proposals)
        """Of all drafts' blocks: what tells the modes' own apart is less than what a few dozen blocks differ by."""
        self._repeated = RepeatAcceptance(proposals)
        self._hit = Average(0.3)
        self._load = Average(1.0, most=6)
        """How much slower everything is than when the costs were measured."""
        self._modes = {mode: _ModeState() for mode in costs.modes}
        self._lookup = _ModeState()
        """Not among the modes: it may stand in for whichever seems best, at single steps."""
        self._mode: Mode = "plain"
        self._trial: list[Choice] = []
        self._since_trial = 0
        self._spent_ms = self._lost_ms = 0.0
        self._answer_ms = self._gained_ms = 0.0
        """Of this answer: its time, and what drafting gained against plain decoding, which may be less than nothing."""
        self._looked_up_ms = 0.0
        """Of those gains, the part of look-ups."""
        self._last_mode: Mode = "plain"
        """Of the last step of this answer."""
        self.reason = ""
        """Why the mode of the last choice is another than that before; empty where it is not."""

    def begin_answer(self) -> None:
        """Another text begins: what was learned of the last one may not hold."""
        self._accepted.doubt()
        self._repeated.doubt()
        self._hit.doubt()
        for state in (*self._modes.values(), self._lookup):
            state.steps_in_a_row = 0
        self._trial = []
        self._answer_ms = self._gained_ms = self._looked_up_ms = 0.0
        self._last_mode = "plain"

    @property
    def mode(self) -> Mode:
        """The one that seems best."""
        return self._mode

    def lose(self, mode: Mode) -> None:
        """The mode has failed: choose it no more."""
        self._modes.pop(mode, None)
        self._trial = []
        if self._mode == mode:
            self._mode = "plain"

    def expected_tokens(self, choice: Choice) -> float:
        """Of such a step."""
        return self._accepted.expected_tokens(choice.rows)

    def step_ms(self, choice: Choice, depth: int) -> float:
        """What such a step takes, `depth` positions behind the start."""
        return self._load.value * self._state(choice.mode).excess.value * self._stated_ms(choice, depth)

    def expects_repeats(self, most_rows: int, depth: int) -> bool:
        """Whether looking up a repeat, of any length, is allowed and faster than what seems best without."""
        if not (self._may_draft(depth) or self._may_look_up(depth)):
            return False
        staying = self._best(self._mode, most_rows, depth) if most_rows > 1 else Choice("plain", 1)
        return any(self._look_up(known, staying, most_rows, depth) for known in self._repeated.every())

    def choose(self, most_rows: int, depth: int, repeat: int = 0) -> Choice:
        """The next step, of at most so many rows. `repeat` is how many of the last tokens stood before; 0 for none."""
        self.reason = ""
        drafting = most_rows > 1 and self._may_draft(depth)
        if most_rows > 1 and not drafting and self._mode != "plain":
            self._mode = "plain"
            self.reason = f"Drafting has lost {-self._gained_ms:.0f} ms against plain decoding in this answer."
        best = {mode: self._best(mode, most_rows, depth) for mode in self._modes if mode == "plain" or drafting}
        if self._trial:
            planned = self._trial.pop()
            return Choice(planned.mode, min(planned.rows, most_rows)) if planned.mode in best else best["plain"]
        rates = {mode: self._rate(choice, depth) for mode, choice in best.items()}
        wanted = max(rates, key=rates.__getitem__)
        if self._mode in rates and wanted != self._mode and rates[wanted] > _ADVANTAGE * rates[self._mode]:
            self._change(best[wanted], rates, depth)
        staying = best.get(self._mode, best["plain"])
        # Look-ups are judged at every step without a trial, so they need not pay for what drafts have lost.
        if repeat and (drafting or self._may_look_up(depth)):
            looked_up = self._look_up(self._repeated.of(repeat), staying, most_rows, depth)
            if looked_up is not None:
                return looked_up
        tried = self._trial_choice(best, rates, staying, depth)
        if tried is None:
            return staying
        self._trial = [tried] * (_TRIAL_STEPS - 1)
        return tried

    def observe(self, step: StepSeen) -> None:
        """Learn from a step. The first one after another mode is no measure of time: it makes up for what waited."""
        self._since_trial += 1
        if step.mode != "lookup":
            self._accepted.add(step.accepted, step.rows - 1)
        if step.branch is not None:
            self._hit.add(float(step.branch == "hit"))
        states: dict[Mode, _ModeState] = {**self._modes, "lookup": self._lookup}
        for mode, state in states.items():
            state.idle_steps = 0 if mode == step.mode else state.idle_steps + 1
            state.steps_in_a_row = state.steps_in_a_row + 1 if mode == step.mode else 0
        if step.mode in states:
            self._learn_time(step)

    def observe_repeat(self, length: int, right: int, judged: int) -> None:
        """Of what followed a repeat of `length` tokens, `judged` tokens were held against the text, and so many right.

        Whatever mode the step had: looking up costs nothing.
        """
        self._repeated.of(length).add(right, judged)

    def _learn_time(self, step: StepSeen) -> None:
        state = self._state(step.mode)
        self._answer_ms += step.took_ms
        # A plain step behind another makes up for what waited, which that other one cost too.
        laid_to, self._last_mode = step.mode if step.mode != "plain" else self._last_mode, step.mode
        if laid_to != "plain":
            gained_ms = (step.accepted + 1) * self.step_ms(_PLAIN, step.depth) - step.took_ms
            self._gained_ms += gained_ms
            self._looked_up_ms += gained_ms if laid_to == "lookup" else 0.0
        if step.mode not in (self._mode, "lookup"):
            rate = self._rate(self._best(self._mode, self.costs.most_rows, step.depth), step.depth)
            self._lost_ms = max(0.0, self._lost_ms + step.took_ms - (step.accepted + 1) / rate)
        kept = max(0.0, 1 - step.took_ms / _REMEMBERED_MS)
        self._spent_ms = kept * self._spent_ms + step.took_ms
        self._lost_ms *= kept
        if state.steps_in_a_row > 1:
            ratio = step.took_ms / self._stated_ms(Choice(step.mode, step.rows), step.depth, step.branch)
            # Right after a change the steps differ from those before by their mode too, later on only by what else
            # runs here.
            excess, load = state.excess.value, self._load.value
            self._load.add(ratio / excess)
            if state.steps_in_a_row <= _STEPS_COMPARED:
                state.excess.add(ratio / load)

    def _may_draft(self, depth: int) -> bool:
        """Whether this answer has not lost by drafting what it may."""
        return self._gained_ms > -self._risked_ms(depth)

    def _may_look_up(self, depth: int) -> bool:
        """Whether this answer has not lost by looking up what it may."""
        return self._looked_up_ms > -_RISKED_BY_LOOK_UPS * self._risked_ms(depth)

    def _risked_ms(self, depth: int) -> float:
        return _RISKED_TOKENS * self.step_ms(_PLAIN, depth) + _RISKED_SHARE * self._answer_ms

    def _stated_ms(self, choice: Choice, depth: int, branch: Literal["hit", "miss"] | None = None) -> float:
        hit = self._hit.value if branch is None else float(branch == "hit")
        return self.costs.step_ms(choice.mode, choice.rows, depth, hit)

    def _best(self, mode: Mode, most_rows: int, depth: int) -> Choice:
        if mode == "plain":
            return Choice(mode, 1)
        widths = range(2, min(most_rows, self.costs.most_rows) + 1)
        return max((Choice(mode, rows) for rows in widths), key=lambda choice: self._rate(choice, depth))

    def _look_up(self, known: Acceptance, instead_of: Choice, most_rows: int, depth: int) -> Choice | None:
        """The best step that looks up a repeat of which so much is known; None where `instead_of` is as fast."""
        best, highest = None, _ADVANTAGE * self._rate(instead_of, depth)
        for rows in range(2, min(most_rows, self.costs.most_rows) + 1):
            choice = Choice("lookup", rows)
            if (rate := known.expected_tokens(rows) / self.step_ms(choice, depth)) > highest:
                best, highest = choice, rate
        return best

    def _state(self, mode: Mode) -> _ModeState:
        return self._lookup if mode == "lookup" else self._modes[mode]

    def _rate(self, choice: Choice, depth: int) -> float:
        """Expected tokens a millisecond."""
        return self.expected_tokens(choice) / self.step_ms(choice, depth)

    def _trial_choice(
        self, best: dict[Mode, Choice], rates: dict[Mode, float], staying: Choice, depth: int
    ) -> Choice | None:
        """Another mode that is worth a trial now: the better it seems, and the longer it has not run, the sooner."""
        others = [mode for mode in best if mode != staying.mode]
        if not others or self._since_trial < _LEAST_STEPS_BETWEEN_TRIALS:
            return None
        hoped = {mode: rates[mode] * (1 + _BOLDNESS * self._modes[mode].idle_steps / 10) for mode in others}
        tried = max(others, key=hoped.__getitem__)
        loss_ms = _TRIAL_STEPS * self.step_ms(best[tried], depth) * max(0.0, 1 - hoped[tried] / rates[staying.mode])
        if self._lost_ms + loss_ms > _TRIAL_SHARE * self._spent_ms:
            return None
        self._since_trial = 0
        return best[tried]

    def _change(self, wanted: Choice, rates: dict[Mode, float], depth: int) -> None:
        before, self._mode = self._mode, wanted.mode
        tokens, step_ms = self.expected_tokens(wanted), self.step_ms(wanted, depth)
        after_s, before_s = rates[wanted.mode] * 1e3, rates[before] * 1e3
        self.reason = (
            f"Expected here: {tokens:.2f} tokens in a step of {step_ms:.0f} ms, {after_s:.1f} a second; "
            f"as before it would be {before_s:.1f}."
        )
