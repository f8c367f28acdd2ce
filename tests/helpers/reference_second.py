"""The second generation of DFlash in plain numpy, float64: dynamic convolutions and the candidate selector.

Written from the format, as `helpers.reference` is: rows are gone through one by one, with loops over taps and ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from helpers.reference import Array, ReferenceDraft


class SecondReferenceDraft(ReferenceDraft):
    """The draft of `DFlash2DraftModel` checkpoints."""

    # ------------------------------------------------------------- convolutions

    def around(self, name: str, normed: Array, sublayer: Callable[[Array], Array]) -> Array:
        """The convolution's in side before a sublayer, its out side on what that gives; both by `normed`."""
        entering = self.convolve(name, 0, normed, self.coefficients(name, normed))
        leaving = sublayer(entering)
        return self.convolve(name, 1, leaving, self.leaving_coefficients(name, normed, leaving))

    def coefficients(self, name: str, normed: Array) -> Array:
        """[B, side, tap, group]."""
        config = self.config
        groups = config.hidden_size // config.conv_group_size
        made = normed @ self.weights[f"{name}.kernel_projection.weight"].T
        return made.reshape(len(normed), 2, config.conv_kernel_size, groups)

    def leaving_coefficients(self, name: str, normed: Array, _leaving: Array) -> Array:
        return self.coefficients(name, normed)

    def convolve(self, name: str, side: int, rows: Array, coefficients: Array) -> Array:
        """out_t = sum over taps of (base[side, tap] + coefficient_t[side, tap, group]) x in_{t - tap}."""
        base = self.base(name)
        out = np.zeros_like(rows)
        for row in range(len(rows)):
            for tap in range(self.config.conv_kernel_size):
                behind = self.behind(rows, row, tap)
                shared = self.by_channel(coefficients[self.coefficient_row(row, tap), side, tap])
                out[row] += (base[side, tap] + shared) * behind
        return out

    def base(self, name: str) -> Array:
        """[side, tap, hidden]."""
        return self.weights[f"{name}.base_kernel"]

    def behind(self, rows: Array, row: int, tap: int) -> Array:
        """[hidden]: the row `tap` rows before; zeros before the block."""
        return rows[row - tap] if row >= tap else np.zeros(rows.shape[1])

    def coefficient_row(self, row: int, _tap: int) -> int:
        return row

    def by_channel(self, of_groups: Array) -> Array:
        """[groups] to [hidden]: neighbouring channels make a group."""
        return np.repeat(of_groups, self.config.conv_group_size)

    # ---------------------------------------------------------------- selection

    def candidates(self, logits: Array) -> list[list[int]]:
        """The best tokens of each row [n, vocabulary], in the order of their numbers."""
        best = np.argsort(-logits, axis=1, kind="stable")[:, : self.config.selector_top_k]
        return [sorted(row) for row in best.tolist()]

    def edge(self, before: int, projected: Array, candidate: int) -> float:
        """A candidate's gain behind the token `before`: sum over r of A[before]_r x projected_r x B[candidate]_r."""
        a = self.weights["candidate_selector.predecessor_codebook"][before]
        b = self.weights["candidate_selector.successor_codebook"][candidate]
        return sum(float(x * y * z) for x, y, z in zip(a, projected, b, strict=True))

    def projected(self, hidden: Array, row: int) -> Array:
        """[rank] of the row that predicts the candidate."""
        return hidden[row] @ self.weights["candidate_selector.hidden_projection.weight"].T

    def before(self, _anchor: int, chosen: int) -> int:
        """The token that the next row stands behind."""
        return chosen

    def scores(self, hidden: Array, logits: Array, row: int, before: int) -> dict[int, float]:
        """The candidates of one row behind the token `before`."""
        projected = self.projected(hidden, row)
        return {
            token: float(logits[row, token]) + self.edge(before, projected, token)
            for token in self.candidates(logits)[row]
        }

    def select(self, hidden: Array, logits: Array, anchor: int) -> list[int]:
        """The greedy path behind `anchor`, left to right: [n, hidden] rows and their [n, vocabulary] logits."""
        path, before = [], anchor
        for row in range(len(logits)):
            scores = self.scores(hidden, logits, row, before)
            path.append(max(scores, key=lambda token: scores[token]))
            before = self.before(anchor, path[-1])
        return path


