"""The token ids of many texts, of which each word is tokenized once."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from keras_bert_impl.pretraining.row_layout import concatenated_spans

_AT_ONCE = 8192  # texts


def tokenize_words(texts, tokenizer):
    """Tokenizes texts: what stands between spaces once, however often it comes.

    Of a block of Wikipedia an eighth of the words are different ones. With a tokenizer that looks
    over spaces (`spaces_separate` is False) whole texts are tokenized.

    Args:
        texts: list of str.
        tokenizer: `Tokenizer`.

    Returns:
        (the ids of all texts, int32 [tokens], how many each text has, int64 [texts]).

    Example:
        ids, lengths = tokenize_words(["a text", "another text"], tokenizer)
    """
    words, words_of_texts = pa.array(texts, pa.large_string()), np.ones(len(texts), np.int64)
    if tokenizer.spaces_separate:
        split = pc.split_pattern(words, " ")
        words, words_of_texts = split.flatten(), split.value_lengths().to_numpy()
    words = words.dictionary_encode()
    numbers, different = words.indices.to_numpy(), words.dictionary.to_pylist()
    ids, lengths = [], []  # of those that differ
    for start in range(0, len(different), _AT_ONCE):
        ragged = tokenizer.tokenize(tf.constant(different[start : start + _AT_ONCE]))
        ids.append(ragged.flat_values.numpy())
        lengths.append(ragged.row_lengths().numpy())
    ids, lengths = np.concatenate(ids), np.concatenate(lengths)
    starts, lengths = (np.cumsum(lengths) - lengths)[numbers], lengths[numbers]
    first_words = np.cumsum(words_of_texts) - words_of_texts
    return concatenated_spans(ids, starts, lengths), np.add.reduceat(lengths, first_words)
