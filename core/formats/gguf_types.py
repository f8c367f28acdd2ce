"""The types of tensors in GGUF files, by ggml's numbers."""

from __future__ import annotations

BLOCKS = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}
"""Supported tensor types: (values, bytes) of a block."""
QUANTISED_BITS = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q4_K": 4, "Q5_K": 5, "Q6_K": 6}
"""Bits of the quantised ones; the others are whole numbers of bytes a value."""
NAMES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    30: "BF16",
}
OTHER_NAMES = {10: "Q2_K", 11: "Q3_K", 16: "IQ2_XXS", 18: "IQ3_XXS", 20: "IQ4_NL", 23: "IQ4_XS"}
"""Common ones that cannot be run, for the error; the others go by their number."""
MOST = 63
"""No type has a higher number."""
