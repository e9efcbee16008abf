"""WordPiece as BERT has it, as one graph of TensorFlow and TensorFlow Text operations."""

import functools

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text

from keras_bert_impl.tokenizers import wordpiece_files
from keras_bert_impl.tokenizers.tokenizer import Tokenizer, in_graph
from keras_bert_impl.tokenizers.translation import Translation
from keras_bert_impl.tokenizers.words import (
    EMPTY_WORD,
    MAX_CHARACTERS,
    SPECIAL_TOKENS,
    SPECIAL_WORDS,
    TEXT_END,
    WORD_BREAKS,
    WordSplitter,
)


@keras.saving.register_keras_serializable("keras_bert_impl")
class WordPieceTokenizer(Tokenizer):
    """BERT's tokenizer, equal to `tokenizers`' in ids and offsets, running in graph.

    Works eagerly, in `tf.data`, in `tf.function`, and in a SavedModel, whose only needs are then
    TensorFlow and TensorFlow Text. Words become pieces by longest match first; a word with a part
    that no piece fits, or of more than 100 characters, becomes [UNK]. A special token written
    in the text, such as [MASK], becomes that token. Invalid UTF-8 is dropped.
    Source: Devlin et al. 2018 (arXiv:1810.04805), section 3; docs/tokenization.md has the details.

    Args:
        vocabulary: list of str, the token of each id. Holds [PAD], [UNK], [CLS], [SEP], [MASK].
        lowercase: bool: lowercase and strip accents, as the uncased models do. Default True.

    Raises:
        InputError: the vocabulary is empty, has a token twice or lacks a special token.

    Example:
        tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
        tokenizer.tokenize(["AB a"])  # [[5, 6, 5]]
    """

    kind = "wordpiece"
    word_breaks = WORD_BREAKS

    def __init__(self, vocabulary, lowercase=True):
        self.vocabulary = list(vocabulary)
        self.lowercase = bool(lowercase)
        wordpiece_files.check_vocabulary(self.vocabulary)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = map(
            self.vocabulary.index, SPECIAL_TOKENS
        )
        self._split = WordSplitter(self.lowercase)
        self._translation = Translation(self._split.table)
        with tf.init_scope():
            self._pieces = tensorflow_text.FastWordpieceTokenizer(
                vocab=_unreachable(self.vocabulary),
                unknown_token=SPECIAL_WORDS["[UNK]"],
                max_bytes_per_word=4 * MAX_CHARACTERS,
                token_out_type=tf.int32,
                no_pretokenization=True,
            )

    @classmethod
    def from_pretrained(cls, directory):
        """Reads `vocab.txt` (or `tokenizer.json`) and `tokenizer_config.json` of a directory.

        Args:
            directory: str or `Path`. Without a configuration the text is lowercased, with a
                warning.

        Raises:
            InputError: a file is missing or damaged, or asks for something not supported.
        """
        return cls(*wordpiece_files.read(directory))

    def save_pretrained(self, directory):
        """Writes vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

        `transformers.AutoTokenizer` reads them and gives the same ids.

        Args:
            directory: str or `Path`; made if needed. Other files in it stay.
        """
        wordpiece_files.write(directory, self.vocabulary, self.lowercase)

    def _is_word_start(self, piece):
        return not piece.startswith("##")

    def get_config(self):
        """The arguments that it was made with, for `.keras` files."""
        return {"vocabulary": self.vocabulary, "lowercase": self.lowercase}

    def detokenize(self, ids):
        """Joins the pieces of one sequence of ids to a text.

        Args:
            ids: list or array of int [tokens]. [PAD], [CLS] and [SEP] are left out.

        Returns:
            str: words with a space between them, as the vocabulary has them.
        """
        pieces = self._without_frame(ids)
        return " ".join(pieces).replace(" ##", "")

    def words(self, texts):
        return self._split(texts).ordinary()

    def word_ids(self, words):
        return self._pieces.tokenize(words)

    def tokenize_words(self, words):
        """What `tokenize` gives, without its graph, for many different words at once.

        Args:
            words: list of str, of any text without a line end.

        Returns:
            (the ids of all words, int32 [tokens], how many each has, int64 [words]).
        """
        parts = self._translation(words)
        if parts is None:
            ragged = self.tokenize(words)
            return ragged.flat_values.numpy(), ragged.row_lengths().numpy()
        pieces = self._pieces.tokenize(tf.constant(parts, tf.string))
        is_end = np.fromiter(map(TEXT_END.__eq__, parts), bool, len(parts))
        ends = pieces.row_splits.numpy()[:-1][is_end]  # of the unknown token that each becomes
        lengths = np.diff(ends, prepend=-1) - 1
        return np.delete(pieces.flat_values.numpy(), ends), lengths

    @functools.cached_property
    def _tokenize(self):
        def tokenize(texts):
            words = self._split(texts)
            return words.per_text(self._pieces.tokenize(words.strings()))

        return in_graph(tokenize)

    @functools.cached_property
    def _with_offsets(self):
        def tokenize_with_offsets(texts):
            words = self._split(texts)
            ids, starts, ends = self._pieces.tokenize_with_offsets(words.strings())
            return words.per_text(ids), *words.offsets(starts, ends)

        return in_graph(tokenize_with_offsets)


def _unreachable(vocabulary):
    """The vocabulary with words in place of special and empty tokens that no text contains."""
    words = SPECIAL_WORDS | {"": EMPTY_WORD}
    return [words.get(token, token) for token in vocabulary]
