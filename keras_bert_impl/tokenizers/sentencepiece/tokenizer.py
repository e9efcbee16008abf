"""SentencePiece unigram tokenizer of ALBERT, XLM-RoBERTa and CamemBERT, in the graph."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import OneOf, check
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

_BETWEEN = "\n"  # separates words that have no mark; never part of a word


@keras.saving.register_keras_serializable("keras_bert_impl")
class SentencePieceTokenizer(Tokenizer):
    """A unigram tokenizer in the graph, with the same ids and offsets as `tokenizers`.

    The text is normalized with the model's own character map; for ALBERT it is first decomposed,
    stripped of marks and lowercased. A special token written in the text becomes that token.
    Offsets exclude the space before a token; a lone `▁` has the offsets of the next character.
    docs/decisions/tokenizers.md has the details.

    Args:
        family: `"ALBERT"`, `"XLM-RoBERTa"` or `"CamemBERT"`.
        vocabulary: The token of each id, with `▁` for the space before a word.
        scores: Log probabilities of the tokens. Added tokens at the end of the vocabulary have
            none.
        character_map: base64 of the model's compiled map. Default: no normalization.
        added_tokens: str, `AddedToken` or dicts of its fields: additional tokens matched literally
            in the text. Those missing from the vocabulary get the next ids. A special token listed
            here changes how it is matched.
        mask_strips_left: Whether a mask in the text includes the white space before it, as in the
            published models. Only its offsets depend on this.
        prepend_scheme: The words that get a `▁` if they have none: `"always"`, `"first"` (the word
            at the start of a text) or `"never"`.
        segment_of_second: The segment id of the second text of a pair, 0 or 1. Default: 1 for
            ALBERT and 0 for the other families.

    Raises:
        InputError: If a token that the family needs is missing, a token occurs twice, a score is
            not a finite number, or the map is damaged.

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
                raise InputError(f"the vocabulary lacks {token!r}, which {family}'s tokenizer has.")
        self._set_vocabulary(vocabulary, added_tokens)
        self.scores = _as_numbers(scores, self.vocabulary, self.added_tokens)
        self.character_map = character_map
        self.mask_strips_left = check("mask_strips_left", mask_strips_left, bool)
        self.prepend_scheme = check(
            "prepend_scheme", prepend_scheme, Annotated[str, OneOf("always", "first", "never")]
        )
        special = special_tokens(facts.special_tokens, self.mask_strips_left)
        tokens = found_tokens(special, self.added_tokens)
        self._token_ids = [self.token_to_id(token.content) for token in tokens]
        self._split = MarkedWordSplitter(
            tokens, read_map(character_map), facts.folds, prepend_scheme
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
        if "extra_tokens" in config:  # an earlier version's name
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
        return self._subwords_of(words)[0]

    def _subwords(self, words):
        return subwords_of_unique(words, self._subwords_of, self._token_ids)

    def _subwords_of(self, words):
        """Returns the ids, starts and ends of the tokens of string [words]."""
        characters, bounds = utf8.decode(words)  # with a newline after each
        # The newline of a word provides the position of the next word's mark.
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
        return tuple(values[:, 1:] for values in tokens)  # drop the separators between words


def _as_numbers(scores, vocabulary, added_tokens):
    scores = [float(score) for score in scores]
    rest = {*vocabulary[len(scores) :]} - {"", *(token.content for token in added_tokens)}
    if rest or len(scores) > len(vocabulary):
        raise InputError(f"{len(vocabulary)} tokens, but {len(scores)} scores.")
    for token, score in zip(vocabulary, scores):
        if not math.isfinite(score):
            raise InputError(f"the score of {token!r:.40} is {score}; scores are finite numbers.")
    return scores
