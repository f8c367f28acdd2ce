"""A model that nobody here made: Gemma 3 270M, K-quants and all, from the packages of the group `gemma`."""

from __future__ import annotations

import math
from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn

from core.bench.local_models import gemma_file
from core.bench.lookup import prompt_of
from core.bench.lookup_tasks import TASKS
from core.engine.decode import Limits
from core.engine.loader import LoadedPair, load_pair_now
from core.engine.measure import decode_anew
from core.engine.step_figures import tokens_of
from core.formats.gguf_header import read_gguf
from core.pairs import Pair
from core.protocol import GenerateOptions
from helpers import gguf_gemma

pytestmark = pytest.mark.slow

ENGLISH = (Path(__file__).parent / "data" / "english.txt").read_text()
TEXTBOOK = (
    "Plants need sunlight, water and air to grow. In photosynthesis, the leaves of a plant take in carbon dioxide from "
    "the air and water from the soil. Using the energy of sunlight, the plant turns them into sugar and oxygen. The "
    "sugar feeds the plant, and the oxygen is released into the air. This is why forests are sometimes called the "
    "lungs of the Earth. Without plants, animals and people would have no oxygen to breathe."
)


@pytest.fixture(scope="module")
def gemma() -> LoadedPair:
    return load_pair_now(Pair("Gemma 3 270M", str(gemma_file()), None))


def ids_of(gemma: LoadedPair, text: str) -> list[int]:
    return [*gemma.tokenizer.first_ids, *gemma.tokenizer.encode(text, parse_special=False)]


# Measured 50.1 and 7.26. Bands are 5 % wide: with the global RoPE base in sliding layers it is 9.98 instead of 7.26.
@pytest.mark.parametrize(("text", "expected"), [(ENGLISH, 50.1), (TEXTBOOK, 7.26)], ids=["fiction", "textbook"])
def test_perplexity_of_english_is_that_of_a_sound_model(gemma: LoadedPair, text: str, expected: float) -> None:
    tokens = mx.array(ids_of(gemma, text))[None]
    loss = nn.losses.cross_entropy(gemma.target.model(tokens[:, :-1]), tokens[:, 1:], reduction="mean")
    assert 0.95 * expected < math.exp(loss.item()) < 1.05 * expected


@pytest.mark.parametrize(
    ("beginning", "wanted"),
    [
        ("Romeo and Juliet was written by William", " Shakespeare"),
        ("Monday, Tuesday, Wednesday, Thursday,", " Friday, Saturday, Sunday"),
        ("The Eiffel Tower is in the city of", " Paris"),
        ("def add(a, b):\n    return a", " + b"),
    ],
)
def test_texts_go_on_with_sense(gemma: LoadedPair, beginning: str, wanted: str) -> None:
    steps = decode_anew(gemma, ids_of(gemma, beginning), "plain", Limits(6, frozenset(), 1))
    assert gemma.tokenizer.decode(tokens_of(steps)).startswith(wanted)


def test_its_tokens_are_those_of_sentencepiece(gemma: LoadedPair) -> None:
    metadata = read_gguf(gemma_file()).metadata
    columns = (metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    theirs = gguf_gemma.sentencepiece(zip(*columns, strict=True), space_before=False)
    texts = [ENGLISH, *(task.beginning for task in TASKS), "naïve café — 你好 🤖 ⠿ مرحبا नमस्ते привет\t\tмир   \n\n\n"]
    for text in texts:
        assert gemma.tokenizer.encode(text, parse_special=False) == theirs.encode(text)


@pytest.mark.parametrize(
    "options", [GenerateOptions(), GenerateOptions(temperature=0.7, seed=5)], ids=["greedy", "seeded"]
)
def test_prompt_lookup_and_auto_give_the_plain_text(gemma: LoadedPair, options: GenerateOptions) -> None:
    assert gemma.modes == ("plain", "lookup", "auto")
    limits = Limits(32, gemma.tokenizer.eos_ids, gemma.most_rows)
    accepted = 0
    for task in (TASKS[0], TASKS[3]):
        answers = {mode: decode_anew(gemma, prompt_of(gemma, task), mode, limits, options) for mode in gemma.modes}
        assert len({tokens_of(steps) for steps in answers.values()}) == 1
        accepted += sum(step.accepted for step in answers["lookup"])
    assert accepted > 0
