"""The candidate selector of DFlash 2 (z-lab/dflash): which of a row's best tokens goes with the token before it."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
from mlx import nn

from core.formats.draft_config import DraftConfig


@dataclass(frozen=True)
class Candidates:
    """The best tokens of n consecutive positions. Their scores depend on the token that stands before them."""

    anchor: mx.array
    """[1]: the token before the first position."""
    tokens: mx.array
    """[n, k], in no order."""
    logits: mx.array
    """[n, k], float32."""
    rows: mx.array
    """[n, rank], float32: what the position gives the score."""
    predecessors: mx.array
    """[vocabulary, rank]."""
    successors: mx.array
    """[vocabulary, rank]."""

    def __len__(self) -> int:
        return int(self.tokens.shape[0])

    def scores(self, row: int, before: mx.array) -> mx.array:
        """[1, k]: logit + sum over r of A[before]_r x rows_r x B[candidate]_r, for the token `before` ([1])."""
        context = self.predecessors[before].astype(mx.float32) * self.rows[row : row + 1]
        return self.logits[row : row + 1] + context @ self.successors[self.tokens[row]].astype(mx.float32).T


Said = mx.array | Candidates
"""What a draft says of n consecutive positions: logits [n, vocabulary] of each on its own; in the second generation,
candidates.
"""


class CandidateSelector(nn.Module):
    """Codebooks of predecessors (A) and successors (B), and a projection of the draft's rows that weights them."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self._top_k = config.selector_top_k
        codebook = (config.vocab_size, config.selector_rank)
        self.predecessor_codebook = mx.zeros(codebook)
        self.successor_codebook = mx.zeros(codebook)
        self.hidden_projection = nn.Linear(config.hidden_size, config.selector_rank, bias=False)

    def candidates(self, hidden: mx.array, logits: mx.array, anchor: mx.array) -> Candidates:
        """Of n positions behind `anchor` ([1]), from their [n, hidden] rows after the final norm and [n, vocabulary]
        logits.
        """
        tokens = mx.argpartition(logits, -self._top_k, axis=-1)[:, -self._top_k :]
        return Candidates(
            anchor,
            tokens,
            mx.take_along_axis(logits, tokens, axis=-1).astype(mx.float32),
            self.hidden_projection(hidden).astype(mx.float32),
            self.predecessor_codebook,
            self.successor_codebook,
        )
