"""Model folders in the Hugging Face layout, written for tests."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.llama import Model, ModelArgs
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from core.formats.draft_config import DraftConfig
from core.pairs import Pair
from helpers.families import family_config, family_model
from helpers.random_drafts import published_form
from helpers.tiny import random_draft, tiny_config

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_llama_folder(folder: Path, context_length: int = 256) -> Path:
    """A tiny random llama with a byte-level tokenizer of its own. Its answers end at their limit only."""
    folder.mkdir()
    vocabulary = _write_tokenizer(folder)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
        "max_position_embeddings": context_length,
        "tie_word_embeddings": True,
        "eos_token_id": 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(4)
    model = Model(ModelArgs.from_dict(config))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    return folder


def write_family_folder(folder: Path, family: str, **quantization: object) -> Path:
    """A tiny random model of this family, with the tokenizer of `write_llama_folder`, perhaps quantised."""
    folder.mkdir()
    config = family_config(family, vocab_size=_write_tokenizer(folder))
    model = family_model(config)
    if quantization:
        nn.quantize(model, **quantization)
        config["quantization"] = quantization
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 1}))
    return folder


def write_draft_folder(folder: Path, config: DraftConfig) -> Path:
    """A random draft in the published format."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(published_form(config)))
    weights = dict(tree_flatten(random_draft(config).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder


def write_tiny_pair(folder: Path, context_length: int = 4096, **changes: object) -> Pair:
    """A target folder and a draft folder that fit each other; `changes` are to the draft's config."""
    target = write_llama_folder(folder / "target", context_length)
    config = json.loads((target / "config.json").read_text())
    fitting = {"vocab_size": config["vocab_size"], "num_target_layers": 2, "target_layer_ids": (0, 1)}
    draft_config = tiny_config(**fitting, **changes)
    return Pair("Tiny pair", str(target), str(write_draft_folder(folder / "draft", draft_config)))


def _write_tokenizer(folder: Path) -> int:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the cat sat on the mat and the dog sat on the log"], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": _TEMPLATE}
        )
    )
    return tokenizer.get_vocab_size()
