"""The tensors that a DFlash draft's weight files must hold, and what is wrong with those that do.

Matrices of linear layers may be packed as MLX's affine quantisation has them: `X.weight` (U32, [rows, columns x bits /
32]), `X.scales` and `X.biases` ([rows, columns / group]) instead of one matrix `X.weight` [rows, columns].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.formats.draft_config import DraftConfig
from core.formats.quantization import MODES
from core.formats.safetensors_header import TensorFacts
from core.formats.values import shown

Shape = tuple[int, ...]
STORED = ("BF16", "F16", "F32")
"""Types of tensors that are not packed."""
PACKED = "U32"
_BITS, _GROUPS = MODES["affine"]


@dataclass(frozen=True)
class Packing:
    """How the values of a packed matrix are kept: value = scale x stored + bias, one of each for a group of a row."""

    bits: int
    group_size: int


def expected_tensors(config: DraftConfig) -> dict[str, Shape]:
    """The shape of every tensor by name, where none is packed."""
    hidden = config.hidden_size
    shapes: dict[str, Shape] = {
        "fc.weight": (hidden, len(config.target_layer_ids) * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    of_layer = _layer_tensors(config)
    for layer in range(config.num_hidden_layers):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in of_layer.items()}
    if config.selector_rank:
        codebook = (config.vocab_size, config.selector_rank)
        shapes["candidate_selector.predecessor_codebook"] = codebook
        shapes["candidate_selector.successor_codebook"] = codebook
        shapes["candidate_selector.hidden_projection.weight"] = (config.selector_rank, hidden)
    return shapes


def _layer_tensors(config: DraftConfig) -> dict[str, Shape]:
    hidden, inner, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim
    projections = {"q_proj": (q, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, q)}
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        **{f"self_attn.{name}.weight": shape for name, shape in projections.items()},
        "self_attn.q_norm.weight": (head_dim,),
        "self_attn.k_norm.weight": (head_dim,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.attention_bias:
        shapes |= {f"self_attn.{name}.bias": shape[:1] for name, shape in projections.items()}
    if config.conv_kernel_size:
        taps, groups = config.conv_kernel_size, hidden // config.conv_group_size
        for name in ("attention_conv", "mlp_conv"):
            shapes[f"{name}.base_kernel"] = (2, taps, hidden)
            shapes[f"{name}.kernel_projection.weight"] = (2 * taps * groups, hidden)
    return shapes


def packing_of(shape: Shape, weight: Shape, scales: Shape) -> Packing | None:
    """How a matrix of `shape` is packed into a weight and scales of these shapes; None where it is not."""
    rows, columns = shape
    if len(weight) != 2 or len(scales) != 2 or not weight[0] == scales[0] == rows or not scales[1]:
        return None
    packing = Packing(weight[1] * 32 // columns, columns // scales[1])
    exact = packing.bits * columns == weight[1] * 32 and packing.group_size * scales[1] == columns
    return packing if exact and packing.bits in _BITS and packing.group_size in _GROUPS else None


def tensor_problem(config: DraftConfig, held: Mapping[str, TensorFacts]) -> str:
    """What keeps tensors from being this draft's, as one sentence; empty where nothing does."""
    expected, known = expected_tensors(config), set[str]()
    for name, shape in expected.items():
        if name not in held:
            return f"The draft's tensor {name} is missing: {len(held)} tensors are there, {len(expected)} are wanted."
        packed = held[name].dtype == PACKED and len(shape) == 2 and name.endswith(".weight")
        if problem := _packed_problem(name, shape, held) if packed else _plain_problem(shape, held[name]):
            return f"The draft's tensor {name} {problem}."
        known |= {name, *parts_of(name)} if packed else {name}
    extra = sorted(held.keys() - known)
    return f"The draft's tensor {extra[0][:80]} is none that a DFlash draft has." if extra else ""


def parts_of(name: str) -> tuple[str, str]:
    """The names of scales and biases of the packed matrix `name`."""
    module = name.removesuffix(".weight")
    return f"{module}.scales", f"{module}.biases"


def _plain_problem(shape: Shape, held: TensorFacts) -> str:
    if held.dtype not in STORED:
        return f"is stored as {held.dtype[:20]}; {', '.join(STORED)} can be read"
    if held.shape != shape:
        return f"has the shape {shown(list(held.shape))}, wanted is {list(shape)}"
    return ""


def _packed_problem(name: str, shape: Shape, held: Mapping[str, TensorFacts]) -> str:
    parts = [held.get(part) for part in parts_of(name)]
    for part, facts in zip(parts_of(name), parts, strict=True):
        if facts is None:
            return f"is packed, but {part} is missing: only MLX's affine quantisation can be read"
        if facts.dtype not in STORED:
            return f"is packed, but {part} is stored as {facts.dtype[:20]}; {', '.join(STORED)} can be read"
    scales, biases = (facts.shape for facts in parts if facts is not None)
    if scales != biases or packing_of(shape, held[name].shape, scales) is None:
        shapes = ", ".join(shown(list(each)) for each in (held[name].shape, scales, biases))
        return f"is packed with the shapes {shapes}, which no quantisation of {list(shape)} has"
    return ""
