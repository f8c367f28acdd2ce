"""Loads a draft: its config, its weights, and whether both are those of a draft for this target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import mlx.core as mx
from mlx import nn

from core.engine.drafter_mlx import DFlashDraft, MlxDrafter
from core.engine.target import Target
from core.errors import MissingFile, PairMismatch, UnreadableModel
from core.formats.draft_config import DraftConfig, read_draft_config
from core.formats.draft_tensors import Packing, expected_tensors, packing_of, parts_of, tensor_problem
from core.formats.safetensors_header import read_header
from core.pairs.pair_rules import number_verdicts

Weights = dict[str, mx.array]


def load_drafter(folder: Path, target: Target, dtype: mx.Dtype | None) -> MlxDrafter:
    """The drafter of the draft in `folder`; raises as `load_draft` does."""
    return MlxDrafter(load_draft(folder, target, dtype), target)


def load_draft(folder: Path, target: Target, dtype: mx.Dtype | None) -> DFlashDraft:
    """Load the draft in `folder` for `target` and put its taps on.

    `dtype` None keeps the stored types, and packed matrices packed. Raises `MissingFile`, `UnreadableModel`,
    `UnsupportedModel`, `PairMismatch`.
    """
    config = read_draft_config(folder)
    _check_pair(config, target)
    draft = build_draft(folder, config, dtype)
    target.set_taps(config.target_layer_ids)
    return draft


def build_draft(folder: Path, config: DraftConfig, dtype: mx.Dtype | None) -> DFlashDraft:
    """The draft of this config with the weights in `folder`, as `load_draft` has it, for no target."""
    weights = _stored(folder, config)
    try:
        if dtype is not None:
            weights = {name: array.astype(dtype) for name, array in _unpacked(weights, config)}
        draft = DFlashDraft(config)
        _pack_modules(draft, weights)
        draft.load_weights(list(weights.items()), strict=True)
        mx.eval(draft.parameters())
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise UnreadableModel(
            f"The weights of the draft {folder.name} do not fit its config.", "Download it again.", str(error)
        ) from error
    return draft


def read_weights(folder: Path, config: DraftConfig) -> Weights:
    """The tensors of the draft in `folder` by name, packed ones unpacked. Raises `MissingFile`, `UnreadableModel`."""
    return dict(_unpacked(_stored(folder, config), config))


def _stored(folder: Path, config: DraftConfig) -> Weights:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise MissingFile(f"The draft folder {folder} has no safetensors file.", "Download the draft again.")
    held = {name: tensor for file in files for name, tensor in read_header(file).items()}
    if problem := tensor_problem(config, held):
        raise UnreadableModel(problem, "Download the draft again, or choose another.", str(folder))
    weights: Weights = {}
    for file in files:
        try:
            loaded = mx.load(str(file))
        except RuntimeError as error:
            raise UnreadableModel(
                f"The draft file {file.name} is damaged.", "Download the draft again.", str(error)
            ) from error
        assert isinstance(loaded, dict)
        weights.update(loaded)
    return weights


def _unpacked(weights: Weights, config: DraftConfig) -> Iterator[tuple[str, mx.array]]:
    """Every matrix as numbers: on a processor products with packed ones take longer."""
    for name in expected_tensors(config):
        packing = _packing(name, weights, config)
        if packing is None:
            yield name, weights[name]
        else:
            scales, biases = (weights[part] for part in parts_of(name))
            yield name, mx.dequantize(weights[name], scales, biases, packing.group_size, packing.bits)


def _pack_modules(draft: DFlashDraft, weights: Weights) -> None:
    """Make those linear layers packed ones whose weights are."""

    def packed(path: str, _module: nn.Module) -> bool | dict[str, int]:
        packing = _packing(f"{path}.weight", weights, draft.config)
        return packing is not None and {"group_size": packing.group_size, "bits": packing.bits}

    if any(name.endswith(".scales") for name in weights):
        nn.quantize(draft, class_predicate=packed)


def _packing(name: str, weights: Mapping[str, mx.array], config: DraftConfig) -> Packing | None:
    scales = parts_of(name)[0]
    if scales not in weights:
        return None
    return packing_of(expected_tensors(config)[name], weights[name].shape, weights[scales].shape)


def _check_pair(config: DraftConfig, target: Target) -> None:
    for verdict in number_verdicts(config, target.hidden_size, target.vocab_size, len(target.layers)):
        if verdict.outcome == "failed":
            raise PairMismatch(verdict.sentence, "Choose the target that the draft was trained for, or another draft.")
