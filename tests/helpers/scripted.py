"""A pair whose target says what a test wants: a real llama, with weights that make each token follow another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import mlx.core as mx
from mlx_lm.models.llama import Model, ModelArgs
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from core.engine.loader import LoadedPair
from core.engine.session import Session
from core.engine.stats import PlainCost
from core.engine.target import Target
from core.engine.tokenizer import Tokenizer
from core.pairs import Pair
from helpers.tiny import tiny_drafter

CONTROLS = ("<|im_start|>", "<|im_end|>")
THINKING = ("<think>", "</think>")
LETTERS = (*(chr(code) for code in range(0x21, 0x7F)), "Ġ", "Ċ")
"""One token each: ASCII, the space and the line break as byte-level vocabularies spell them."""
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def scripted_pair(template: str, script: Sequence[str], context_length: int = 1024) -> LoadedPair:
    """A pair that answers with the tokens of `script` after the first, which ends the prompt.

    No token may stand in it twice: what follows depends on the last token alone. The draft is a random one.
    """
    tokenizer = _tokenizer(template)
    target = Target(_chain([tokenizer.encode(token, parse_special=True) for token in script]), context_length)
    width = len(LETTERS) + len(CONTROLS) + len(THINKING)
    drafter = tiny_drafter(
        target, hidden_size=width, vocab_size=width, num_target_layers=1, target_layer_ids=(0,), block_size=4
    )
    return LoadedPair(Pair("Scripted", "", ""), target, tokenizer, drafter, Session(target, drafter), PlainCost())


def _tokenizer(template: str) -> Tokenizer:
    backend = Backend(models.BPE({token: n for n, token in enumerate(LETTERS)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(CONTROLS))
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINKING])
    hugging_face = PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template)
    return Tokenizer(hugging_face, [backend.token_to_id("<|im_end|>")], "scripted")


def _chain(script: list[list[int]]) -> Model:
    """Embeddings are unit vectors, the layer adds nothing, and the head turns each into its successor's."""
    width = len(LETTERS) + len(CONTROLS) + len(THINKING)
    args = ModelArgs(
        model_type="llama",
        hidden_size=width,
        num_hidden_layers=1,
        intermediate_size=8,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=8,
        rms_norm_eps=1e-5,
        vocab_size=width,
        tie_word_embeddings=False,
    )
    model = Model(args)
    layer = model.model.layers[0]
    for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
        projection.weight = mx.zeros_like(projection.weight)
    model.model.embed_tokens.weight = mx.eye(width)
    successors = {token: following for (token,), (following,) in pairwise(script)}
    assert len(successors) == len(script) - 1, "a token stands in the script twice"
    head = [[5.0 * (successors.get(token) == following) for token in range(width)] for following in range(width)]
    model.lm_head.weight = mx.array(head)
    mx.eval(model.parameters())
    return model
