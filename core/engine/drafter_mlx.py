"""The DFlash draft in MLX: the model, and the drafter that proposes blocks with it.

DFlash (Chen, Liang, Liu, 2026), first and second generation (z-lab/dflash). The draft has neither embedding nor LM
head: both are the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import mlx.core as mx
from mlx import nn
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import KVCache
from mlx_lm.models.rope_utils import initialize_rope

from core.engine.context import DraftContext
from core.engine.drafter import embed, head, masked_block
from core.engine.dynamic_conv import DynamicConv
from core.engine.selector import CandidateSelector, Said
from core.engine.target import Target
from core.formats.draft_config import DraftConfig


class ContextView(Protocol):
    """What one layer's block queries see before and beside them."""

    @property
    def position(self) -> int | mx.array:
        """Where the block's first row stands: one number, or one for every block ([b])."""
        ...

    def extend(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """The block's K and V ([b, kv heads, n, head dim]) behind the context's, and the mask of what is seen."""
        ...


class _CacheView:
    """One block right after the context in `cache`, which is left as it was."""

    def __init__(self, cache: KVCache, window: int | None, causal: bool) -> None:
        self.position: int = cache.offset
        self._cache = cache
        self._window = window
        self._causal = causal

    def extend(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """See `ContextView`."""
        context, n = self.position, keys.shape[2]
        # The block's K/V use the cache's free tail for this call only: no copy of the context is made.
        keys, values = self._cache.update_and_fetch(keys, values)
        self._cache.trim(n)
        if self._window is not None:
            visible = min(context, self._window - 1)
            keys, values = keys[:, :, context - visible :], values[:, :, context - visible :]
            context = visible
        return keys, values, self._mask(n, context)

    def _mask(self, rows: int, context: int) -> mx.array | None:
        """[rows, context + rows]: True where a query may look; None where it may look everywhere."""
        if self._window is None:
            return create_causal_mask(rows, context) if self._causal else None
        query = context + mx.arange(rows)[:, None]
        key = mx.arange(context + rows)[None]
        seen = mx.abs(query - key) < self._window
        return seen & (key <= query) if self._causal else seen


class _Attention(nn.Module):
    """Block queries over [context ; block]. Rows are [b, n, hidden]: b blocks of n rows."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        hidden, head_dim, bias = config.hidden_size, config.head_dim, config.attention_bias
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.scale = head_dim**-0.5
        self.q_proj = nn.Linear(hidden, self.heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(hidden, self.kv_heads * head_dim, bias=bias)
        self.v_proj = nn.Linear(hidden, self.kv_heads * head_dim, bias=bias)
        self.o_proj = nn.Linear(self.heads * head_dim, hidden, bias=bias)
        self.q_norm = nn.RMSNorm(head_dim, eps=config.rms_norm_eps)
        self.k_norm = nn.RMSNorm(head_dim, eps=config.rms_norm_eps)

    def keys_values(self, rows: mx.array, rope: nn.Module, position: int | mx.array) -> tuple[mx.array, mx.array]:
        """Rows to K (normed per head, turned to `position`...) and V, [b, kv heads, n, head dim]."""
        keys = self.k_norm(_split_heads(self.k_proj(rows), self.kv_heads))
        return rope(keys, offset=position), _split_heads(self.v_proj(rows), self.kv_heads)

    def __call__(self, rows: mx.array, rope: nn.Module, view: ContextView) -> mx.array:
        """Block rows to the rows that are added to them."""
        queries = rope(self.q_norm(_split_heads(self.q_proj(rows), self.heads)), offset=view.position)
        keys, values, mask = view.extend(*self.keys_values(rows, rope, view.position))
        attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=self.scale, mask=mask)
        return self.o_proj(attended.transpose(0, 2, 1, 3).reshape(*rows.shape[:2], -1))


class _MLP(nn.Module):
    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def __call__(self, rows: mx.array) -> mx.array:
        return self.down_proj(nn.silu(self.gate_proj(rows)) * self.up_proj(rows))


class _Layer(nn.Module):
    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        if config.conv_kernel_size:
            self.attention_conv = DynamicConv(config)
            self.mlp_conv = DynamicConv(config)

    def __call__(self, rows: mx.array, rope: nn.Module, view: ContextView) -> mx.array:
        attention = partial(self.self_attn, rope=rope, view=view)
        normed = self.input_layernorm(rows)
        rows = rows + (self.attention_conv(normed, attention) if "attention_conv" in self else attention(normed))
        normed = self.post_attention_layernorm(rows)
        return rows + (self.mlp_conv(normed, self.mlp) if "mlp_conv" in self else self.mlp(normed))


class DFlashDraft(nn.Module):
    """The draft model. Parameter names are those of the published checkpoints."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.target_layer_ids) * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.layers = [_Layer(config) for _ in range(config.num_hidden_layers)]
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rope = initialize_rope(
            config.head_dim, config.rope_theta, False, config.rope_scaling, config.max_position_embeddings
        )
        if config.selector_rank:
            self.candidate_selector = CandidateSelector(config)

    @property
    def selector(self) -> CandidateSelector | None:
        """What chooses among candidates; none in the first generation."""
        return self.candidate_selector if "candidate_selector" in self else None

    @property
    def dtype(self) -> mx.Dtype:
        """The type that rows, keys and values have, also where matrices are packed."""
        dtype: mx.Dtype = self.hidden_norm.weight.dtype
        return dtype

    def context_rows(self, taps: Sequence[mx.array]) -> mx.array:
        """Tap rows ([n, hidden] a tap) to the [1, n, hidden] rows that every layer makes its context K/V from."""
        rows: mx.array = self.hidden_norm(self.fc(mx.concatenate(list(taps), axis=-1)))
        return rows[None]

    def ingest(self, taps: Sequence[mx.array], caches: Sequence[KVCache]) -> None:
        """Append the context K/V of new rows ([n, hidden] a tap) to each layer's cache."""
        rows = self.context_rows(taps)
        for layer, cache in zip(self.layers, caches, strict=True):
            cache.update_and_fetch(*layer.self_attn.keys_values(rows, self.rope, cache.offset))

    def views(self, caches: Sequence[KVCache]) -> list[ContextView]:
        """One block right after the context in `caches`, which are left as they were."""
        config = self.config
        return [
            _CacheView(cache, config.sliding_window if config.sliding(layer) else None, config.causal(layer))
            for layer, cache in enumerate(caches)
        ]

    def __call__(self, blocks: mx.array, views: Sequence[ContextView]) -> mx.array:
        """[b, n, hidden] embedded blocks, one view a layer, to [b, n, hidden] rows after the final norm."""
        for layer, view in zip(self.layers, views, strict=True):
            blocks = layer(blocks, self.rope, view)
        return self.norm(blocks)


class MlxDrafter:
    """Proposes blocks with a DFlash draft that runs in MLX, on the target's own device."""

    def __init__(self, draft: DFlashDraft, target: Target) -> None:
        self.config = draft.config
        self.draft = draft
        self._target = target

    @property
    def block_size(self) -> int:
        """Rows of a block: the anchor and its proposals."""
        return self.config.block_size

    def ingest(self, context: DraftContext) -> None:
        """Turn the context's queued tap rows into K/V (lazily)."""
        context.level_caches(self.draft.dtype)
        if context.pending_rows:
            self.draft.ingest(context.take_pending(), context.caches)

    def propose(self, anchor: mx.array, context: DraftContext, rows: int) -> Said:
        """See `Drafter`; lazily."""
        self.ingest(context)
        embedded = embed(masked_block(anchor, self.config), self._target, self.config)[None]
        hidden = self.draft(embedded, self.draft.views(context.caches))[0, 1 : rows + 1]
        logits = head(hidden, self._target, self.config)
        selector = self.draft.selector
        return logits if selector is None else selector.candidates(hidden, logits, anchor)


def _split_heads(rows: mx.array, heads: int) -> mx.array:
    """[b, n, heads x head dim] to [b, heads, n, head dim]."""
    return rows.reshape(*rows.shape[:2], heads, -1).transpose(0, 2, 1, 3)
