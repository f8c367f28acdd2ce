"""What memory a pair needs, as a sum that a user can read, against what is free."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
import psutil

from core.formats.draft_config import DraftConfig
from core.formats.draft_tensors import expected_tensors
from core.formats.safetensors_header import TensorFacts
from core.formats.target_config import TargetConfig
from core.pairs.target_rules import text_tensors
from core.units import size

if TYPE_CHECKING:
    from core.settings import Settings

Device = Literal["gpu", "cpu"]
CONTEXTS = (4096, 8192, 32768)
"""Positions for which tables show the need."""
DEFAULT_CONTEXT = 8192

_CACHE_STEP = 256  # mlx-lm's KVCache grows by so many positions
_CHUNK_ROWS = 512  # rows of a prefill pass (core.engine.session)
PROGRAMS_CONTEXT = 2048
"""Positions that a draft sees as programs: a conversation's beginning and its newest part."""
_PREFIX_SHARE = 4  # of the free memory: one part in so many (core.engine.prefix_store)
_PROGRAM_BYTES = 256 * 1024 * 1024
"""Python, MLX, transformers, buffers. Chosen so that the sum is what the worker was measured to use with the demo pair
on Linux: 914 MB at 480 positions (sum 956), 1,086 MB at 2,760 (sum 1,080). Not measured on a Mac."""


class MemoryRow(msgspec.Struct, frozen=True):
    """One line of the sum."""

    what: str
    bytes: int
    how: str
    """How the figure comes about, in words."""


class MemoryLimits(msgspec.Struct, frozen=True):
    """What the user's settings allow."""

    context: int = 0
    """Positions of a conversation; 0 leaves it to the model."""
    prefix_cache_mb: int = 0
    """For earlier conversations, where memory is free."""

    @classmethod
    def of(cls, settings: Settings) -> MemoryLimits:
        """As the settings say."""
        return cls(settings.context_limit, settings.prefix_cache_mb)


class MemorySum(msgspec.Struct, frozen=True):
    """What a pair needs at a context, and what there is."""

    context: int
    """Positions."""
    rows: tuple[MemoryRow, ...]
    free_bytes: int
    """What is free after the pair that is loaded now is unloaded."""
    total_bytes: int
    optional_bytes: int = 0
    """Of the rows: what is used only where it is free."""

    @property
    def needed_bytes(self) -> int:
        """The sum of the rows."""
        return sum(row.bytes for row in self.rows)

    @property
    def fits(self) -> bool:
        """Whether the sum is free. Where not, the pair may still be loaded: the system then swaps or refuses."""
        return self.needed_bytes <= self.free_bytes

    @property
    def verdict(self) -> str:
        """The sum in a sentence."""
        need, free = size(self.needed_bytes), size(self.free_bytes)
        if self.fits:
            return f"Needs {need} of {free} free."
        return f"Needs {need}, {free} are free: {size(self.needed_bytes - self.free_bytes)} too little."


NO_LIMITS = MemoryLimits()


def device_here() -> Device:
    """What MLX works on by default: the GPU on a Mac, the processor elsewhere."""
    return "gpu" if sys.platform == "darwin" else "cpu"


