"""Extends a model's vocabulary with domain-specific subwords or other tokens."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.checkpoints.interop import (
    GENERATOR,
    all_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
)
from keras_bert_impl.checkpoints.interop.sentence_transformers import copy_sentence_settings
from keras_bert_impl.models.conversion.formats import (
    check_target,
    encoder_outputs,
    read_tensors,
    write_model,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.learning import learn_tokens
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.settings import PositiveInt, check

_PER_TOKEN = ("embeddings/token_embeddings", "masked_lm/output_bias")


class Augmented(NamedTuple):
    """The new tokens, and the mean number of tokens per word before and after the extension."""

    tokens: list[str]
    tokens_per_word: list[float]


def augment_vocabulary(
    source: str | Path,
    target: str | Path,
    texts: Iterable[str],
    num_tokens: int = 1000,
    min_frequency: int = 5,
) -> Augmented:
    """Extends a model's vocabulary with subwords of a domain.

    Args:
        source: A model directory or name.
        target: The directory to write.
        texts: Texts of the domain.
        num_tokens: Maximum number of new tokens.
        min_frequency: Minimum number of occurrences of a word or a pair of subwords.

    Raises:
        InputError: no new token occurs at least `min_frequency` times.

    Example:
        from keras_bert_impl.models.conversion.vocabulary_augmentation import augment_vocabulary
        texts = 5 * ["films"]
        augment_vocabulary("path/to/model", "larger", texts).tokens_per_word  # before and after

    Source: Yao et al. 2021, "Adapt-and-Distill", section 3.1. As in the paper, the embedding of a
        new token is initialized with the mean of the subword embeddings. The new tokens are
        selected by `learn_tokens`, which differs from the paper.
    """
    num_tokens = check("num_tokens", num_tokens, PositiveInt)
    min_frequency = check("min_frequency", min_frequency, PositiveInt)
    model, tokenizer = _open(source)
    larger, old_ids, tokens_per_word = learn_tokens(tokenizer, texts, num_tokens, min_frequency)
    if not old_ids:
        raise InputError(
            f"there are no tokens to add: no new token occurs at least {min_frequency} times in the "
            "texts. Pass more texts, or a lower min_frequency."
        )
    _write(target, model, tokenizer, larger, old_ids.values())
    return Augmented(list(old_ids), tokens_per_word)


def add_tokens(source: str | Path, target: str | Path, tokens: Iterable[Any]) -> Tokenizer:
    """Adds tokens such as `[E1]` to a model's vocabulary, which match only as literal strings."""
    model, tokenizer = _open(source)
    larger = tokenizer.add_tokens(tokens)
    new = larger.vocabulary[tokenizer.vocabulary_size :]
    old_ids = tokenizer.tokenize(new).to_list() if new else []
    _write(target, model, tokenizer, larger, [ids or [tokenizer.unk_id] for ids in old_ids])
    return larger


def _open(source):
    model = open_model(source)
    if (model.path / GENERATOR).is_dir():
        raise InputError(f"The vocabulary of the generator in {source} cannot be extended.")
    return model, Tokenizer.from_pretrained(model.path)


def _write(target, model, tokenizer, larger, old_ids):
    """Writes the extended model. `old_ids` contains the old token ids of each new token."""
    config = read_encoder_config(model)
    size = max(config.vocabulary_size, larger.vocabulary_size)
    tensors = read_tensors(model, config)
    encoder, heads = all_tensors(config)
    names = {name.tensor for name in encoder + heads if name.variable in _PER_TOKEN}
    for key, array in tensors.items():
        if key.removeprefix(f"{model.prefix}.") in names:
            tensors[key] = _extend_with_means(array, tokenizer.vocabulary_size, old_ids, size)
    described = model.config | huggingface_config(dataclasses.replace(config, vocabulary_size=size))
    described["architectures"] = model.config.get("architectures", described["architectures"])
    check_target(target, model)
    with replace_directory(target) as temporary:
        write_model(temporary, described, tensors, larger, config)
        copy_sentence_settings(model, temporary, config)
        written = open_model(temporary)
        encoder_outputs(written, read_encoder_config(written))


def _extend_with_means(array, first, old_ids, size):
    """Extends `array` to `size` rows. A new row is the mean of the rows of the old token ids."""
    rows = np.zeros((size, *array.shape[1:]), array.dtype)
    rows[: len(array)] = array  # A table may have more rows than the tokenizer has tokens.
    for number, ids in enumerate(old_ids, first):
        rows[number] = array[ids].mean(axis=0, dtype="float32")
    return rows
