"""What a model at the hub could be in a pair, by its listing, and why it can be nothing."""

from __future__ import annotations

import pytest

from core.hub.search import HubModel
from core.pairs.candidates import candidate
from core.pairs.catalog import load_catalog

DRAFT = "z-lab/Qwen3-4B-DFlash-b16"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    return load_catalog(tmp_path_factory.mktemp("empty")).catalog


@pytest.mark.parametrize(
    ("model", "role", "sentence", "partner"),
    [
        (HubModel("bob/Qwen3-4B-6bit", model_type="qwen3", has_safetensors=True), "target", f"for it: {DRAFT}", DRAFT),
        (HubModel("bob/Qwen3-4B-poems", model_type="qwen3", has_safetensors=True), "target", "No known draft", ""),
        (HubModel("bob/SmolLM2-135M-Instruct-4bit", model_type="llama"), "target", "ships with Mirror SD", ""),
        (HubModel(DRAFT, ("DFlashDraftModel",), "qwen3"), "draft", "made for Qwen3-4B", "mlx-community/Qwen3-4B-4bit"),
        (HubModel("bob/mine", ("DFlashDraftModel",)), "draft", "shows its config", ""),
        (HubModel("bob/Qwen3-4B-GGUF", has_safetensors=False), "none", "no weights in safetensors", ""),
        (HubModel("bob/bert", model_type="bert", has_safetensors=True), "none", "architecture is bert", ""),
        (HubModel("bob/unknown"), "target", "No known draft", ""),
    ],
)
def test_each_model_has_a_role_or_a_reason(catalog, model, role, sentence, partner):
    judged = candidate(model, catalog)
    assert (judged.role, judged.partner) == (role, partner)
    assert sentence in judged.sentence
