"""A plain masked LM in PyTorch with the shape of an `EncoderConfig`.

Shape legend: b = batch; l = length; p = predictions; w = width; n = heads; d = w / n.
"""

import torch
from torch import nn
from torch.nn import functional as F


class MaskedLM(nn.Module):
    """The encoder of BERT or ModernBERT, with scaled dot-product attention and a masked LM head.

    Args:
        config: `EncoderConfig`.

    Call arguments: int64 `[b, l]`, except for `masked_positions` and `labels` `[b, p]`, where the
    label -100 means no label.

    Returns: mean cross-entropy of the masked tokens.
    """

    def __init__(self, config):
        super().__init__()
        self.config = config
        width, is_modern = config.hidden_dim, config.rotary_base is not None
        self.tokens = nn.Embedding(config.vocabulary_size, width)
        self.positions = None if is_modern else nn.Embedding(config.max_length, width)
        self.segments = None if is_modern else nn.Embedding(config.num_segments, width)
        self.norm = nn.LayerNorm(width, bias=config.use_bias)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, index) for index in range(config.num_layers))
        self.final_norm = nn.LayerNorm(width, bias=config.use_bias) if is_modern else nn.Identity()
        self.transform = nn.Linear(width, width, bias=config.use_bias)
        self.transform_norm = nn.LayerNorm(width, bias=config.use_bias)
        self.output_bias = nn.Parameter(torch.zeros(config.vocabulary_size))
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.trunc_normal_(parameter, std=config.initializer_range)

    def forward(self, token_ids, segment_ids, position_ids, example_ids, masked_positions, labels):
        states = self.tokens(token_ids)
        if self.positions is not None:
            states = states + self.positions(position_ids) + self.segments(segment_ids)
        states = self.dropout(self.norm(states))
        same = (example_ids[:, :, None] == example_ids[:, None, :])[:, None]  # [b, 1, l, l]
        near = same
        if self.config.window is not None:
            places = torch.arange(token_ids.shape[1], device=token_ids.device)
            near = same & ((places[:, None] - places).abs() <= self.config.window)
        for index, block in enumerate(self.blocks):
            states = block(states, near if self.config.is_local(index) else same, position_ids)
        rows = masked_positions[..., None].expand(-1, -1, states.shape[-1])
        picked = self.final_norm(states).gather(1, rows)  # [b, p, w]
        picked = self.transform_norm(F.gelu(self.transform(picked)))
        logits = F.linear(picked, self.tokens.weight) + self.output_bias
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Block(nn.Module):
    """Attention and a feed-forward network, with normalization before or after each of them."""

    def __init__(self, config, index):
        super().__init__()
        self.config = config
        self.rotary_base = config.rotary_base_of(index)
        width, inner, bias = config.hidden_dim, config.intermediate_dim, config.use_bias
        self.projections = nn.Linear(width, 3 * width, bias=bias)
        self.attention_output = nn.Linear(width, width, bias=bias)
        has_norm = index > 0 or not config.final_norm
        self.attention_norm = nn.LayerNorm(width, bias=bias) if has_norm else nn.Identity()
        self.intermediate = nn.Linear(width, inner * (1 + config.gated), bias=bias)
        self.output = nn.Linear(inner, width, bias=bias)
        self.output_norm = nn.LayerNorm(width, bias=bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states, mask, position_ids):
        if self.config.pre_norm:
            states = states + self._apply_attention(self.attention_norm(states), mask, position_ids)
            return states + self._apply_feed_forward(self.output_norm(states))
        states = self.attention_norm(states + self._apply_attention(states, mask, position_ids))
        return self.output_norm(states + self._apply_feed_forward(states))

    def _apply_attention(self, states, mask, position_ids):
        parts = self.projections(states).unflatten(-1, (3, self.config.num_heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each [b, n, l, d]
        if self.rotary_base is not None:
            query, key = (_rotate(part, self.rotary_base, position_ids) for part in (query, key))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.dropout(self.attention_output(attended.transpose(1, 2).flatten(2)))

    def _apply_feed_forward(self, states):
        inner = self.intermediate(states)
        if self.config.gated:
            inner, gate = inner.chunk(2, dim=-1)
            return self.output(self.dropout(F.gelu(inner) * gate))
        return self.dropout(self.output(F.gelu(inner)))


def _rotate(part, base, position_ids):
    half = part.shape[-1] // 2
    angles = base ** -(torch.arange(half, device=part.device) / half)
    angles = position_ids[:, None, :, None] * angles  # [b, 1, l, d / 2]
    cosine, sine = angles.cos(), angles.sin()
    first, second = part.float().chunk(2, dim=-1)
    rotated = [first * cosine - second * sine, second * cosine + first * sine]
    return torch.cat(rotated, dim=-1).to(part.dtype)
