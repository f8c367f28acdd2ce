"""The dynamic convolutions of DFlash 2, around each layer's attention and MLP (z-lab/dflash)."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
from mlx import nn

from core.formats.draft_config import DraftConfig


class DynamicConv(nn.Module):
    """A causal convolution over the rows of a block, once on what enters a sublayer and once on what leaves it.

    out_t = sum over taps of (base[side, tap] + coefficient_t[side, tap, group]) x in_{t - tap}, zero before the block:
    a base of each channel, and coefficients that channels of a group share and that row t itself gives.
    """

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self._taps = config.conv_kernel_size
        self._groups = config.hidden_size // config.conv_group_size
        self.base_kernel = mx.zeros((2, self._taps, config.hidden_size))
        self.kernel_projection = nn.Linear(config.hidden_size, 2 * self._taps * self._groups, bias=False)

    def __call__(self, rows: mx.array, sublayer: Callable[[mx.array], mx.array]) -> mx.array:
        """[b, n, hidden] normed rows to what is added to the stream, [b, n, hidden]. Both sides take their
        coefficients from `rows`.
        """
        coefficients = self.kernel_projection(rows).reshape(*rows.shape[:2], 2, self._taps, self._groups, 1)
        entering = self._convolve(rows, coefficients[:, :, 0], self.base_kernel[0])
        return self._convolve(sublayer(entering), coefficients[:, :, 1], self.base_kernel[1])

    def _convolve(self, rows: mx.array, coefficients: mx.array, base: mx.array) -> mx.array:
        """[b, n, hidden] by coefficients [b, n, taps, groups, 1] and a base [taps, hidden]."""
        grouped = rows.reshape(*rows.shape[:2], self._groups, -1)
        total = mx.zeros_like(grouped)
        for tap in range(self._taps):
            kernel = base[tap].reshape(self._groups, -1) + coefficients[:, :, tap]
            behind = mx.pad(grouped, [(0, 0), (tap, 0), (0, 0), (0, 0)])[:, : rows.shape[1]]
            total = total + kernel * behind
        return total.reshape(rows.shape)
