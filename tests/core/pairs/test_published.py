"""Every pair of the catalog against configs and headers made from what was published about it."""

from __future__ import annotations

import json
import math

import pytest

import assets
from core.formats.draft_config import parse_draft_config
from core.formats.draft_tensors import expected_tensors
from core.formats.target_config import parse_target_config
from core.pairs.catalog import read_catalog
from core.pairs.compatibility import judge
from core.pairs.memory import pair_memory
from helpers.published import FOLDER, draft_facts, published, target_facts, tensors

CATALOG = read_catalog(assets.path("pairs.toml"))
FIXTURES = {pair.id: "smollm2-135m" if pair.id == "demo" else pair.id for pair in CATALOG.pairs}
TARGETS = [(pair, target) for pair in CATALOG.pairs for target in pair.targets if target.id != "demo"]
NUMBERS = ("hidden size", "vocabulary size", "number of target layers", "taps", "mask token")
GIB = 2**30

PUBLISHED_DRAFT_BYTES = {
    "qwen3-4b": 1.00 * GIB,
    "qwen3-8b": 1.95 * GIB,
    "qwen3.5-4b": 1.00 * GIB,
    "qwen3.5-9b": 1.95 * GIB,
    "qwen3.5-27b": 3.46e9,
    "qwen3.5-35b-a3b": 0.88 * GIB,
    "qwen3-coder-30b-a3b": 0.88 * GIB,
    "gpt-oss-20b": 1.46 * GIB,
    "llama-3.1-8b": 1.95 * GIB,
}
PUBLISHED_TARGET_BYTES = {
    "qwen3-4b-bf16": 7.49 * GIB,
    "qwen3-8b-8bit": 8.7e9,
    "qwen3-coder-30b-a3b-4bit": 17.2e9,
    "gpt-oss-20b-mxfp4-q8": 12.10e9,
}
"""Those without a vision tower."""
PUBLISHED_CACHE_BYTES = {"qwen3.8-27b": 64, "qwen3.6-35b-a3b": 20, "qwen3.5-9b": 32, "gpt-oss-20b": 24}
"""KiB of keys and values a token."""


def ids(value):
    return getattr(value, "id", None)


def test_every_pair_has_a_fixture_and_every_fixture_a_pair():
    assert set(FIXTURES.values()) == {path.stem for path in FOLDER.glob("*.json")}
    for name in FIXTURES.values():
        fixture = published(name)
        assert fixture["sources"], name
        assert fixture["inferred"], name


@pytest.mark.parametrize(("pair", "target"), TARGETS, ids=ids)
def test_target_and_draft_share_their_numbers_and_their_headers_are_what_the_configs_say(pair, target):
    fixture = published(FIXTURES[pair.id])
    facts = target_facts(fixture, target.id, target.repo)
    if fixture["draft"]["config"] is None:
        outcomes = {v.rule: v.outcome for v in judge(facts, None, pair).verdicts}
        assert outcomes["draft config"] == "unknown"
    else:
        outcomes = {v.rule: v.outcome for v in judge(facts, draft_facts(fixture, pair.draft.repo), pair).verdicts}
        assert {outcomes[rule] for rule in NUMBERS} == {"ok"}
        assert outcomes["draft config"] == outcomes["draft precision"] == "ok"
        # The catalog knows targets that this version cannot run yet; then one of these rules says why.
        assert {rule for rule, outcome in outcomes.items() if outcome == "failed"} <= {
            "draft architecture",
            "draft weights",
        }
    assert outcomes["target config"] == outcomes["architecture"] == outcomes["target weights"] == "ok"
    assert outcomes["quantisation"] == "ok"
    assert "made for" not in outcomes


@pytest.mark.parametrize("name", ["qwen3-4b", "qwen3-8b", "qwen3-coder-30b-a3b"])
def test_pairs_of_plain_targets_can_be_run_by_config_and_header(name):
    fixture = published(name)
    for precision in fixture["target"]["precisions"]:
        compatibility = judge(target_facts(fixture, precision), draft_facts(fixture))
        assert compatibility.runs, compatibility.reasons


