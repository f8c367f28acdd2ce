"""The drafter that runs a draft's programs: it proposes what the MLX drafter does, and either can take over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import ane
from core.bench.prompts import PROMPTS
from core.engine.context import DraftContext
from core.engine.decode import Limits, decode
from core.engine.drafter import Drafter
from core.engine.drafter_ane import AneDrafter
from core.engine.drafter_mlx import MlxDrafter
from core.engine.prompt import render_prompt
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import SerialSource
from core.pairs import demo_pair
from core.protocol import ChatMessage, GenerateOptions
from helpers.decoding import run, serial_source
from helpers.packaged_draft import relative_error
from helpers.random_drafts import SECOND, mlx_draft, random_weights, write_draft
from helpers.tiny import VOCABULARY, tiny_config, tiny_target

CLOSE = 1e-2
"""Relative error of a small draft's logits in fp16."""
CONTEXT = 512


KINDS: dict[str, dict[str, Any]] = {
    "first generation": {},
    "second": {
        **SECOND,
        "selector_top_k": VOCABULARY,
        "layer_types": ("sliding_attention",) * 2,
        "sliding_window": 60,
        "is_causal": False,
    },
    "biases": {"attention_bias": True},
}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def drafters(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, AneDrafter]:
    """One draft of a tiny target in MLX and as programs."""
    target, config = tiny_target(), tiny_config(**request.param)
    weights = random_weights(config)
    folder = write_draft(tmp_path_factory.mktemp("draft") / "tiny", config, weights)
    in_mlx = MlxDrafter(mlx_draft(config, weights), target)
    target.set_taps(config.target_layer_ids)
    programs = ane.CpuRuntime(threads=1).load(folder, precision="fp16", width=16, context=CONTEXT)
    return in_mlx, AneDrafter(folder, programs, target, in_mlx.draft.selector)


def taps(drafter: Any, count: int) -> list[mx.array]:
    target = drafter._target
    tokens = mx.array([(17 * i) % 90 for i in range(1, count + 1)])
    return list(target.forward(tokens, target.make_cache()).taps)


def context_of(drafter: Drafter) -> DraftContext:
    return DraftContext(drafter.config.num_hidden_layers)


def logits(drafter: Drafter, context: DraftContext, rows: int = 5) -> Any:
    """[rows, vocabulary]: what a row says of each token; of candidates, the score behind the token 7.

    Which tokens are the last candidates may differ by a digit, so all are candidates here.
    """
    said = drafter.propose(mx.array([7], dtype=mx.uint32), context, rows)
    if isinstance(said, mx.array):
        return np.array(said)
    scores = np.concatenate([np.array(said.scores(row, mx.array([7]))) for row in range(rows)])
    return np.take_along_axis(scores, np.argsort(np.array(said.tokens), axis=1), axis=1)


def test_it_proposes_what_the_mlx_drafter_does(drafters: Any) -> None:
    in_mlx, programs = drafters
    contexts = [context_of(in_mlx), context_of(in_mlx)]
    rows = taps(in_mlx, 60)
    for first, last in ((0, 1), (1, 4), (4, 60)):
        for context in contexts:
            context.queue([tap[first:last] for tap in rows])
        got, expected = logits(programs, contexts[1]), logits(in_mlx, contexts[0])
        assert got.shape == expected.shape == (5, 96)
        assert relative_error(got, expected) <= CLOSE


def test_each_may_take_over_from_the_other_at_any_step(drafters: Any) -> None:
    in_mlx, programs = drafters
    shared, alone = context_of(in_mlx), context_of(in_mlx)
    rows, length = taps(in_mlx, 90), 0
    for step, drafter in enumerate([programs, in_mlx, in_mlx, programs, programs, in_mlx, programs]):
        for context in (shared, alone):
            context.queue([tap[length : length + 7] for tap in rows])
        length += 7
        if step % 3 == 2:  # taken back: both must forget
            length -= 4
            shared.trim_to(length)
            alone.trim_to(length)
        assert relative_error(logits(drafter, shared), logits(in_mlx, alone)) <= CLOSE
        assert shared.length == shared.ingested == length