# Mistakes that can be made with the convolutions: each has to show.


class CoefficientsOfTheRowBehind(SecondReferenceDraft):
    def coefficient_row(self, row: int, tap: int) -> int:
        return max(row - tap, 0)


class LooksAhead(SecondReferenceDraft):
    def behind(self, rows: Array, row: int, tap: int) -> Array:
        return super().behind(rows[::-1], len(rows) - 1 - row, tap)


class WrapsAround(SecondReferenceDraft):
    def behind(self, rows: Array, row: int, tap: int) -> Array:
        return rows[row - tap]


class FirstRowRepeats(SecondReferenceDraft):
    def behind(self, rows: Array, row: int, tap: int) -> Array:
        return rows[max(row - tap, 0)]


class InterleavedGroups(SecondReferenceDraft):
    def by_channel(self, of_groups: Array) -> Array:
        return np.tile(of_groups, self.config.conv_group_size)


class SidesSwapped(SecondReferenceDraft):
    def convolve(self, name: str, side: int, rows: Array, coefficients: Array) -> Array:
        return super().convolve(name, 1 - side, rows, coefficients)


class TapsSwapped(SecondReferenceDraft):
    def coefficients(self, name: str, normed: Array) -> Array:
        return super().coefficients(name, normed)[:, :, ::-1]


class TapsBeforeSides(SecondReferenceDraft):
    def coefficients(self, name: str, normed: Array) -> Array:
        made = super().coefficients(name, normed)
        return made.reshape(len(made), made.shape[2], 2, -1).swapaxes(1, 2)


class NoOutSide(SecondReferenceDraft):
    def convolve(self, name: str, side: int, rows: Array, coefficients: Array) -> Array:
        return super().convolve(name, side, rows, coefficients) if side == 0 else rows


class OutSideByItsOwnRows(SecondReferenceDraft):
    def leaving_coefficients(self, name: str, _normed: Array, leaving: Array) -> Array:
        return self.coefficients(name, leaving)


class BaseAlone(SecondReferenceDraft):
    def coefficients(self, name: str, normed: Array) -> Array:
        return super().coefficients(name, normed) * 0


class CoefficientsAlone(SecondReferenceDraft):
    def base(self, name: str) -> Array:
        return super().base(name) * 0


class ContextToo(SecondReferenceDraft):
    def context_rows(self, features: Array, layer: int) -> Array:
        rows, name = super().context_rows(features, layer), f"layers.{layer}.attention_conv"
        return self.convolve(name, 0, rows, self.coefficients(name, rows))


CONV_MISTAKES = [
    CoefficientsOfTheRowBehind,
    LooksAhead,
    WrapsAround,
    FirstRowRepeats,
    InterleavedGroups,
    SidesSwapped,
    TapsSwapped,
    TapsBeforeSides,
    NoOutSide,
    OutSideByItsOwnRows,
    BaseAlone,
    CoefficientsAlone,
    ContextToo,
]


# And with the selector.


class AnchorStandsBeforeAll(SecondReferenceDraft):
    def before(self, anchor: int, _chosen: int) -> int:
        return anchor


class CodebooksSwapped(SecondReferenceDraft):
    def edge(self, before: int, projected: Array, candidate: int) -> float:
        return super().edge(candidate, projected, before)


class ProjectsTheRowBehind(SecondReferenceDraft):
    def projected(self, hidden: Array, row: int) -> Array:
        return super().projected(hidden, row - 1)


class NoEdges(SecondReferenceDraft):
    def edge(self, _before: int, _projected: Array, _candidate: int) -> float:
        return 0.0


class NotProjected(SecondReferenceDraft):
    def projected(self, _hidden: Array, _row: int) -> Array:
        return np.ones(self.config.selector_rank)


SELECTOR_MISTAKES = [AnchorStandsBeforeAll, CodebooksSwapped, ProjectsTheRowBehind, NoEdges, NotProjected]
