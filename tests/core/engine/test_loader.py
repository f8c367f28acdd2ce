"""Loading a pair: the demo pair comes ready and measured, anything wrong gives one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import mlx_lm.utils
import numpy as np
import pytest
from mlx.utils import tree_flatten

import assets
from core.check_messages import Check
from core.engine.answer import check_options
from core.engine.check import PairCheck
from core.engine.context import DraftContext
from core.engine.decode import Limits
from core.engine.draft_weights import load_drafter
from core.engine.drafter_mlx import MlxDrafter
from core.engine.loader import load_pair, load_pair_now, load_target
from core.engine.measure import decode_anew
from core.engine.rollback import Transaction
from core.engine.source_lookup import LOOKUP_ROWS
from core.engine.step_figures import tokens_of
from core.errors import (
    BadRequest,
    Cancelled,
    MirrorError,
    MissingFile,
    PairMismatch,
    UnreadableModel,
    UnsupportedCache,
    UnsupportedModel,
)
from core.pairs import Pair
from core.protocol import GenerateOptions
from helpers.decoding import plain_source, run, serial_source
from helpers.folders import write_draft_folder, write_family_folder, write_llama_folder, write_tiny_pair
from helpers.random_drafts import SECOND, mlx_draft, packed, random_weights, unpacked, write_draft
from helpers.reference import relative_error
from helpers.tiny import tiny_config, tiny_drafter, tiny_target


@pytest.fixture
def draft_folder(tmp_path):
    """A copy of the demo draft that a test may damage."""
    return Path(shutil.copytree(assets.path("demo-draft"), tmp_path / "draft"))


@pytest.fixture
def llama_folder(tmp_path):
    return write_llama_folder(tmp_path / "llama")


@pytest.fixture
def tiny_folder(tmp_path):
    """A draft folder for the tiny target, in the published format."""
    return write_draft_folder(tmp_path / "tiny", tiny_config())


def test_the_demo_pair_is_ready_and_measured(demo):
    assert demo.modes == ("plain", "lookup", "gpu", "ane", "mirror", "auto")
    assert not demo.missing
    assert demo.block_size == 8
    assert len(demo.target.layers) == 30
    assert demo.target.context_length == 8192
    assert demo.plain_cost.pass_ms > 0


def test_a_target_alone_decodes_repeats_and_chooses(llama_folder):
    loaded = load_pair_now(Pair("alone", str(llama_folder), None))
    assert (loaded.modes, loaded.missing, loaded.block_size) == (("plain", "lookup", "auto"), {}, 0)
    assert loaded.most_rows == LOOKUP_ROWS
    prompt = loaded.tokenizer.encode("the cat sat on the mat and the cat sat on", parse_special=False)
    limits = Limits(30, frozenset(), loaded.most_rows)
    answers = {mode: decode_anew(loaded, prompt, mode, limits) for mode in loaded.modes}
    assert len({tokens_of(steps) for steps in answers.values()}) == 1
    assert {step.mode for step in answers["lookup"]} == {"plain", "lookup"}


def test_a_target_alone_that_cannot_forget_rows_is_plain(llama_folder, monkeypatch):
    begin = Transaction.begin

    def refuse(self, rows, whole=False):
        if rows > 1 and not whole:
            raise UnsupportedCache("This target cannot go back.")
        return begin(self, rows, whole)

    monkeypatch.setattr(Transaction, "begin", refuse)
    loaded = load_pair_now(Pair("alone", str(llama_folder), None))
    assert loaded.modes == ("plain", "auto")
    assert loaded.missing == {"lookup": "This target cannot go back."}
    with pytest.raises(BadRequest, match=r"mode lookup: This target cannot go back\."):
        check_options(GenerateOptions("lookup"), loaded)
    steps = decode_anew(loaded, [5, 6, 5, 6, 5, 6, 5], "auto", Limits(8, frozenset(), loaded.most_rows))
    assert {step.mode for step in steps} == {"plain"}


def test_a_saved_draft_loads_and_proposes_as_before(tiny_folder):
    target = tiny_target()
    drafter = load_drafter(tiny_folder, target, mx.float32)
    assert target.taps == (0, 2)
    original = tiny_drafter(target)
    anchor, layers = mx.array([3], dtype=mx.uint32), original.config.num_hidden_layers
    proposed, expected = (each.propose(anchor, DraftContext(layers), 7) for each in (drafter, original))
    assert mx.array_equal(proposed, expected)


@pytest.mark.parametrize("dtype", [mx.float32, None], ids=["unpacked", "as stored"])
@pytest.mark.parametrize("generation", [{}, SECOND], ids=["first generation", "second"])
@pytest.mark.parametrize(("bits", "group_size"), [(8, 32), (4, 32), (3, 32)])
def test_a_packed_draft_proposes_what_its_numbers_do(tmp_path, generation, bits, group_size, dtype):
    config, target = tiny_config(**generation), tiny_target()
    weights = packed(random_weights(config, dtype=mx.float32), bits, group_size)
    drafter = load_drafter(write_draft(tmp_path / "packed", config, weights), target, dtype)
    plain = MlxDrafter(mlx_draft(config, unpacked(weights, bits, group_size)), target)
    assert relative_error(said_of(drafter, target), said_of(plain, target)) < 1e-5
    kept = {name for name, array in tree_flatten(drafter.draft.parameters()) if array.dtype == mx.uint32}
    assert kept == (set() if dtype else {name for name, array in weights.items() if array.dtype == mx.uint32})


def test_a_draft_packed_in_part_is_loaded_too(tmp_path):
    """As converters do that leave some layers as they were, or give them more bits."""
    config, target = tiny_config(**SECOND), tiny_target()
    plain = random_weights(config, dtype=mx.float32)
    mixed, meant = {**plain}, {**plain}
    for bits, prefix in ((8, "layers.0.mlp."), (4, "layers.1."), (4, "fc.")):
        chosen = packed({name: array for name, array in plain.items() if name.startswith(prefix)}, bits)
        mixed |= chosen
        meant |= unpacked(chosen, bits)
    for dtype in (mx.float32, None):
        drafter = load_drafter(write_draft(tmp_path / str(dtype), config, mixed), target, dtype)
        expected = said_of(MlxDrafter(mlx_draft(config, meant), target), target)
        assert relative_error(said_of(drafter, target), expected) < 1e-5


VARIANTS = {
    "second generation": {
        **SECOND,
        "layer_types": ("sliding_attention",) * 2,
        "sliding_window": 24,
        "is_causal": False,
    },
    "biases, YaRN": {
        "attention_bias": True,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    },
    "soft cap and scales": {
        "final_logit_softcapping": 30.0,
        "input_embedding_scale": 2.5,
        "output_multiplier": 0.3,
    },
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_kind_of_draft_is_loaded_for_all_modes_and_passes_the_check(tmp_path, variant):
    """The check decodes in every mode and compares with plain decoding; seeded, so that the selector draws."""
    loaded = load_pair_now(write_tiny_pair(tmp_path, **variant))
    try:
        assert loaded.modes == ("plain", "lookup", "gpu", "ane", "mirror", "auto")
        assert not loaded.missing
        for temperature in (0.0, 1.5):
            request = Check(loaded.pair, ("the cat", "a dog"), max_tokens=24, temperature=temperature, seed=4)
            *_, verdict = PairCheck(loaded, request, lambda: False).events()
            assert {mode.mode for mode in verdict.modes} == set(loaded.modes)
            for mode in verdict.modes:
                assert mode.equal == mode.prompts or mode.first_divergence.near_tie, mode
    finally:
        loaded.close()


def test_a_draft_that_programs_cannot_express_is_run_in_mlx_with_the_reason(tmp_path):
    loaded = load_pair_now(write_tiny_pair(tmp_path, **SECOND, rope_scaling={"rope_type": "dynamic", "factor": 2.0}))
    assert loaded.modes == ("plain", "lookup", "gpu", "auto")
    assert loaded.missing.keys() == {"ane", "mirror"}
    assert "its rope type dynamic is none that programs know" in loaded.missing["ane"]


def said_of(drafter, target):
    """What a drafter says behind some features: its logits, or its candidates' scores by token."""
    context = DraftContext(drafter.config.num_hidden_layers)
    target.set_taps(drafter.config.target_layer_ids)
    context.queue(target.forward(mx.arange(20), target.make_cache()).taps)
    said = drafter.propose(mx.array([3], dtype=mx.uint32), context, 7)
    if isinstance(said, mx.array):
        return np.array(said)
    scores = np.concatenate([np.array(said.scores(row, mx.array([3]))) for row in range(len(said))])
    return np.take_along_axis(scores, np.argsort(np.array(said.tokens), axis=1), axis=1)


