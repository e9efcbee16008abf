"""The token ids of many texts, of which each word is tokenized once."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_bert_impl.pretraining.examples.row_layout import concatenated_spans

_AT_ONCE = 1 << 18  # characters
_PLAIN, _ALONE = 1, 2  # kinds of bytes; all others are 0
_WHITE_SPACE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]"  # what `str.split` splits at


class WordTokens:
    """Tokenizes texts: each word once, however often it comes.

    Texts are cut at spaces and at the tokenizer's `word_breaks`. Of the words of a block of
    Wikipedia a thirteenth are different ones, and half of those were in the block before, whose
    words are kept. With a tokenizer that has no word breaks whole texts are tokenized.

    Args:
        tokenizer: `Tokenizer`.

    Example:
        ids, lengths, num_words = WordTokens(tokenizer)([["a text", "its next sentence"], ["more"]])
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self._kinds = _kinds_of_bytes(tokenizer.word_breaks)
        self._words = pa.array([], pa.large_string())  # of the last texts, different ones
        self._parts = np.zeros(0, np.int64)  # of each word, where it has white space inside
        self._lengths = np.zeros(0, np.int64)  # of each word, in tokens
        self._ids = np.zeros(0, np.int32)  # of all words, one behind the other

    def __call__(self, paragraphs):
        """Tokenizes texts.

        Args:
            paragraphs: list of lists of str, texts without a line end. One that stands behind
                another one in its paragraph keeps a space in front: to a byte-level vocabulary the
                first word of a text is another piece than the same word behind a space.

        Returns:
            (the ids of all texts, int32 [tokens], how many each text has, int64 [texts], how many
            words they have, parted by white space of any kind, int).
        """
        if not self.tokenizer.word_breaks:
            texts = [text for first, *others in paragraphs for text in (first, *_behind(others))]
            num_words = sum(len(text.split()) for text in texts)
            return *_tokenized(texts, self._tokenize), num_words
        words, first_words, num_joined = self._cut([*itertools.chain.from_iterable(paragraphs)])
        words = words.dictionary_encode()
        self._learn(words.dictionary)
        places = words.indices.to_numpy().astype(np.intp)
        lengths = self._lengths[places]
        starts = (np.cumsum(self._lengths) - self._lengths)[places]
        return (
            concatenated_spans(self._ids, starts, lengths),
            np.add.reduceat(lengths, first_words),
            int(self._parts[places].sum() - num_joined),
        )

    def _tokenize(self, texts):
        ragged = self.tokenizer.tokenize(texts)
        return ragged.flat_values.numpy(), ragged.row_lengths().numpy()

    def _cut(self, texts):
        """Cuts texts in front of spaces, and beside word breaks where both sides are ASCII.

        Returns:
            (string array of words, each with its space, which of them begin a text, int64 [texts],
            how many have no space, being the rest of a word that was cut).
        """
        data = b"\n".join([b"", *map(str.encode, texts)])
        characters = np.frombuffer(data, np.uint8)
        begins = (characters == ord(" ")) | (characters == ord("\n"))
        num_spaces = np.count_nonzero(begins)
        kinds = np.frombuffer(data.translate(self._kinds), np.uint8)
        begins[1:] |= kinds[1:] * kinds[:-1] >= _ALONE
        starts = np.flatnonzero(begins)
        first_words = np.flatnonzero(characters[starts] == ord("\n"))
        # The words of an Arrow array lie one behind the other as well: nothing has to be moved.
        buffers = map(pa.py_buffer, (np.append(starts, len(data)), data.replace(b"\n", b" ")))
        words = pa.Array.from_buffers(pa.large_string(), len(starts), [None, *buffers])
        return words, first_words, len(starts) - num_spaces

    def _learn(self, words):
        """Keeps what is to know of these words, which differ, and no longer of those before."""
        places = pc.index_in(words, self._words).fill_null(-1).to_numpy().astype(np.int64)
        is_new = places < 0
        places[is_new] = len(self._words) + np.arange(np.count_nonzero(is_new))
        new = pc.ascii_ltrim(words.filter(pa.array(is_new)), " ")
        ids, lengths = _tokenized(new.to_pylist(), self.tokenizer.tokenize_words)
        ids, lengths = np.append(self._ids, ids), np.append(self._lengths, lengths)
        starts = (np.cumsum(lengths) - lengths)[places]
        self._words = words
        self._parts = np.append(self._parts, _number_of_parts(new))[places]
        self._lengths = lengths[places]
        self._ids = concatenated_spans(ids, starts, self._lengths)


def _tokenized(texts, tokenize):
    """(the ids of all texts, int32 [tokens], how many each has, int64 [texts])."""
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    batch = np.cumsum([len(text) for text in texts]) // _AT_ONCE
    bounds = [0, *(1 + np.flatnonzero(np.diff(batch))), len(texts)]
    for start, end in itertools.pairwise(bounds if texts else ()):
        some_ids, some_lengths = tokenize(texts[start:end])
        ids.append(some_ids)
        lengths.append(some_lengths)
    return np.concatenate(ids), np.concatenate(lengths)


def _behind(texts):
    return [f" {text}" for text in texts]


def _kinds_of_bytes(word_breaks):
    """bytes [256]: the kind of each byte, for `bytes.translate`."""
    kinds = bytearray(256)
    for byte in range(33, 127):  # ASCII without white space and control characters
        kinds[byte] = _ALONE if chr(byte) in word_breaks else _PLAIN
    return bytes(kinds)


def _number_of_parts(words):
    """int64 array: into how many parts white space cuts each of an array of words."""
    parts = (pc.binary_length(words).to_numpy() > 0).astype(np.int64)
    for place in np.flatnonzero(pc.match_substring_regex(words, _WHITE_SPACE).to_numpy(False)):
        parts[place] = len(words[place].as_py().split())
    return parts
