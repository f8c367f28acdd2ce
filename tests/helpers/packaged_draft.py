"""A draft's packages, run in numpy beside the MLX draft that they were built from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

import ane
from core.engine.drafter_mlx import DFlashDraft
from core.formats.draft_config import DraftConfig
from helpers.mil import Arrays, Package

MASKED = -30000.0


class PackagedDraft:
    """The programs of one draft folder, and the context keys and values that they made."""

    def __init__(self, folder: Path, out: Path, config: DraftConfig, **options: Any) -> None:
        self.report = ane.build_packages(folder, out, **options)
        self.config = config
        self.context = int(options["context"])
        self.width = int(options["width"])
        packages = {package.program: Package(package.path) for package in self.report.packages}
        self._ingest = {rows: packages[f"ingest_r{rows}"] for rows in (32, 256)}
        self.layers = [
            packages[f"layer{layer}_w{self.width}_c{self.context}"] for layer in range(config.num_hidden_layers)
        ]
        shape = (config.num_hidden_layers, 1, config.num_key_value_heads, config.head_dim, self.context)
        self.keys, self.values = np.zeros(shape, np.float16), np.zeros(shape, np.float16)
        self.positions = 0

    def ingest(self, taps: Sequence[Any], cos: Any, sin: Any) -> None:
        """Append rows: [n, hidden] a tap, tables [n, head dim / 2]."""
        for first in range(0, len(cos), 32):
            here = slice(first, first + 32)
            keys, values = self._keys_values([tap[here] for tap in taps], cos[here], sin[here], 32)
            slots = slice(self.positions, self.positions + keys.shape[-1])
            self.keys[..., slots], self.values[..., slots] = keys, values
            self.positions = slots.stop

    def prefill(self, taps: Sequence[Any], cos: Any, sin: Any) -> tuple[Any, Any]:
        """Keys and values of up to 256 rows by the program for prompts, not appended."""
        return self._keys_values(taps, cos, sin, 256)

    def _keys_values(self, taps: Sequence[Any], cos: Any, sin: Any, width: int) -> tuple[Any, Any]:
        """[layers, 1, kv heads, head dim, n] each."""
        rows = len(cos)
        scales = [[ane.tap_scale(float(max(abs(tap[row]).max() for tap in taps)))] for row in range(rows)]
        scale = np.array(scales, np.float32)
        inputs = {f"tap{i}": columns(tap * scale, width) for i, tap in enumerate(taps)}
        tables = {"cos": table(cos, width), "sin": table(sin, width)}
        made = self._ingest[width].run(**inputs, **tables, tap_scale=columns(scale, width))
        layers = range(self.config.num_hidden_layers)
        keys, values = ([made[f"{kind}{layer}"][..., :rows] for layer in layers] for kind in ("keys", "values"))
        return np.stack(keys), np.stack(values)

    def mask(self, layer: int, rows: int) -> Any:
        """[1, 1, context + width, width]: what the `rows` real queries may look at, from positions alone."""
        query = self.positions + np.arange(self.width)
        key = np.concatenate([np.arange(self.context), query])
        real = np.concatenate([np.arange(self.context) < self.positions, np.arange(self.width) < rows])
        seen = np.broadcast_to(real[:, None], (len(key), self.width)).copy()
        if self.config.sliding(layer):
            seen &= abs(query[None] - key[:, None]) < (self.config.sliding_window or 0)
        if self.config.causal(layer):
            seen &= key[:, None] <= query[None]
        return np.where(seen, 0.0, MASKED).astype(np.float16)[None, None]

    def previous(self, rows: int) -> Any:
        """[1, 1, width, width]: each of the `rows` real columns stands right before the next."""
        matrix = np.zeros((self.width, self.width), np.float16)
        matrix[np.arange(rows - 1), np.arange(1, rows)] = 1
        return matrix[None, None]

    def run_layer(self, layer: int, rows: Any, cos: Any, sin: Any, padding: float = 0.0) -> Arrays:
        """All values of the layer's program for block rows [n, hidden]."""
        second = {"previous": self.previous(len(rows))} if self.config.conv_kernel_size else {}
        return self.layers[layer].run(
            **second,
            x=columns(rows, self.width, padding),
            context_keys=self.keys[layer],
            context_values=self.values[layer],
            cos=table(cos, self.width),
            sin=table(sin, self.width),
            mask=self.mask(layer, len(rows)),
        )


class MlxTwin:
    """The MLX draft in float32 with its caches."""

    def __init__(self, draft: DFlashDraft) -> None:
        self.draft = draft
        self.caches = [KVCache() for _ in draft.layers]

    def tables(self, first: int, rows: int) -> tuple[Any, Any]:
        """[rows, head dim / 2] each: what its rotary embedding makes of 1 + 0i."""
        half = self.draft.config.head_dim // 2
        unit = mx.concatenate([mx.ones((1, 1, rows, half)), mx.zeros((1, 1, rows, half))], axis=-1)
        turned = np.array(self.draft.rope(unit, offset=first))[0, 0]
        return turned[:, :half], turned[:, half:]

    def ingest(self, taps: Sequence[Any]) -> None:
        """Append rows: [n, hidden] a tap."""
        self.draft.ingest([mx.array(tap) for tap in taps], self.caches)

    def layer_outputs(self, rows: Any) -> list[Any]:
        """The residual stream [n, hidden] before the first layer and after each."""
        stream = [rows]
        for layer, view in zip(self.draft.layers, self.draft.views(self.caches), strict=True):
            stream.append(np.array(layer(mx.array(stream[-1])[None], self.draft.rope, view)[0]))
        return stream


def columns(rows: Any, width: int, padding: float = 0.0) -> Any:
    """[n, channels] to [1, channels, 1, width] in half precision."""
    filled = np.full((width, rows.shape[1]), padding, np.float32)
    filled[: len(rows)] = rows
    return filled.T[None, :, None].astype(np.float16)


def table(rows: Any, width: int) -> Any:
    """[n, half] to [1, 1, half, width] in half precision."""
    return columns(rows, width).swapaxes(1, 2)


def relative_error(got: Any, expected: Any) -> float:
    """Frobenius norm of the difference over that of `expected`."""
    difference = np.asarray(got, np.float32) - np.asarray(expected, np.float32)
    return float(np.linalg.norm(difference) / np.linalg.norm(np.asarray(expected, np.float32)))


def layer_errors(packaged: PackagedDraft, twin: MlxTwin, block: Any) -> list[float]:
    """By layer: the relative error of what it adds to its input, each fed with the MLX draft's stream."""
    cos, sin = twin.tables(packaged.positions, len(block))
    stream = twin.layer_outputs(block)
    errors = []
    for layer in range(len(packaged.layers)):
        values = packaged.run_layer(layer, stream[layer], cos, sin)
        name = "y" if "y" in values else "mlp_residual_add"
        got = values[name][0, :, 0, : len(block)].T.astype(np.float32) - stream[layer].astype(np.float16)
        errors.append(relative_error(got, stream[layer + 1] - stream[layer]))
    return errors