def test_a_draft_for_another_target_says_what_differs():
    with pytest.raises(PairMismatch, match="hidden size is 576, this target's 32"):
        load_drafter(assets.path("demo-draft"), tiny_target(), mx.float32)


def test_a_draft_for_a_deeper_target_says_so(draft_folder, demo):
    config = json.loads((draft_folder / "config.json").read_text())
    config["num_target_layers"] = 36
    (draft_folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(PairMismatch, match="number of target layers is 36, this target's 30"):
        load_drafter(draft_folder, demo.target, mx.float32)
    assert demo.target.taps == demo.drafter.config.target_layer_ids, "a refused draft leaves the taps alone"


@pytest.mark.parametrize("keep_bytes", [0, 7, 100, 10_000, 1_000_000])
def test_a_cut_off_draft_file_is_refused(draft_folder, demo, keep_bytes):
    file = draft_folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep_bytes])
    with pytest.raises(UnreadableModel):
        load_drafter(draft_folder, demo.target, mx.float32)


def test_a_missing_tensor_is_refused_by_name(tiny_folder):
    file = tiny_folder / "model.safetensors"
    weights = mx.load(str(file))
    del weights["layers.1.self_attn.k_norm.weight"]
    mx.save_safetensors(str(file), weights)
    with pytest.raises(UnreadableModel) as caught:
        load_drafter(tiny_folder, tiny_target(), mx.float32)
    assert "layers.1.self_attn.k_norm.weight is missing" in caught.value.problem.sentence


