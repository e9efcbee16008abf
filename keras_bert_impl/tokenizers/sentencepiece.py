"""SentencePiece's unigram models as ALBERT, XLM-RoBERTa and CamemBERT have them, in graph."""

import functools
import math

import keras
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.tokenizers import added_tokens, sentencepiece_files, utf8
from keras_bert_impl.tokenizers.character_map import read_map
from keras_bert_impl.tokenizers.sentencepiece_families import FAMILIES
from keras_bert_impl.tokenizers.sentencepiece_words import MarkedWordSplitter
from keras_bert_impl.tokenizers.tokenizer import Tokenizer, in_graph, per_text
from keras_bert_impl.tokenizers.unigram import SPACE_MARK, UnigramModel

_ARGUMENTS = (
    "family",
    "vocabulary",
    "scores",
    "character_map",
    "extra_tokens",
    "mask_strips_left",
)


@keras.saving.register_keras_serializable("keras_bert_impl")
class SentencePieceTokenizer(Tokenizer):
    """A unigram tokenizer, equal to `tokenizers`' in ids and offsets, running in graph.

    The text is normalized by the model's own map of characters; ALBERT's is decomposed, stripped
    of marks and lowercased before that. A special token written in the text becomes that token.
    Offsets leave out the space before a piece; a `▁` by itself has the place of the character after
    it. docs/tokenization.md has the details.

    Args:
        family: str, `"ALBERT"`, `"XLM-RoBERTa"` or `"CamemBERT"`.
        vocabulary: list of str, the token of each id, with `▁` for the space before a word.
        scores: list of float, logarithms of the probabilities of the tokens.
        character_map: str, base64 of the model's compiled map. Default `""`: no normalization.
        extra_tokens: list of str, which are found in texts as special tokens are. Default none.
        mask_strips_left: bool. Whether a mask in the text takes the white space before it along;
            only its offset shows that. Default True, as in the published models.

    Raises:
        InputError: a token that the family needs is missing, a token is there twice, a score is
            no number, or the map is damaged.

    Source: Kudo 2018 (arXiv:1804.10959); Lan et al. 2019 (arXiv:1909.11942), section 4.1; Conneau
    et al. 2019 (arXiv:1911.02116), section 3; Martin et al. 2019 (arXiv:1911.03894), section 4.

    Example:
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "<mask>"]
        tokenizer = SentencePieceTokenizer("XLM-RoBERTa", vocabulary, [0, 0, 0, 0, -2, -3, 0])
        tokenizer.tokenize(["ab b"])  # [[4, 5, 3, 5]], where 3 is the ▁ that is no piece
    """

    kind = "SentencePiece"

    def __init__(
        self,
        family,
        vocabulary,
        scores,
        character_map="",
        extra_tokens=(),
        mask_strips_left=True,
    ):
        if family not in list(FAMILIES):
            raise InputError(f"family {family!r} is not supported, only {', '.join(FAMILIES)}.")
        facts = FAMILIES[family]
        self.family = family
        self.vocabulary = list(vocabulary)
        self.scores = _as_numbers(scores, self.vocabulary)
        self.character_map = character_map
        self.extra_tokens = list(extra_tokens)
        self.mask_strips_left = bool(mask_strips_left)
        self.num_separators, self.segment_of_second = facts.num_separators, facts.segment_of_second
        ids = _numbered(self.vocabulary)
        self._tokens = [*facts.special_tokens, *self.extra_tokens]
        for token in self._tokens:
            if token not in ids:
                raise InputError(f"the vocabulary lacks {token!r}, which {family}'s tokenizer has.")
        added_tokens.check(self._tokens)
        self._token_ids = [ids[token] for token in self._tokens]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self._token_ids[:5]
        self._split = MarkedWordSplitter(
            self._tokens,
            read_map(character_map),
            facts.folds,
            facts.special_tokens[-1] if self.mask_strips_left else None,
        )
        self._model = UnigramModel(self.vocabulary, self.scores, self.unk_id)

    def _is_word_start(self, piece):
        return piece.startswith(SPACE_MARK)

    def get_config(self):
        """The arguments that it was made with, for `.keras` files."""
        return {name: getattr(self, name) for name in _ARGUMENTS}

    def detokenize(self, ids):
        """The text of one sequence of ids.

        Args:
            ids: list or array of int [tokens]. Those that begin, end and pad rows are left out.

        Returns:
            str, as the vocabulary writes it: lost are what normalization changed and spaces
            beside special tokens.
        """
        pieces = self._without_frame(ids)
        return "".join(pieces).replace(SPACE_MARK, " ").removeprefix(" ")

    @classmethod
    def from_pretrained(cls, directory):
        """Reads `tokenizer.json`, `spiece.model` or `sentencepiece.bpe.model` of a directory.

        Args:
            directory: str or `Path`; its `tokenizer_config.json` or `config.json` says which
                family it is of.

        Raises:
            InputError: a file is missing or damaged, or asks for something not supported.
        """
        return cls(**sentencepiece_files.read(directory))

    def save_pretrained(self, directory):
        """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json.

        `transformers.AutoTokenizer` reads them and gives the same ids.

        Args:
            directory: str or `Path`; made if needed. Other files in it stay.
        """
        sentencepiece_files.write(directory, **self.get_config())

    def words(self, texts):
        words = self._split(texts)
        return tf.boolean_mask(words.strings, words.added < 0)

    def word_ids(self, words):
        return self._pieces_of_words(words)[0]

    @functools.cached_property
    def _tokenize(self):
        def tokenize(texts):
            words = self._split(texts)
            return per_text(self._pieces(words)[0], words)

        return in_graph(tokenize)

    @functools.cached_property
    def _with_offsets(self):
        def tokenize_with_offsets(texts):
            words = self._split(texts)
            ids, starts, ends = self._pieces(words)
            starts, ends = words.characters_of(starts, ends)  # [pieces]
            ids = per_text(ids, words)
            before = tf.gather(words.text_starts, ids.value_rowids())
            return ids, ids.with_values(starts - before), ids.with_values(ends - before)

        return in_graph(tokenize_with_offsets)

    def _pieces(self, words):
        """Ids of each word's pieces, and the characters that they begin with and end before.

        All ragged [words, (pieces)]; the first character of a word is its mark.
        """
        unique, number = tf.unique(words.strings)
        number = tf.where(words.added >= 0, tf.size(unique) + words.added, number)
        nothing = [0] * len(self._tokens)
        added = self._token_ids, nothing, [1] * len(self._tokens)
        pieces = [
            tf.concat([values, tf.RaggedTensor.from_tensor(tf.constant(more)[:, tf.newaxis])], 0)
            for values, more in zip(self._pieces_of_words(unique), added)
        ]
        return [tf.gather(values, number) for values in pieces]

    def _pieces_of_words(self, words):
        """The same of words, string [words], none of them an added token."""
        characters, bounds = utf8.decode(words)  # with a line end after each
        # The line end of a word is the place for the mark of the next one.
        characters = tf.concat([[ord("\n")], characters[:-1]], axis=0)[: tf.size(characters)]
        characters = tf.where(tf.equal(characters, ord("\n")), ord(SPACE_MARK), characters)
        ids, starts = self._model(characters)
        splits = tf.searchsorted(starts, bounds, out_type=tf.int64)
        ends = tf.concat([starts[1:], bounds[-1:]], axis=0)[: tf.size(starts)]
        ids = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        first = tf.gather(bounds, ids.value_rowids())
        return ids, ids.with_values(starts - first), ids.with_values(ends - first)


def _as_numbers(scores, vocabulary):
    scores = [float(score) for score in scores]
    if len(scores) != len(vocabulary):
        raise InputError(f"{len(vocabulary)} tokens, but {len(scores)} scores.")
    for token, score in zip(vocabulary, scores):
        if not math.isfinite(score):
            raise InputError(f"the score of {token!r:.40} is {score}; scores are finite numbers.")
    return scores


def _numbered(vocabulary):
    """The id of each token."""
    ids = {}
    for number, token in enumerate(vocabulary):
        if token in ids:
            raise InputError(f"the token {token!r:.40} has the ids {ids[token]} and {number}.")
        ids[token] = number
    return ids
