"""The token ids of many texts, of which each word is tokenized once."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from keras_bert_impl.pretraining.row_layout import concatenated_spans

_AT_ONCE = 8192  # words
_MOST_KEPT = 1 << 18  # words; with their tokens some 20 MiB
_WHITE_SPACE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]"  # what `str.split` splits at


class WordTokens:
    """Tokenizes texts: what stands between spaces once, however often it comes.

    Of a block of Wikipedia an eighth of the words are different ones, and most of those were in the
    blocks before. They are kept from call to call, and forgotten when they are too many. With a
    tokenizer that looks over spaces (`spaces_separate` is False) whole texts are tokenized, and
    none is kept.

    Args:
        tokenizer: `Tokenizer`.

    Example:
        ids, lengths, num_words = WordTokens(tokenizer)(["a text", "another text"])
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self._forget()

    def _forget(self):
        self._words = pa.array([], pa.large_string())
        self._ids = np.zeros(0, np.int32)  # of all words, one behind the other
        self._lengths = np.zeros(0, np.int64)  # of each word, in tokens
        self._parts = np.zeros(0, np.int64)  # of each word, where it has white space inside

    def __call__(self, texts):
        """Tokenizes texts.

        Args:
            texts: list of str.

        Returns:
            (the ids of all texts, int32 [tokens], how many each text has, int64 [texts], how many
            words they have, parted by white space of any kind, int).
        """
        words, words_of_texts = pa.array(texts, pa.large_string()), np.ones(len(texts), np.int64)
        if self.tokenizer.spaces_separate:
            split = pc.split_pattern(words, " ")
            words, words_of_texts = split.flatten(), split.value_lengths().to_numpy()
        words = words.dictionary_encode()
        if not self.tokenizer.spaces_separate or len(self._words) > _MOST_KEPT:
            self._forget()
        places = self._learn(words.dictionary)[words.indices.to_numpy()]
        lengths = self._lengths[places]
        starts = (np.cumsum(self._lengths) - self._lengths)[places]
        first_words = np.cumsum(words_of_texts) - words_of_texts
        return (
            concatenated_spans(self._ids, starts, lengths),
            np.add.reduceat(lengths, first_words),
            int(self._parts[places].sum()),
        )

    def _learn(self, words):
        """int64 array: where each of some words, which differ, is among those that are kept."""
        places = pc.index_in(words, self._words).fill_null(-1).to_numpy().astype(np.int64)
        is_new = places < 0
        places[is_new] = len(self._words) + np.arange(np.count_nonzero(is_new))
        new = words.filter(pa.array(is_new))
        texts = new.to_pylist()
        ids, lengths = [self._ids], [self._lengths]
        for start in range(0, len(texts), _AT_ONCE):
            ragged = self.tokenizer.tokenize(tf.constant(texts[start : start + _AT_ONCE]))
            ids.append(ragged.flat_values.numpy())
            lengths.append(ragged.row_lengths().numpy())
        self._words = pa.concat_arrays([self._words, new])
        self._ids, self._lengths = np.concatenate(ids), np.concatenate(lengths)
        self._parts = np.concatenate([self._parts, _number_of_parts(new)])
        return places


def _number_of_parts(words):
    """int64 array: into how many parts white space cuts each of an array of words."""
    parts = (pc.binary_length(words).to_numpy() > 0).astype(np.int64)
    for place in np.flatnonzero(pc.match_substring_regex(words, _WHITE_SPACE).to_numpy(False)):
        parts[place] = len(words[place].as_py().split())
    return parts
