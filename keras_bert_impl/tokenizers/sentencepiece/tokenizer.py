"""SentencePiece unigram tokenizer of ALBERT, XLM-RoBERTa, CamemBERT and BigBird."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import keras
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import found_tokens, special_tokens
from keras_bert_impl.tokenizers.files import unique_in_order
from keras_bert_impl.tokenizers.graphs import (
    before,
    chosen,
    numbers_of,
    subwords_of_unique,
)
from keras_bert_impl.tokenizers.inputs import SegmentId
from keras_bert_impl.tokenizers.sentencepiece import files
from keras_bert_impl.tokenizers.sentencepiece.families import FAMILIES, SPACE_MARK
from keras_bert_impl.tokenizers.sentencepiece.unigram import UnigramModel
from keras_bert_impl.tokenizers.sentencepiece.words import MarkedWordSplitter, read_map
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, check

_BETWEEN = "\n"  # separator for words without a mark; it is never part of a word


@keras.saving.register_keras_serializable("keras_bert_impl")
class SentencePieceTokenizer(Tokenizer):
    """SentencePiece unigram tokenizer with the same ids and offsets as `tokenizers`.

    The character map of the model normalizes the text. ALBERT first decomposes the text, removes
    combining marks and lowercases. Special tokens are also recognized in a text. Offsets exclude
    the space before a token. A `▁` that is a separate token has the offsets of the next character.
    See docs/decisions/tokenizers.md for details.

    Args:
        family: `"ALBERT"`, `"XLM-RoBERTa"`, `"CamemBERT"` or `"BigBird"`.
        vocabulary: The tokens in id order, with `▁` for the space before a word.
        scores: Log probabilities of the tokens, without added tokens at the end of the vocabulary.
        character_map: the compiled map of the model in base64. Default: no normalization.
        added_tokens: str, `AddedToken` or dicts of its fields: additional tokens, matched as
            literal strings. Tokens missing from the vocabulary get the next ids. May also contain
            special tokens, to set how these are matched (see `AddedToken`).
        mask_strips_left: Whether the offsets of a mask token include the white space before the
            token, as in the published models.
        prepend_scheme: Where `▁` is added to words that do not begin with `▁`: `"always"` (all
            words), `"first"` (only the first word of a text) or `"never"`.
        segment_of_second: The segment id of the second text of a pair, 0 or 1. Default: 1 for
            ALBERT and BigBird, 0 for the other families.

    Raises:
        InputError: A token of the family is missing, a token occurs twice, a score is not finite,
            or `character_map` is damaged.

    Source: Kudo 2018 (arXiv:1804.10959); Lan et al. 2019 (arXiv:1909.11942), section 4.1; Conneau
    et al. 2019 (arXiv:1911.02116), section 3; Martin et al. 2019 (arXiv:1911.03894), section 4.

    Example:
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "<mask>"]
        tokenizer = SentencePieceTokenizer("XLM-RoBERTa", vocabulary, [0, 0, 0, 0, -2, -3, 0])
        tokenizer.tokenize(["ab b"])  # [[4, 5, 3, 5]]
        # 3 is <unk>: ▁ alone is no token of the vocabulary
    """

    kind = "SentencePiece"
    _read, _write = staticmethod(files.read), staticmethod(files.write)
    later_settings = {"prepend_scheme": "always"}

    def __init__(
        self,
        family: str,
        vocabulary: Sequence[str] | dict[str, int],
        scores: Iterable[float],
        character_map: str = "",
        added_tokens: Iterable[Any] = (),
        mask_strips_left: bool = True,
        prepend_scheme: str = "always",
        segment_of_second: int | None = None,
    ) -> None:
        self.family = check("family", family, Annotated[str, OneOf(*FAMILIES)])
        facts = FAMILIES[family]
        self.special_tokens = facts.special_tokens
        self.num_separators = facts.num_separators
        segment = facts.segment_of_second if segment_of_second is None else segment_of_second
        self.segment_of_second = check("segment_of_second", segment, SegmentId)
        vocabulary = unique_in_order(vocabulary)
        for token in self.special_tokens:
            if token not in vocabulary:
                raise InputError(f"the vocabulary lacks {token!r}, which {family} needs.")
        self._set_vocabulary(vocabulary, added_tokens)
        self.scores = _convert_scores(scores, self.vocabulary, self.added_tokens)
        self.character_map = character_map
        self.mask_strips_left = check("mask_strips_left", mask_strips_left, bool)
        self.prepend_scheme = check(
            "prepend_scheme", prepend_scheme, Annotated[str, OneOf("always", "first", "never")]
        )
        special = special_tokens(facts.special_tokens, self.mask_strips_left)
        tokens = found_tokens(special, self.added_tokens)
        self._token_ids = [self.token_to_id(token.content) for token in tokens]
        self._split = MarkedWordSplitter(
            tokens, read_map(character_map), facts.folds, prepend_scheme, facts.splits_at_spaces
        )
        scored, numbers = vocabulary[: len(self.scores)], self.scores
        if prepend_scheme != "always" and _BETWEEN not in scored:
            scored, numbers = [*scored, _BETWEEN], [*numbers, 0.0]
        self._model = UnigramModel(scored, numbers, self.unk_id)

    def _is_word_start(self, token):
        return token.startswith(SPACE_MARK)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "SentencePieceTokenizer":
        config = dict(config)
        if "extra_tokens" in config:  # The old name was `extra_tokens`.
            config["added_tokens"] = special_tokens(config.pop("extra_tokens"))
        return cls(**config)

    def _join(self, tokens):
        tokens = [self._split.written.get(token, token) for token in tokens]
        text = "".join(tokens).replace(SPACE_MARK, " ")
        drops_first = self.prepend_scheme != "never" and tokens and tokens[0][:1] == SPACE_MARK
        return text[1:] if drops_first else text

    def words(self, texts: tf.Tensor) -> tf.Tensor:
        words = self._split(texts)
        return chosen(words.strings, words.added < 0)

    def word_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return self._split_strings(words)[0]

    def _split_into_subwords(self, words):
        return subwords_of_unique(words, self._split_strings, self._token_ids)

    def _split_strings(self, words):
        """Returns (ids, starts, ends) of the tokens in string [words]."""
        characters, bounds = utf8.decode(words)  # A newline follows each word.
        # The newline after a word replaces the mark of the next word.
        characters = before(characters, ord("\n"))
        if self.prepend_scheme == "always":
            characters = tf.where(tf.equal(characters, ord("\n")), ord(SPACE_MARK), characters)
        ids, starts = self._model(characters)
        splits = tf.searchsorted(starts, bounds, out_type=tf.int64)
        ends = tf.concat([starts[1:], bounds[-1:]], axis=0)[: tf.size(starts)]
        ids = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        first = tf.gather(bounds, numbers_of(ids.row_lengths()))
        tokens = ids, ids.with_values(starts - first), ids.with_values(ends - first)
        if self.prepend_scheme == "always":
            return tokens
        return tuple(values[:, 1:] for values in tokens)  # removes the separators between words


def _convert_scores(scores, vocabulary, added_tokens):
    scores = [float(score) for score in scores]
    unscored = {*vocabulary[len(scores) :]} - {"", *(token.content for token in added_tokens)}
    if unscored or len(scores) > len(vocabulary):
        raise InputError(
            f"each token needs a score. Received: {len(vocabulary)} tokens, {len(scores)} scores"
        )
    for token, score in zip(vocabulary, scores):
        if not math.isfinite(score):
            raise InputError(f"the score of {token!r:.40} must be a finite number, not {score}.")
    return scores
