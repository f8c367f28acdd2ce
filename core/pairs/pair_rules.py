"""Whether a draft fits a target: the numbers that both configs must share."""

from __future__ import annotations

from collections.abc import Iterator

from core.formats.draft_config import DraftConfig
from core.formats.tokenizer_facts import TokenizerFacts
from core.pairs.verdicts import Verdict, judged


def number_verdicts(draft: DraftConfig, hidden_size: int, vocab_size: int, layers: int) -> Iterator[Verdict]:
    """The numbers that draft and target must share, and what the draft reads of the target.

    For the loader as well, which has them from the loaded target: [hidden_size] channels of its residual stream,
    [vocab_size] rows of its embedding, [layers] decoder layers.
    """
    for what, draft_has, target_has in (
        ("hidden size", draft.hidden_size, hidden_size),
        ("vocabulary size", draft.vocab_size, vocab_size),
        ("number of target layers", draft.num_target_layers, layers),
    ):
        same = draft_has == target_has
        text = f"its {what} is {draft_has}, this target's {target_has}"
        yield judged(
            what,
            same,
            f"The {what} is {draft_has} on both sides." if same else f"The draft was made for another target: {text}.",
        )
    top, mask = max(draft.target_layer_ids), draft.mask_token_id
    taps = ", ".join(map(str, draft.target_layer_ids))
    inside = top < layers
    yield judged(
        "taps",
        inside,
        f"The draft reads layers {taps} of {layers}."
        if inside
        else f"The draft reads layer {top} of its target, but this target has {layers} layers.",
    )
    inside = mask < vocab_size
    yield judged(
        "mask token",
        inside,
        f"The mask token {mask} is one of {vocab_size} tokens."
        if inside
        else f"The draft's mask token is {mask}, but this target has {vocab_size} tokens.",
    )


def tokenizer_verdict(draft: TokenizerFacts, target: TokenizerFacts) -> Verdict:
    """Whether both read text alike, as far as their files tell."""
    rule = "tokenizer"
    problem = draft.problem or target.problem
    if problem:
        return Verdict(rule, "warning", f"The tokenizers cannot be compared: {problem}.")
    if draft.digest and target.digest:
        same = draft.digest == target.digest
        text = f"The draft's tokenizer has {draft.tokens} tokens, the target's {target.tokens}"
        return judged(rule, same, f"{text}, all the same." if same else f"{text}, and they differ.")
    if draft.ends and target.ends:
        ends = ", ".join(map(str, draft.ends))
        if set(draft.ends) & set(target.ends):
            return Verdict(rule, "ok", f"Both end answers with token {ends}; the draft brings no tokenizer to compare.")
        text = f"The draft's answers end with token {ends}, the target's with {', '.join(map(str, target.ends))}"
        return Verdict(rule, "warning", f"{text}: it may have been made for another tokenizer.")
    return Verdict(rule, "unknown", "The draft brings no tokenizer: only the sizes of the vocabularies are compared.")
