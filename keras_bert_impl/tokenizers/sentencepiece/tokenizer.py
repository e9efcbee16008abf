"""SentencePiece unigram tokenizer of ALBERT, XLM-RoBERTa and CamemBERT, in the graph."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import OneOf, check
from keras_bert_impl.tokenizers.added_tokens import found_tokens, special_tokens
from keras_bert_impl.tokenizers.files import unique_in_order
from keras_bert_impl.tokenizers.graphs import (
    before,
    chosen,
    numbers_of,
    places_of,
    subwords_of_unique,
)
from keras_bert_impl.tokenizers.inputs import SegmentId
from keras_bert_impl.tokenizers.sentencepiece import files
from keras_bert_impl.tokenizers.sentencepiece.families import FAMILIES, SPACE_MARK
from keras_bert_impl.tokenizers.sentencepiece.words import MarkedWordSplitter, read_map
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS, CodePointTable, shared_blocks

_BETWEEN = "\n"  # separates words that have no mark; no word contains it

_UNKNOWN_PENALTY = 10.0  # below the lowest score
_MAX_CHARACTERS = 128  # per piece; published ones have 16


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
        added_tokens: str, `AddedToken` or dicts of its fields: further tokens matched literally in
            the text. Those missing from the vocabulary get the next ids. A special token listed
            here changes how it is matched.
        mask_strips_left: Whether a mask in the text includes the white space before it, as in the
            published models. This affects only its offsets.
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
        # The newline of a word provides the position of the next one's mark.
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


class UnigramModel:
    """Splits words into the pieces with the highest total score.

    Source: Kudo 2018 (arXiv:1804.10959), section 3.2; Viterbi 1967.
    """

    def __init__(self, vocabulary: list[str], scores: list[float], unk_id: int) -> None:
        # Words have a mark only at the start, so a piece with another one can never match.
        ids = [i for i, piece in enumerate(vocabulary) if piece and SPACE_MARK not in piece[1:]]
        self._unk_id = unk_id
        self._unk_score = np.float64(min(scores) - _UNKNOWN_PENALTY)
        self._scores = np.array(scores, np.float64)
        longest = max((len(vocabulary[i]) for i in ids), default=1)
        if longest > _MAX_CHARACTERS:
            raise InputError(
                f"the vocabulary has a piece of {longest} characters; at most {_MAX_CHARACTERS}."
            )
        letters = np.zeros([len(ids), longest], np.int64)  # 0 after the end
        for row, i in enumerate(ids):
            letters[row, : len(vocabulary[i])] = [ord(character) for character in vocabulary[i]]
        alphabet = np.unique(letters[letters > 0])
        entries = np.zeros(CODE_POINTS, np.int32)
        entries[alphabet] = 1 + np.arange(len(alphabet))
        self._letters = CodePointTable(*shared_blocks(entries))
        self._num_letters = len(alphabet) + 1
        self._levels = list(_levels(entries[letters], np.array(ids, np.int64), self._num_letters))

    def __call__(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Splits words into pieces.

        Args:
            characters: int32 [n], code points of all words, each of which begins with SPACE_MARK
                and has no other one.

        Returns:
            (ids, starts): int32 [pieces], and the index of each piece's first character.
        """
        begins = tf.equal(characters, ord(SPACE_MARK))  # of words
        first, size, ids = self._matches(characters, begins)
        segments = _Segments(tf.size(characters), first, size)
        num_columns = len(self._levels)  # the last is for single-character pieces
        row = tf.gather(segments.rows, first + size - 1)
        cells = tf.stack([row, num_columns - size], axis=1)
        nothing = np.float64(-np.inf)
        scores = _table(segments.rows, num_columns, nothing, self._unk_score)
        scores = tf.tensor_scatter_nd_update(scores, cells, tf.gather(self._scores, ids))
        table = _table(segments.rows, num_columns, -1, self._unk_id)
        table = tf.tensor_scatter_nd_update(table, cells, ids)
        column = segments.best_columns(scores)
        size = num_columns - tf.gather(column, segments.rows)  # [n], of the piece that ends there
        ends = segments.ends_of_pieces(size)
        row = tf.gather(segments.rows, ends)
        ids = tf.gather_nd(table, tf.stack([row, tf.gather(column, row)], axis=1))
        starts = ends - tf.gather(size, ends) + 1
        # Merge adjacent unknown pieces.
        is_unknown = tf.equal(ids, self._unk_id)
        kept = ~(is_unknown & before(is_unknown, False)) | tf.gather(begins, starts)
        return chosen(ids, kept), chosen(starts, kept)

    def _matches(self, characters, begins):
        """Returns all pieces at all positions: (first character, number of characters, id)."""
        letters = self._letters.lookup(characters)
        # No piece extends beyond these: the next word, and the end.
        inner = tf.concat([tf.where(begins, 0, letters), tf.zeros([_MAX_CHARACTERS], tf.int32)], 0)
        place, node = tf.range(tf.size(letters)), tf.zeros_like(letters)
        found = []
        for level, (keys, pieces) in enumerate(self._levels):
            letter = tf.gather(inner, place + level) if level else letters
            key = tf.cast(node, tf.int64) * self._num_letters + tf.cast(letter, tf.int64)
            node = tf.searchsorted(keys, key)
            is_node = places_of(tf.equal(tf.gather(keys, node), key))
            place, node = tf.gather(place, is_node), tf.gather(node, is_node)
            piece = tf.gather(pieces, node)
            is_piece = places_of(piece >= 0)
            size = tf.fill(tf.shape(is_piece), level + 1)
            found.append((tf.gather(place, is_piece), size, tf.gather(piece, is_piece)))
        return [tf.concat(parts, axis=0) for parts in zip(*found)]


