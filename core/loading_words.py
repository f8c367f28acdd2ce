"""A pair's preparation in words: the parts that it has, the stages of a program."""

from __future__ import annotations

from core.protocol import LoadPart

PART_WORDS: dict[LoadPart, str] = {
    "target": "reading the target",
    "draft": "reading the draft",
    "programs": "preparing the draft's programs",
    "plain": "measuring plain decoding",
    "costs": "measuring what steps cost",
    "check": "checking answers against plain decoding",
}
STAGE_WORDS = {
    "hash": "reading its weights",
    "wait": "waiting for another program that prepares it",
    "quantise": "rounding weights",
    "build": "building",
    "write": "writing",
    "compile": "compiling",
    "seal": "keeping",
    "done": "ready",
}
"""By `KernelProgress.stage`."""
