"""The tokenizer that rides in the metadata of a GGUF file: byte-level BPE, or SentencePiece's BPE by scores."""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from core.errors import UnsupportedModel
from core.formats.gguf_header import GgufInfo, damaged

# GGUF's tokenizer.ggml.token_type
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4

# The splitting patterns as the models' own tokenizer.json files have them.
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def hugging_face_from_gguf(info: GgufInfo) -> PreTrainedTokenizerFast:
    """The tokenizer with its special tokens and chat template.

    Raises `UnsupportedModel` for other tokenizers and pre-tokenizers, `UnreadableModel` where data is missing or
    contradicts itself.
    """
    tokens = info.strings("tokenizer.ggml.tokens")
    roles = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    ids = {role: _token_id(info, key, len(tokens)) for key, role in roles.items()}
    template = info.metadata.get("tokenizer.chat_template")
    backend = _backend(info, tokens)
    if info.metadata.get("tokenizer.ggml.add_bos_token") is True and (first := ids["bos"]) is not None:
        backend.post_processor = processors.TemplateProcessing(
            single=["B:0", "$A:0"], special_tokens=[{"id": "B", "ids": [first], "tokens": [tokens[first]]}]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=template if isinstance(template, str) else None,
        **{f"{role}_token": tokens[i] for role, i in ids.items() if i is not None},
    )


def eos_ids_from_gguf(info: GgufInfo) -> list[int]:
    """The tokens that the metadata names as ends: of text, of turn, of message."""
    count = len(info.strings("tokenizer.ggml.tokens"))
    return [i for key in ("eos", "eot", "eom") if (i := _token_id(info, key, count)) is not None]


def _token_id(info: GgufInfo, key: str, token_count: int) -> int | None:
    value = info.metadata.get(f"tokenizer.ggml.{key}_token_id")
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < token_count:
        raise damaged(info.path, f"its {key} token is none of its tokens", repr(value)[:80])
    return value


def _backend(info: GgufInfo, tokens: list[str]) -> tokenizers.Tokenizer:
    kind = info.string("tokenizer.ggml.model")
    if kind == "llama":
        return _sentencepiece(info, tokens)
    if kind != "gpt2":
        raise UnsupportedModel(
            f'{info.path.name} has a tokenizer of type {kind[:40]!r}; "gpt2" (byte-level BPE) and "llama" '
            "(SentencePiece's BPE) can be read.",
            "Choose the model's MLX folder.",
        )
    pre = info.string("tokenizer.ggml.pre", "default")
    merges = [(left, right) for left, _, right in (m.partition(" ") for m in info.strings("tokenizer.ggml.merges"))]
    backend = tokenizers.Tokenizer(_bpe(info, tokens, merges, ignore_merges=pre == "llama-bpe"))
    backend.pre_tokenizer = _pre_tokenizer(info, pre)
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.decoder = decoders.ByteLevel()
    _add_tokens(info, backend, tokens)
    return backend


def _sentencepiece(info: GgufInfo, tokens: list[str]) -> tokenizers.Tokenizer:
    prefix = info.metadata.get("tokenizer.ggml.add_space_prefix", True) is True
    unknown = _token_id(info, "unknown", len(tokens))
    backend = tokenizers.Tokenizer(
        _bpe(
            info,
            tokens,
            _merges_by_score(info, tokens),
            byte_fallback=True,
            fuse_unk=True,
            unk_token=None if unknown is None else tokens[unknown],
        )
    )
    scheme = "first" if prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme, split=False)
    last = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *last])
    _add_tokens(info, backend, tokens)
    return backend


def _merges_by_score(info: GgufInfo, tokens: list[str]) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours whose joint token scores best: every way to make a token, best token first."""
    scores, types = info.metadata.get("tokenizer.ggml.scores"), _token_types(info, tokens)
    if not isinstance(scores, list) or len(scores) != len(tokens) or not all(isinstance(s, float) for s in scores):
        raise damaged(info.path, "its list of token scores does not fit its tokens")
    made = [i for i, token in enumerate(tokens) if len(token) > 1 and (not types or types[i] == _NORMAL)]
    made.sort(key=lambda i: -scores[i])
    known = {token: i for i, token in enumerate(tokens)}
    merges: list[tuple[str, str]] = []
    for token in (tokens[i] for i in made):
        ways = [(token[:at], token[at:]) for at in range(1, len(token))]
        both = [way for way in ways if way[0] in known and way[1] in known]
        merges += sorted(both, key=lambda way: (known[way[0]], known[way[1]]))
    return merges


def _bpe(info: GgufInfo, tokens: list[str], merges: list[tuple[str, str]], **options: Any) -> models.BPE:
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise damaged(info.path, "its vocabulary names a token twice")
    try:
        return models.BPE(vocabulary, merges, **options)
    except Exception as error:  # a plain Exception, where a merge makes or takes an unknown token
        raise damaged(info.path, "its vocabulary contradicts itself", str(error)) from error


def _pre_tokenizer(info: GgufInfo, pre: str) -> pre_tokenizers.PreTokenizer:
    prefix = info.metadata.get("tokenizer.ggml.add_space_prefix") is True
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=True)
    if pre in ("gpt-2", "default"):
        return gpt2
    if pre == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    if pre in ("llama-bpe", "qwen2"):
        split = Regex(_LLAMA3_SPLIT if pre == "llama-bpe" else _QWEN2_SPLIT)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)
        return pre_tokenizers.Sequence([pre_tokenizers.Split(split, "isolated"), byte_level])
    raise UnsupportedModel(
        f"{info.path.name} splits text in a way called {pre[:40]!r}, which is not supported.",
        "Choose the model's MLX folder.",
    )


def _add_tokens(info: GgufInfo, backend: tokenizers.Tokenizer, tokens: list[str]) -> None:
    types = _token_types(info, tokens)
    special = [token for token, kind in zip(tokens, types, strict=False) if kind in (_CONTROL, _UNKNOWN)]
    defined = [token for token, kind in zip(tokens, types, strict=False) if kind == _USER_DEFINED]
    if "" in special or "" in defined:
        raise damaged(info.path, "one of its control tokens is empty")
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    backend.add_tokens([AddedToken(token, normalized=False) for token in defined])


def _token_types(info: GgufInfo, tokens: list[str]) -> list[Any]:
    """By token; empty where the file has none."""
    types = info.metadata.get("tokenizer.ggml.token_type", [])
    if not isinstance(types, list) or len(types) not in (0, len(tokens)):
        raise damaged(info.path, "its list of token types does not fit its tokens")
    return types