class _Segments:
    """Word parts that no piece extends across, for the best segmentation of all of them at once.

    Args:
        first, size: int32 [matches], the positions of pieces.

    Attributes:
        rows: int32 [characters], the row of each character.
    """

    def __init__(self, num_characters: tf.Tensor, first: tf.Tensor, size: tf.Tensor) -> None:
        # A piece of several characters holds together the characters it spans.
        change = tf.concat([first + 1, first + size], axis=0)
        value = tf.concat([tf.ones_like(first), -tf.ones_like(first)], axis=0)
        holds = tf.cumsum(tf.math.unsorted_segment_sum(value, change, num_characters + 1))
        begins = tf.equal(holds[:num_characters], 0)
        self._segment = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [characters]
        self._starts = places_of(begins)  # [segments]
        self._ends = tf.concat([self._starts[1:], [num_characters]], 0)[: tf.size(self._starts)]
        lengths = self._ends - self._starts
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        steps = tf.range(tf.reduce_max(tf.concat([lengths, [0]], axis=0)))
        # Number of segments longer than the step: these come first.
        self._alive = tf.searchsorted(-tf.gather(lengths, order), -steps)  # [steps]
        self._row_starts = tf.cumsum(self._alive, exclusive=True)
        place = tf.range(num_characters) - tf.gather(self._starts, self._segment)
        rank = tf.gather(tf.math.invert_permutation(order), self._segment)
        self.rows = tf.gather(self._row_starts, place) + rank

    def best_columns(self, scores: tf.Tensor) -> tf.Tensor:
        """Returns the last column of the best path to each row.

        Args:
            scores: float64 [characters, columns], of the pieces that end there, longest first.

        Returns:
            int32 [characters], in row order.
        """
        num_columns = scores.shape[1]
        # Per segment, the sums up to the previous characters, one for each piece length.
        sums = _table(self._starts, num_columns, np.float64(-np.inf), np.float64(0))

        def step(number, sums, columns):
            size, row = self._alive[number], self._row_starts[number]
            sums = sums[:size]
            candidates = sums + scores[row : row + size]
            best = tf.reduce_max(candidates, axis=1, keepdims=True)
            column = tf.where(tf.equal(candidates, best), tf.range(num_columns), num_columns)
            columns = columns.write(number, tf.reduce_min(column, axis=1))
            return number + 1, tf.concat([sums[:, 1:], best], axis=1), columns

        num_steps = tf.size(self._alive)
        columns = tf.TensorArray(tf.int32, num_steps, infer_shape=False, element_shape=[None])
        return tf.while_loop(
            lambda number, *_: number < num_steps,
            step,
            (0, sums, columns),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, num_columns]), None),
        )[2].concat()

    def ends_of_pieces(self, size: tf.Tensor) -> tf.Tensor:
        """Returns the last character of each piece of the best segmentation, in order.

        Args:
            size: int32 [characters], the size of the piece that ends there on the best path.
        """

        def step(number, ends, found):
            found = found.write(number, ends)
            previous = ends - tf.gather(size, ends)
            inside = previous >= tf.gather(self._starts, tf.gather(self._segment, ends))
            return number + 1, chosen(previous, inside), found

        found = tf.TensorArray(
            tf.int32, 0, dynamic_size=True, infer_shape=False, element_shape=[None]
        )
        found = tf.while_loop(
            lambda number, ends, _: tf.size(ends) > 0,
            step,
            (0, self._ends - 1, found),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), None),
        )[2].concat()
        return tf.sort(found)


def _table(rows, num_columns, value, last):
    """Returns [rows, columns] of one value, with another of its type in the last column."""
    size = tf.size(rows)
    return tf.concat([tf.fill([size, num_columns - 1], value), tf.fill([size, 1], last)], axis=1)


def _levels(letters, ids, num_letters):
    """Builds the trie of pieces, level by level.

    Yields:
        (keys, pieces): int64 [nodes + 1], parent node * num_letters + letter, sorted; int32
        [nodes + 1], the id of the piece that ends in the node, or -1. The last entry is a sentinel.
    """
    parents = np.zeros(len(ids), np.int64)
    for level in range(letters.shape[1]):
        here = letters[:, level] > 0
        letters, ids, parents = letters[here], ids[here], parents[here]
        keys, nodes = np.unique(parents * num_letters + letters[:, level], return_inverse=True)
        pieces = np.full(len(keys) + 1, -1, np.int32)
        ends = np.append(letters, np.zeros([len(ids), 1], letters.dtype), axis=1)[:, level + 1] == 0
        pieces[nodes[ends]] = ids[ends]
        yield np.append(keys, np.iinfo(np.int64).max), pieces
        parents = nodes