def test_mlx_gets_also_what_the_programs_no_longer_see(drafters: Any) -> None:
    in_mlx, programs = drafters
    shared, alone = context_of(in_mlx), context_of(in_mlx)
    target = in_mlx._target
    for start in range(0, 1000, 250):
        tokens = mx.array([(start + 13 * i) % 90 for i in range(250)])
        rows = target.forward(tokens, target.make_cache()).taps
        shared.queue(rows)
        alone.queue(rows)
        programs.ingest(shared)
    assert shared.ingested == 1000 > CONTEXT
    assert relative_error(logits(in_mlx, shared), logits(in_mlx, alone)) <= CLOSE


def test_decoding_with_it_gives_the_plain_text(drafters: Any) -> None:
    in_mlx, programs = drafters
    target = in_mlx._target
    for prompt in ([3, 5, 7], [11, 2, 60, 61, 62]):
        plain = run(target, None, prompt)
        drafted = run(target, programs, prompt, serial_source(programs))
        assert drafted.tokens == plain.tokens
        assert drafted.steps[1].proposals


def test_another_drafts_programs_are_refused(drafters: Any, tmp_path: Path) -> None:
    _, programs = drafters
    config = tiny_config(intermediate_size=32, hidden_size=16)
    other = write_draft(tmp_path / "other", config, random_weights(config))
    with pytest.raises(ane.AneError, match="not this draft's"):
        AneDrafter(other, programs.programs, programs._target)


def test_programs_of_one_generation_are_not_the_others(tmp_path: Path) -> None:
    first, second = tiny_config(), tiny_config(**SECOND)
    folders = [
        write_draft(tmp_path / name, config, random_weights(config))
        for name, config in (("first", first), ("second", second))
    ]
    runtime, target = ane.CpuRuntime(), tiny_target()
    for folder, other in (folders, folders[::-1]):
        programs = runtime.load(folder, precision="fp16", width=16, context=CONTEXT)
        with pytest.raises(ane.AneError, match="not this draft's"):
            AneDrafter(other, programs, target)


def tokens_per_step(loaded: Any, drafter: Drafter, prompts: list[tuple[int, ...]]) -> tuple[float, list[list[int]]]:
    tokens, steps, texts = 0, 0, []
    for prompt in prompts:
        session = Session(loaded.target, drafter)
        sampler = Sampler(GenerateOptions(), loaded.target.vocab_size)
        for _ in session.prefill(prompt, lambda: False):
            pass
        source = SerialSource(session, drafter, sampler)
        done = list(decode(session, prompt[-1], source, sampler, Limits(48, loaded.tokenizer.eos_ids, 8)))
        texts.append([token for step in done for token in step.tokens])
        tokens, steps = tokens + sum(len(step.tokens) for step in done[1:-1]), steps + len(done[1:-1])
    return tokens / steps, texts


@pytest.mark.slow
def test_8_bits_accept_as_many_tokens_as_the_mlx_draft_over_40_prompts(demo: Any) -> None:
    assert len(PROMPTS) == 40
    programs = ane.CpuRuntime(threads=2).load(demo_pair().draft or "", width=16, context=CONTEXT)
    drafter = AneDrafter(Path(demo_pair().draft or ""), programs, demo.target)
    prompts = [tuple(render_prompt(demo.tokenizer, [ChatMessage("user", prompt)]).ids) for prompt in PROMPTS]
    in_mlx, texts = tokens_per_step(demo, demo.drafter, prompts)
    in_8_bits, same_texts = tokens_per_step(demo, drafter, prompts)
    print(f"tokens per step: MLX {in_mlx:.4f}, w8a16 {in_8_bits:.4f}, ratio {in_8_bits / in_mlx:.4f}")
    assert sum(a == b for a, b in zip(texts, same_texts, strict=True)) >= 39
    assert in_8_bits >= 0.98 * in_mlx
