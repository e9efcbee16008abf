"""The input features of an encoder, and their validation."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.io.errors import InputError

FEATURES = (
    "token_ids",
    "segment_ids",
    "padding_mask",
    "position_ids",
    "example_ids",
    "global_mask",
)
_OTHER_NAMES = {  # from `transformers`, Google's BERT, TF Hub and keras-bert
    "input_ids": "token_ids",
    "input_word_ids": "token_ids",
    "Input-Token": "token_ids",
    "token_type_ids": "segment_ids",
    "input_type_ids": "segment_ids",
    "Input-Segment": "segment_ids",
    "attention_mask": "padding_mask",
    "input_mask": "padding_mask",
    "global_attention_mask": "global_mask",
}


def symbols(config: EncoderConfig) -> dict[str, keras.KerasTensor]:
    """Returns inputs for a functional model; all but `token_ids` are optional."""
    names = [n for n in FEATURES if n != "global_mask" or config.max_global_tokens is not None]
    return {
        name: keras.Input((None,), dtype="int32", name=name, optional=name != "token_ids")
        for name in names
    }


def with_all_names(features: Any) -> dict[str, Any]:
    """Converts features, or `token_ids` alone, to a dict with every name; missing ones are None."""
    if not isinstance(features, dict):
        features = {"token_ids": features}
    if features.get("token_ids") is None or not set(features) <= set(FEATURES):
        raise ValueError(
            f"features must have token_ids and may have {', '.join(FEATURES[1:])}. "
            f"Received: {sorted(features)}.{renamed(features)}"
        )
    return {name: features.get(name) for name in FEATURES}


def renamed(names: Iterable[str]) -> str:
    """Returns a hint on how to rename features named as in other libraries, or ""."""
    names = list(names)
    known = _OTHER_NAMES | {name: name for name in FEATURES}
    pairs = [f'"{known[name]}": x["{name}"]' for name in names if name in known]
    return f" Write {{{', '.join(pairs)}}}." if _OTHER_NAMES.keys() & set(names) else ""


def checked(features: Any, config: EncoderConfig) -> dict[str, Any]:
    """Validates features and returns them in the form of `with_all_names`."""
    found = with_all_names(features)
    for name, value in found.items():
        if value is not None:
            found[name] = _check_ids(name, value)
    check_values(found, config)
    _check_global_mask(found["global_mask"], config)
    _check_equal_shapes(found)
    length = found["token_ids"].shape[1]
    if found["position_ids"] is None and length and length > config.max_length:
        raise ValueError(
            f"token_ids may be up to max_length={config.max_length} long. Received: length={length}"
        )
    return found


def check_values(features: dict[str, Any], config: EncoderConfig) -> None:
    """Raises on ids without an embedding, where values are known (not while tracing a graph)."""
    limits = {
        "token_ids": config.vocabulary_size,
        # 0 (no segment embeddings) skips the check: the ids are not used.
        "segment_ids": config.num_segments,
        "position_ids": config.max_length,
    }
    for name, limit in limits.items():
        value = features.get(name)
        known = None if value is None or not limit else _values(value)
        if known is None or not known.size or 0 <= known.min() <= known.max() < limit:
            continue
        index = np.unravel_index(np.argmax((known < 0) | (known >= limit)), known.shape)
        raise InputError(
            f"{name} must be in [0, {limit}). Received: {known[index]} at {list(map(int, index))}"
        )


def check_not_ragged(name: str, value: Any) -> None:
    """Raises an `InputError` for a ragged tensor, such as the result of `Tokenizer.tokenize`."""
    if hasattr(value, "row_splits"):
        raise InputError(f"{name}: rows differ in length; pad them, as tokenizer(texts) does.")


def _check_ids(name, value):
    check_not_ragged(name, value)
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    if len(value.shape) != 2:
        raise ValueError(f"{name} must be [batch, length]. Received: shape={tuple(value.shape)}")
    dtype = keras.backend.standardize_dtype(value.dtype)
    if "int" not in dtype and dtype != "bool":
        raise ValueError(f"{name} must be integers. Received: dtype={dtype}")
    return value


def _check_global_mask(mask, config):
    if mask is None:
        return
    if config.max_global_tokens is None:
        raise InputError(f"a {config.architecture} encoder has no global tokens: no global_mask.")
    known = _values(mask)
    count = 0 if known is None else int((known != 0).sum(axis=1).max(initial=0))
    if count > config.max_global_tokens:
        raise InputError(
            f"global_mask may have up to max_global_tokens={config.max_global_tokens} tokens in a "
            f"row. Received: {count}. Load the encoder with a larger max_global_tokens."
        )


def _check_equal_shapes(features):
    expected = tuple(features["token_ids"].shape)
    for name, value in features.items():
        received = expected if value is None else tuple(value.shape)
        if any(None not in pair and pair[0] != pair[1] for pair in zip(received, expected)):
            raise ValueError(
                f"{name} must have the shape of token_ids, {expected}. Received: shape={received}"
            )


def _values(tensor):
    """Returns the tensor's values as an array, or None while a graph is being traced."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return np.asarray(tensor)
    except (NotImplementedError, TypeError):  # a symbolic TensorFlow tensor or a JAX tracer
        return None
