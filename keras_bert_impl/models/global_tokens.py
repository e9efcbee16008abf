"""The global tokens of each task, for a Longformer."""

from typing import Any

from keras import ops

from keras_bert_impl.layers import SegmentMask
from keras_bert_impl.models.encoder import Encoder


def with_global_mask(
    encoder: Encoder, features: dict[str, Any], segment: str | None, tokenizer: Any = None
) -> dict[str, Any]:
    """Adds the `global_mask` of a task to its features, as `transformers` does by default.

    Args:
        features: dict of symbolic or other tensors, int32 `[rows, length]`.
    """
    limit = encoder.config.max_global_tokens
    if limit is None:
        return features
    token_ids = features["token_ids"]
    if segment is None:
        return features | {"global_mask": ops.zeros_like(token_ids)}
    mask = SegmentMask(segment, tokenizer.sep_id, tokenizer.num_separators, limit)
    return features | {"global_mask": mask(token_ids, features["padding_mask"])}
