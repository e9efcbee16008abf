"""Data augmentation for labeled texts: replaces words with model predictions."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_bert_impl.data.batches.windows import tokenize_windows
from keras_bert_impl.data.batches.words import align_tokens, find_words, single_token_words
from keras_bert_impl.data.scores.decisions import unit_length
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.tasks.base.fitting import outputs_of_batch
from keras_bert_impl.tasks.language_modeling.masked_batches import masked_batches
from keras_bert_impl.tasks.language_modeling.model import MaskedLM
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.settings import Seed, check

_CHUNK = 1024  # number of words to compare with the vocabulary at once


def augment(
    model: MaskedLM,
    examples: Examples,
    copies: int = 20,
    rate: float = 0.4,
    top_k: int = 15,
    seed: int = 0,
    batch_size: int = 32,
) -> Examples:
    """Returns labeled texts, each followed by copies with some words replaced.

    A word that is a single token is masked and replaced by one of the model's `top_k` predictions.
    For a word of several subwords, the mean of the subword embeddings is compared with the input
    embeddings of the vocabulary. The word is replaced by one of the `top_k` words with the highest
    cosine similarity. (The source uses GloVe embeddings.) All replacements are single tokens that
    contain a letter. Words without letters, such as numbers and punctuation, are kept. The texts of
    a pair are augmented separately.

    Random choices depend only on the seed and the index of the text.

    Args:
        copies: maximum number of copies per text; duplicates are dropped.
        rate: float in (0, 1]. Probability of replacing a word.
        top_k: number of candidate replacements per word.
        batch_size: rows per batch; a text of n words has n rows.

    Returns:
        `Examples`, with the labels of the original texts.

    Raises:
        InputError: the examples are not labeled texts, a number is out of range, or the vocabulary
            has no words.

    Source: Jiao et al. 2020, "TinyBERT", algorithm 1.

    Example:
        from keras_bert_impl.tasks import augment, read_table
        model = MaskedLM.from_pretrained("bert-base-uncased")
        more = augment(model, read_table("train.csv", "text", label="label"))
    """
    if not isinstance(examples, Examples) or examples.labels is None:
        raise InputError(f"augment takes labeled texts. Received: {type(examples).__name__}")
    for name, value in (("copies", copies), ("top_k", top_k), ("batch_size", batch_size)):
        if value < 1:
            raise InputError(f"{name} must be at least 1. Received: {value}")
    if not 0 < rate <= 1:
        raise InputError(f"rate must be in (0, 1]. Received: {rate}")
    seed = check("seed", seed, Seed)
    is_pair = isinstance(examples.texts[0], tuple)
    segments = [s for text in examples.texts for s in (text if is_pair else (text,))]
    sentences = [find_words(segment) for segment in segments]
    candidates = _find_candidates(model, sentences, top_k, batch_size)
    width = 2 if is_pair else 1
    texts: list = []
    rows: list[int] = []
    for row, original in enumerate(examples.texts):
        draw = np.random.default_rng([seed, row])
        variants = {original: None}  # keys are an ordered set
        parts = slice(row * width, (row + 1) * width)
        for _ in range(copies):
            copy = [_copy(*part, rate, draw) for part in zip(sentences[parts], candidates[parts])]
            variants[tuple(copy) if is_pair else copy[0]] = None
        texts += variants
        rows += [row] * len(variants)
    row_fields: dict[str, Any] = {
        name: values and [values[row] for row in rows]
        for name, values in (("labels", examples.labels), ("lines", examples.lines))
    }
    return dataclasses.replace(examples, texts=texts, **row_fields)


def write_examples(
    path: str | Path,
    examples: Examples,
    text: str,
    pair: str | None = None,
    label: str | None = None,
) -> None:
    """Writes labeled texts as JSON lines for `read_table`; class indices are written as names.

    Args:
        path: the `.jsonl` file.
        text, pair, label: column names; None for columns that do not exist.
    """
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for row, content in enumerate(examples.texts):
            values = dict(zip((text, pair), content)) if pair else {text: content}
            if label:
                value = examples.labels[row]
                is_number = isinstance(value, (int, np.integer)) and examples.label_names
                values[label] = examples.label_names[value] if is_number else value
            file.write(json.dumps(values, ensure_ascii=False) + "\n")


def _copy(words, candidates, rate, draw):
    """Returns the text with some words replaced.

    Args:
        candidates: string array [words, top_k]; empty strings for words to keep.
    """
    is_drawn = draw.random(len(words.starts)) < rate
    choices = draw.integers(candidates.shape[1], size=len(words.starts))
    parts, end = [], 0
    for word in np.flatnonzero(is_drawn):
        if candidates[word, 0]:
            parts += [words.text[end : words.starts[word]], candidates[word, choices[word]]]
            end = words.ends[word]
    return "".join([*parts, words.text[end:]])


def _find_candidates(model, sentences, top_k, batch_size):
    """Returns an array of candidate replacements per text, string [words, top_k]."""
    vocabulary = single_token_words(model.tokenizer)
    top_k = min(top_k, len(vocabulary) - 1)
    if top_k < 1:
        raise InputError("the vocabulary of the model has no words to use as replacements.")
    limit = model.encoder.config.max_length
    texts = [words.text for words in sentences]
    tokenized = tokenize_windows(texts, model.tokenizer, limit, limit // 2)
    alignment = align_tokens(sentences, tokenized)
    num_tokens = np.bincount(alignment.words[alignment.words >= 0], minlength=len(alignment.firsts))
    num_tokens[[not has for words in sentences for has in _has_letters(words)]] = 0

    context_positions = np.flatnonzero(tokenized.has_most_context)
    positions = np.zeros(len(alignment.words), "int64")  # [tokens], positions in the windows
    positions[tokenized.token_numbers()[context_positions]] = context_positions
    ids = np.array(list(vocabulary))
    best = np.full((len(num_tokens), top_k), -1)
    alone, several = np.flatnonzero(num_tokens == 1), np.flatnonzero(num_tokens > 1)
    if len(alone):
        masks = positions[alignment.firsts[alone]]
        best[alone] = _guess_words(model, tokenized, masks, ids, top_k, batch_size)
    if len(several):
        token_ids = tokenized.token_ids.numpy()[positions]
        best[several] = _find_neighbours(model, token_ids, alignment.words, several, ids, top_k)
    strings = np.array([*vocabulary.values(), ""], dtype=object)[best]
    return np.split(strings, alignment.word_splits[1:-1])


def _has_letters(words):
    for start, end in zip(words.starts, words.ends):
        yield any(map(str.isalpha, words.text[start:end]))


def _guess_words(model, tokenized, masks, ids, top_k, batch_size):
    """Returns the indices in `ids` of the top_k predicted words, int [masks, top_k].

    Args:
        masks: int64 [masks], positions in the concatenated windows. Each row has one mask.
        ids: int array [words], candidate tokens. The original token is never chosen.
    """
    rows, columns = (array[masks] for array in tokenized.columns())
    order = np.argsort(tokenized.lengths.numpy()[rows], kind="stable")
    data = masked_batches(
        tokenized, rows[order], columns[order], model.tokenizer.mask_id, batch_size
    )
    words = ids.astype("int32")

    def guess(features, originals):
        logits = outputs_of_batch(model, features)[:, 0, words]  # [rows, words]
        is_original = words == originals.numpy()[:, None]
        best = ops.top_k(np.where(is_original, -np.inf, logits), top_k)[1]
        return ops.convert_to_numpy(best)

    guesses = np.concatenate([guess(*batch) for batch in data])
    return guesses[np.argsort(order)]


def _find_neighbours(model, token_ids, words_of_tokens, words, ids, top_k):
    """Returns the indices in `ids` of the nearest embeddings, int [words, top_k].

    Args:
        token_ids: int array [tokens].
        words_of_tokens: int64 [tokens], index of the word that contains each token.
        words: int64 [words], indices of the words with several tokens, ascending.
    """
    table = np.asarray(model.encoder.embeddings.token_embeddings, "float32")
    targets = unit_length(table[ids])
    tokens = np.flatnonzero(np.isin(words_of_tokens, words))
    begins = np.searchsorted(words_of_tokens[tokens], words)  # the tokens of a word are adjacent
    nearest = []
    for first in range(0, len(words), _CHUNK):
        ends = np.append(begins, len(tokens))[first : first + _CHUNK + 1]
        part = table[token_ids[tokens[ends[0] : ends[-1]]]]
        sums = np.add.reduceat(part, ends[:-1] - ends[0], axis=0)
        cosines = unit_length(sums) @ targets.T  # [words of the chunk, ids]
        nearest.append(np.argsort(-cosines, axis=1, kind="stable")[:, :top_k])
    return np.concatenate(nearest)