def pair_memory(
    target: TargetConfig,
    draft: DraftConfig | None,
    *,
    tensors: Mapping[str, TensorFacts] | None,
    stored_bytes: int,
    draft_bytes: int = 0,
    context: int = DEFAULT_CONTEXT,
    device: Device | None = None,
    held_bytes: int = 0,
    limits: MemoryLimits = NO_LIMITS,
) -> MemorySum:
    """What a pair needs on a device (default: this machine's) at `context` positions.

    `tensors` are the target's, by its weight files' headers; without them `stored_bytes` stands for their size.
    `draft_bytes` is the stored size of the draft's weights where it is known; without a config they have 16 bits each.
    `held_bytes` is what the pair that is loaded now would give back. `limits` are the user's: the context is no longer
    than they allow, and what they allow for earlier conversations is a row, at most a quarter of what the pair leaves
    free (as core.engine.prefix_store takes it).
    """
    device = device or device_here()
    context = min(context, limits.context or context)
    weights = resident_bytes(tensors, device) if tensors else _resident(stored_bytes, target, device)
    memory = psutil.virtual_memory()
    free = min(memory.available + held_bytes, memory.total)
    rows = list(_rows(target, draft, weights, draft_bytes, context, device))
    left = max(free - sum(row.bytes for row in rows), 0)
    earlier = min(limits.prefix_cache_mb * 1_000_000, left // _PREFIX_SHARE)
    if limits.prefix_cache_mb:
        how = f"at most {limits.prefix_cache_mb:,} MB, and a quarter of what is left free"
        rows.append(MemoryRow("earlier conversations", earlier, how))
    return MemorySum(context, tuple(rows), free, memory.total, earlier)


def resident_bytes(tensors: Mapping[str, TensorFacts], device: Device) -> int:
    """What a target's tensors take once loaded: on a processor everything that is not packed becomes float32."""
    kept = text_tensors(tensors).values()
    if device == "gpu":
        return sum(tensor.bytes for tensor in kept)
    return sum(tensor.bytes if tensor.dtype in ("U32", "U8") else 4 * math.prod(tensor.shape) for tensor in kept)


def cache_bytes(target: TargetConfig, context: int, value_bytes: int) -> int:
    """K and V of `context` positions in all layers that keep them.

    2 x kv heads x head dim x positions a layer; sliding layers keep their window, and during prefill the pass's rows.
    Where a model's layers are not known, all are taken to keep everything.
    """
    kinds = target.layer_kinds or ("full",) * target.num_hidden_layers
    window = min(context, (target.sliding_window or context) + _CHUNK_ROWS)
    positions = sum({"full": _stepped(context), "sliding": _stepped(window), "recurrent": 0}[kind] for kind in kinds)
    return 2 * target.num_key_value_heads * target.head_dim * value_bytes * positions


def state_bytes(target: TargetConfig, value_bytes: int) -> int:
    """What recurrent layers keep, however long the text is: a float32 state and the convolution's last inputs."""
    layers = (target.layer_kinds or ()).count("recurrent")
    return layers * (4 * target.state_values + value_bytes * target.convolution_values)


def draft_values(draft: DraftConfig) -> int:
    """Parameters of the draft."""
    return sum(math.prod(shape) for shape in expected_tensors(draft).values())


def program_bytes(draft: DraftConfig) -> int:
    """Weights of the draft's prepared programs: 8 bits, fc in half precision; fc, Wk and Wv are in both `ingest`s.

    The candidate selector is in none of them.
    """
    tensors = expected_tensors(draft).items()
    shapes = {name: shape for name, shape in tensors if not name.startswith("candidate_selector.")}
    fc = math.prod(shapes["fc.weight"])
    keys_values = sum(math.prod(s) for name, s in shapes.items() if name.endswith(("k_proj.weight", "v_proj.weight")))
    return sum(math.prod(shape) for shape in shapes.values()) - fc + 2 * (2 * fc + keys_values)


def _rows(
    target: TargetConfig, draft: DraftConfig | None, weights: int, draft_bytes: int, context: int, device: Device
) -> Iterator[MemoryRow]:
    value_bytes = 2 if device == "gpu" else 4
    yield MemoryRow("target weights", weights, "as stored" if device == "gpu" else "float32 unless packed")
    how = f"{context:,} positions" + ("" if target.layer_kinds else ", at most")
    yield MemoryRow("target cache", cache_bytes(target, context, value_bytes), how)
    if state := state_bytes(target, value_bytes):
        yield MemoryRow("target state", state, "however long the text is")
    values = draft_values(draft) if draft else draft_bytes // 2
    if values:
        size = draft_bytes if device == "gpu" and draft_bytes else values * value_bytes  # packed ones stay packed there
        yield MemoryRow("draft weights", size, f"{values / 1e6:,.0f} M values")
    if draft is not None:
        keys = 2 * draft.num_key_value_heads * draft.head_dim * draft.num_hidden_layers
        yield MemoryRow("draft cache", keys * value_bytes * _stepped(context), f"{context:,} positions")
        programs = program_bytes(draft) + 2 * keys * PROGRAMS_CONTEXT
        yield MemoryRow("draft programs", programs, f"8-bit weights, {PROGRAMS_CONTEXT:,} positions")
    yield MemoryRow("working space", _working_bytes(target, draft, value_bytes), f"a pass of {_CHUNK_ROWS} tokens")
    yield MemoryRow("the program itself", _PROGRAM_BYTES, "Python and MLX")


def _working_bytes(target: TargetConfig, draft: DraftConfig | None, value_bytes: int) -> int:
    """Arrays of a prefill pass: the residual stream, an MLP's three, the taps; and logits of a block, with a copy."""
    taps = len(draft.target_layer_ids) if draft else 0
    channels = (4 + taps) * target.hidden_size + 3 * max(target.intermediate_size, target.hidden_size)
    rows = draft.block_size if draft else 1
    return _CHUNK_ROWS * channels * value_bytes + 2 * rows * target.vocab_size * 4


def _resident(stored_bytes: int, target: TargetConfig, device: Device) -> int:
    """Unquantised weights double on a processor."""
    return stored_bytes * 2 if target.quantization is None and device == "cpu" else stored_bytes


def _stepped(positions: int) -> int:
    return -(-positions // _CACHE_STEP) * _CACHE_STEP
