"""What a draft's weight files must hold, by its config; what is wrong with others is said by name."""

from __future__ import annotations

import math

import pytest

from core.formats.draft_config import parse_draft_config
from core.formats.draft_tensors import Packing, packing_of, parts_of, tensor_problem
from core.formats.safetensors_header import TensorFacts
from helpers.published import published, tensors

SECOND, BIASED = published("qwen3.8-27b")["draft"], published("gpt-oss-20b")["draft"]
"""What the first generation without biases does not have."""


@pytest.mark.parametrize("fixture", [SECOND, BIASED], ids=["second generation", "biases"])
def test_one_tensor_that_is_missing_or_too_large_is_named(fixture):
    config, header = parse_draft_config(fixture["config"], "x"), tensors(fixture["tensors"])
    assert tensor_problem(config, header) == ""
    for name, tensor in header.items():
        without = {other: facts for other, facts in header.items() if other != name}
        problem = f"The draft's tensor {name} is missing: {len(without)} tensors are there, {len(header)} are wanted."
        assert tensor_problem(config, without) == problem
        shape = (*tensor.shape[:-1], tensor.shape[-1] + 1)
        larger = header | {name: TensorFacts("BF16", shape, 2 * math.prod(shape))}
        assert f"tensor {name} has the shape {list(shape)}, wanted is" in tensor_problem(config, larger)
    more = header | {"lm_head.weight": TensorFacts("BF16", (), 2)}
    assert tensor_problem(config, more) == "The draft's tensor lm_head.weight is none that a DFlash draft has."


def test_parts_of_the_second_generation_are_none_of_the_first():
    config = parse_draft_config({**SECOND["config"], "architectures": ["DFlashDraftModel"]}, "x")
    problem = tensor_problem(config, tensors(SECOND["tensors"]))
    assert problem == (
        "The draft's tensor candidate_selector.hidden_projection.weight is none that a DFlash draft has."
    )


def packed_header(fixture, bits=4, group=64):
    """The published header as MLX's quantiser would leave it."""
    found = {}
    for name, tensor in tensors(fixture["tensors"]).items():
        if len(tensor.shape) == 2 and name.endswith(".weight"):
            rows, columns = tensor.shape
            found[name] = TensorFacts("U32", (rows, columns * bits // 32), rows * columns * bits // 8)
            for part in parts_of(name):
                found[part] = TensorFacts("BF16", (rows, columns // group), 2 * rows * columns // group)
        else:
            found[name] = tensor
    return found


@pytest.mark.parametrize(("bits", "group"), [(4, 64), (8, 64), (6, 32), (3, 128), (5, 32), (2, 64)])
def test_packed_matrices_of_a_published_draft_are_read(bits, group):
    config, header = parse_draft_config(SECOND["config"], "x"), packed_header(SECOND, bits, group)
    assert tensor_problem(config, header) == ""
    fc = "fc.weight"
    packing = packing_of((5120, 25600), header[fc].shape, header["fc.scales"].shape)
    assert packing == Packing(bits, group)


PACKED_WRONGLY = {
    "no biases, as mxfp4": ("fc.biases", None, "is packed, but fc.biases is missing"),
    "scales of another type": ("fc.scales", TensorFacts("U8", (5120, 400), 1), "fc.scales is stored as U8"),
    "fewer scales": ("fc.scales", TensorFacts("BF16", (5120, 100), 1), "which no quantisation of [5120, 25600] has"),
    "seven bits": ("fc.weight", TensorFacts("U32", (5120, 5600), 1), "which no quantisation of [5120, 25600] has"),
    "other rows": ("fc.weight", TensorFacts("U32", (5121, 3200), 1), "which no quantisation of [5120, 25600] has"),
    "a norm": (
        "norm.weight",
        TensorFacts("U32", (640,), 1),
        "norm.weight is stored as U32; BF16, F16, F32 can be",
    ),
    "a codebook": (
        "candidate_selector.predecessor_codebook",
        TensorFacts("U32", (248320, 32), 1),
        "predecessor_codebook is stored as U32",
    ),
    "scales of a matrix that is not packed": (
        "fc.weight",
        TensorFacts("BF16", (5120, 25600), 1),
        "The draft's tensor fc.biases is none that a DFlash draft has",
    ),
}


@pytest.mark.parametrize("case", PACKED_WRONGLY)
def test_matrices_packed_in_another_way_are_refused_with_the_reason(case):
    name, tensor, reason = PACKED_WRONGLY[case]
    header = {**packed_header(SECOND), name: tensor}
    header = {name: tensor for name, tensor in header.items() if tensor is not None}
    assert reason in tensor_problem(parse_draft_config(SECOND["config"], "x"), header)