def test_a_tensor_of_wrong_shape_is_refused(tiny_folder):
    file = tiny_folder / "model.safetensors"
    weights = mx.load(str(file))
    weights["fc.weight"] = weights["fc.weight"][:, :-1]
    mx.save_safetensors(str(file), weights)
    with pytest.raises(UnreadableModel, match=r"fc.weight has the shape \[32, 63\], wanted is \[32, 64\]"):
        load_drafter(tiny_folder, tiny_target(), mx.float32)


def test_a_draft_folder_without_weights_is_refused(draft_folder, demo):
    (draft_folder / "model.safetensors").unlink()
    with pytest.raises(MissingFile, match="no safetensors"):
        load_drafter(draft_folder, demo.target, mx.float32)


@pytest.mark.parametrize("path", ["nowhere.gguf", "nowhere/at/all"])
def test_a_missing_target_is_refused(tmp_path, path):
    with pytest.raises(MissingFile, match="does not exist"):
        load_target(tmp_path / path)


def test_a_folder_without_config_is_refused(tmp_path):
    with pytest.raises(MissingFile, match=r"config\.json"):
        load_target(tmp_path)


def test_a_stop_between_stages_ends_the_loading():
    asked = iter([False, True])
    loading = load_pair(Pair("demo", "missing.gguf", None), lambda: next(asked))
    assert next(loading).done == 0
    with pytest.raises(MissingFile):
        next(loading)
    with pytest.raises(Cancelled):
        next(load_pair(Pair("demo", "missing.gguf", None), lambda: True))


class TestFolders:
    """Hugging Face folders go through mlx-lm's own loader."""

    def test_a_folder_loads_and_answers_as_its_weights_say(self, llama_folder):
        target, tokenizer = load_target(llama_folder)
        ids = tokenizer.encode("the cat sat", parse_special=False)
        expected = mlx_lm.utils.load_model(llama_folder)[0](mx.array([ids]))[0]
        assert mx.allclose(target.forward(mx.array(ids), target.make_cache()).logits, expected, atol=1e-4)
        assert target.context_length == 256

    @pytest.mark.parametrize(
        ("family", "quantization"),
        [
            ("qwen3", {}),
            ("qwen3_moe", {"group_size": 32, "bits": 4}),
            ("qwen3_5", {"group_size": 32, "bits": 4}),
            ("qwen3_5_moe", {"group_size": 32, "bits": 8}),
            ("gpt_oss", {"group_size": 32, "bits": 4, "mode": "mxfp4"}),
            ("gemma3", {"group_size": 32, "bits": 6}),
            ("gemma4", {}),
            ("lfm2", {"group_size": 32, "bits": 5}),
        ],
    )
    def test_a_pair_of_any_family_loads_and_decodes_without_loss(self, tmp_path, family, quantization):
        target = write_family_folder(tmp_path / "target", family, **quantization)
        vocabulary = load_target(target)[0].vocab_size
        draft = write_draft_folder(tmp_path / "draft", tiny_config(vocab_size=vocabulary))
        loaded = load_pair_now(Pair(family, str(target), str(draft)))
        prompt = loaded.tokenizer.encode("the dog sat on the mat", parse_special=False)
        texts = []
        for make_source in (plain_source, serial_source(loaded.drafter)):
            loaded.session.trim_to(0)
            answer = run(
                loaded.target,
                loaded.drafter,
                prompt,
                make_source,
                temperature=1.0,
                session=loaded.session,
                max_tokens=20,
            )
            texts.append(answer.tokens)
        assert texts[0] == texts[1]
        assert any(len(step.proposals) > step.accepted for step in answer.steps)

    @pytest.mark.parametrize(
        ("damage", "error"),
        [
            (lambda folder: (folder / "model.safetensors").unlink(), MissingFile),
            (lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"), UnreadableModel),
            (lambda folder: rewrite_config(folder, model_type="no_such_model"), UnsupportedModel),
            (lambda folder: rewrite_config(folder, model_file="evil.py"), UnsupportedModel),
            (lambda folder: rewrite_config(folder, num_hidden_layers=3), UnsupportedModel),
            (lambda folder: rewrite_config(folder, num_attention_heads=0), UnreadableModel),
            (lambda folder: (folder / "config.json").write_text("{"), UnreadableModel),
            (lambda folder: (folder / "tokenizer.json").write_text("{"), UnreadableModel),
        ],
        ids=["no weights", "damaged weights", "architecture", "own code", "layers", "heads", "config", "tokenizer"],
    )
    def test_a_damaged_folder_gives_one_error(self, llama_folder, damage, error):
        damage(llama_folder)
        with pytest.raises(MirrorError) as caught:
            load_target(llama_folder)
        assert isinstance(caught.value, error), caught.value.problem

    def test_code_that_a_folder_brings_is_not_run(self, llama_folder, tmp_path):
        (llama_folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        rewrite_config(llama_folder, model_file="evil.py")
        with pytest.raises(UnsupportedModel):
            load_target(llama_folder)
        assert not (tmp_path / "ran").exists()


def rewrite_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