@pytest.mark.parametrize(("pair", "target"), TARGETS, ids=ids)
def test_the_catalog_says_what_the_fixture_says(pair, target):
    fixture = published(FIXTURES[pair.id])
    stored = target_facts(fixture, target.id)
    assert parse_target_config(pair.target_facts(target).config, "x") == parse_target_config(stored.config, "x")
    assert target.weight_bytes == stored.weight_bytes
    assert pair.draft.weight_bytes == sum(t.bytes for t in tensors(fixture["draft"]["tensors"]).values())
    if pair.draft.config is not None:
        of_catalog, of_fixture = pair.draft.config, fixture["draft"]["config"]
        assert parse_draft_config(of_catalog, "x") == parse_draft_config(of_fixture, "x")
    else:
        assert fixture["draft"]["config"] is None


@pytest.mark.parametrize(("name", "wanted"), PUBLISHED_DRAFT_BYTES.items())
def test_the_drafts_are_as_large_as_published(name, wanted):
    size = sum(t.bytes for t in tensors(published(name)["draft"]["tensors"]).values())
    assert size == pytest.approx(wanted, rel=0.006)  # published with three digits


def test_the_draft_of_the_second_generation_has_the_published_tensors():
    """What its config makes the loader expect is its file, to the byte.

    A file is 8 bytes, a header of compact JSON with the tensors in the order of their names, filled up to a multiple of
    8 bytes, and 16 bits a value.
    """
    fixture = published("qwen3.8-27b")
    expected = expected_tensors(parse_draft_config(fixture["draft"]["config"], "x"))
    assert len(expected) == 81
    assert expected == {name: tensor.shape for name, tensor in tensors(fixture["draft"]["tensors"]).items()}
    header, at = {}, 0
    for name, shape in sorted(expected.items()):
        end = at + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"))
    assert 8 + math.ceil(len(text) / 8) * 8 + at == 3_848_817_896


@pytest.mark.parametrize("name", ["qwen3.8-27b", "gpt-oss-20b"])
def test_pairs_of_the_second_generation_and_with_biases_can_be_run_by_config_and_header(name):
    fixture = published(name)
    for precision in fixture["target"]["precisions"]:
        compatibility = judge(target_facts(fixture, precision), draft_facts(fixture))
        assert compatibility.runs, compatibility.reasons


@pytest.mark.parametrize(("precision", "wanted"), PUBLISHED_TARGET_BYTES.items())
def test_the_targets_are_as_large_as_published(precision, wanted):
    (size,) = [target.weight_bytes for _, target in TARGETS if target.id == precision]
    assert size == pytest.approx(wanted, rel=0.003)


@pytest.mark.parametrize(("name", "wanted_kib"), PUBLISHED_CACHE_BYTES.items())
def test_the_cache_takes_what_was_published_a_token(name, wanted_kib):
    config = parse_target_config(published(name)["target"]["config"], name)

    def cache(context):
        rows = pair_memory(config, None, tensors=None, stored_bytes=1, context=context, device="gpu").rows
        return next(row.bytes for row in rows if row.what == "target cache")

    assert (cache(16384) - cache(8192)) / 8192 == wanted_kib * 1024


@pytest.mark.parametrize("wish", CATALOG.recommended, ids=lambda wish: wish.target)
def test_what_is_recommended_leaves_a_mac_a_quarter_of_its_memory(wish):
    pair, target = CATALOG.find(wish.target)
    draft = parse_draft_config(pair.draft.config, "x")
    config = parse_target_config(pair.target_facts(target).config, "x")
    memory = pair_memory(
        config,
        draft,
        tensors=None,
        stored_bytes=target.weight_bytes,
        draft_bytes=pair.draft.weight_bytes,
        device="gpu",
    )
    assert memory.needed_bytes <= 0.75 * wish.memory_gb * GIB
