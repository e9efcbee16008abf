"""Unigram segmentation of all words of a batch in the graph."""

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import before, chosen, places_of, put
from keras_bert_impl.tokenizers.sentencepiece.families import SPACE_MARK
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS, CodePointTable, shared_blocks
from keras_bert_impl.utils.errors import InputError

_UNKNOWN_PENALTY = 10.0  # difference between the lowest score and the score of unknown characters
_MAX_CHARACTERS = 128  # maximum characters of a token; published models have up to 16
# Longer segments are searched in parallel, in chunks of this size. Scores differ from the scores in
# `tokenizers` by rounding errors.
_PART = 2048


class UnigramModel:
    """Splits words into the tokens with the highest total score.

    Source: Kudo 2018 (arXiv:1804.10959), section 3.2; Viterbi 1967.
    """

    def __init__(self, vocabulary: list[str], scores: list[float], unk_id: int) -> None:
        # Words contain a mark only at the start, so tokens with an inner mark never match.
        ids = [i for i, piece in enumerate(vocabulary) if piece and SPACE_MARK not in piece[1:]]
        self._unk_id = unk_id
        self._unk_score = np.float64(min(scores) - _UNKNOWN_PENALTY)
        self._scores = np.array(scores, np.float64)
        longest = max((len(vocabulary[i]) for i in ids), default=1)
        if longest > _MAX_CHARACTERS:
            raise InputError(
                f"the vocabulary has a piece of {longest} characters; at most {_MAX_CHARACTERS}."
            )
        letters = np.zeros([len(ids), longest], np.int64)  # 0 after the end of a token
        for row, i in enumerate(ids):
            letters[row, : len(vocabulary[i])] = [ord(character) for character in vocabulary[i]]
        alphabet = np.unique(letters[letters > 0])
        entries = np.zeros(CODE_POINTS, np.int32)
        entries[alphabet] = 1 + np.arange(len(alphabet))
        self._letters = CodePointTable(*shared_blocks(entries))
        self._num_letters = len(alphabet) + 1
        self._levels = list(
            _build_levels(entries[letters], np.array(ids, np.int64), self._num_letters)
        )

    def __call__(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (ids, index of the first character of each token), int32 [tokens].

        Args:
            characters: int32 [n], code points of all words. Each word begins with SPACE_MARK.
        """
        begins = tf.equal(characters, ord(SPACE_MARK))  # first characters of words
        first, size, ids = self._find_matches(characters, begins)
        segments = _Segments(tf.size(characters), first, size)
        num_columns = len(self._levels)  # The last column is for tokens of one character.
        row = tf.gather(segments.rows, first + size - 1)
        cells = tf.stack([row, num_columns - size], axis=1)
        nothing = np.float64(-np.inf)
        scores = _fill_table(segments.rows, num_columns, nothing, self._unk_score)
        scores = tf.tensor_scatter_nd_update(scores, cells, tf.gather(self._scores, ids))
        table = _fill_table(segments.rows, num_columns, -1, self._unk_id)
        table = tf.tensor_scatter_nd_update(table, cells, ids)
        column = segments.best_columns(scores)
        # [n], length of the best token that ends at each character
        size = num_columns - tf.gather(column, segments.rows)
        starts, ends = segments.pieces(size)
        row = tf.gather(segments.rows, ends - 1)
        ids = tf.gather_nd(table, tf.stack([row, tf.gather(column, row)], axis=1))
        # Merge adjacent unknown tokens.
        is_unknown = tf.equal(ids, self._unk_id)
        is_separate = ~(is_unknown & before(is_unknown, False)) | tf.gather(begins, starts)
        return chosen(ids, is_separate), chosen(starts, is_separate)

    def _find_matches(self, characters, begins):
        """Returns all tokens found in the text, as (first character, number of characters, id)."""
        letters = self._letters.lookup(characters)
        # No token crosses the start of the next word.
        inner = tf.concat([tf.where(begins, 0, letters), tf.zeros([_MAX_CHARACTERS], tf.int32)], 0)
        place, node = tf.range(tf.size(letters)), tf.zeros_like(letters)
        matches = []
        for level, (keys, pieces) in enumerate(self._levels):
            letter = tf.gather(inner, place + level) if level else letters
            key = tf.cast(node, tf.int64) * self._num_letters + tf.cast(letter, tf.int64)
            node = tf.searchsorted(keys, key)
            is_node = places_of(tf.equal(tf.gather(keys, node), key))
            place, node = tf.gather(place, is_node), tf.gather(node, is_node)
            piece = tf.gather(pieces, node)
            is_piece = places_of(piece >= 0)
            size = tf.fill(tf.shape(is_piece), level + 1)
            matches.append((tf.gather(place, is_piece), size, tf.gather(piece, is_piece)))
        return [tf.concat(parts, axis=0) for parts in zip(*matches)]


class _Segments:
    """Segments of words. No token crosses a segment boundary, so segments are independent.

    Args:
        first, size: int32 [matches], the first character and length of each match.
    """

    def __init__(self, num_characters: tf.Tensor, first: tf.Tensor, size: tf.Tensor) -> None:
        # A segment cannot end inside a token.
        change = tf.concat([first + 1, first + size], axis=0)
        value = tf.concat([tf.ones_like(first), -tf.ones_like(first)], axis=0)
        holds = tf.cumsum(tf.math.unsorted_segment_sum(value, change, num_characters + 1))
        self._begins = tf.equal(holds[:num_characters], 0)
        starts = places_of(self._begins)  # [segments]
        segment = tf.cumsum(tf.cast(self._begins, tf.int32)) - 1  # [characters]
        place = (tf.range(num_characters) - tf.gather(starts, segment)) % _PART
        begins = tf.equal(place, 0)
        self._starts = places_of(begins)  # [parts]
        part = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [characters]
        lengths = tf.concat([self._starts[1:], [num_characters]], 0)[: tf.size(self._starts)]
        lengths -= self._starts
        self._order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        steps = tf.range(tf.reduce_max(tf.concat([lengths, [0]], axis=0)))
        # The chunks followed by another chunk of the same segment come first.
        self._alive = tf.searchsorted(-tf.gather(lengths, self._order), -steps)  # [steps]
        self._row_starts = tf.cumsum(self._alive, exclusive=True)
        rank = tf.gather(tf.math.invert_permutation(self._order), part)
        self.rows = tf.gather(self._row_starts, place) + rank

    def best_columns(self, scores: tf.Tensor) -> tf.Tensor:
        """Finds the best segmentation up to each character (Viterbi).

        Args:
            scores: float64 [characters, columns], the score of each token that ends at a character.
                The columns are in order of decreasing token length.

        Returns:
            int32 [characters], the column of the last token of the best segmentation. The order of
            the characters is as in `rows`.
        """
        num_columns = scores.shape[1]

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
            (0, tf.gather(self._sum_scores_before(scores), self._order), columns),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, num_columns]), None),
        )[2].concat()

    def _sum_scores_before(self, scores):
        """Returns the best scores up to the last positions before each chunk.

        The shape is [chunks, columns]. The last column is for the position directly before a chunk.
        """
        nothing = np.float64(-np.inf)
        sums = _fill_table(self._starts, scores.shape[1], nothing, np.float64(0))
        is_first = tf.gather(self._begins, self._starts)
        later = places_of(~is_first)
        previous = later - 1  # chunks of full size, followed by another chunk

        def continued():
            through = self._sum_scores_through(scores, tf.gather(self._starts, previous))

            def follow(sums, part):
                is_first, through = part
                sums = tf.where(is_first, at_start, sums)
                return tf.reduce_max(sums[:, tf.newaxis] + through, axis=0)

            at_start = sums[0]
            parts = tf.gather(is_first, previous), through
            later_sums = tf.scan(follow, parts, at_start)
            return tf.tensor_scatter_nd_update(sums, later[:, tf.newaxis], later_sums)

        return tf.cond(tf.size(later) > 0, continued, lambda: sums)

    def _sum_scores_through(self, scores, starts):
        """Returns the best scores from each position before a full chunk to its last positions.

        The shape is [chunks, positions before the chunk, last positions].
        """
        size = scores.shape[1]
        same = np.where(np.eye(size, dtype=bool), 0.0, -np.inf)

        def step(number, sums):
            here = tf.gather(scores, tf.gather(self.rows, starts + number))
            best = tf.reduce_max(sums + here[:, tf.newaxis], axis=2, keepdims=True)
            return number + 1, tf.concat([sums[:, :, 1:], best], axis=2)

        sums = tf.tile(same[np.newaxis], [tf.size(starts), 1, 1])
        shapes = tf.TensorShape([]), tf.TensorShape([None, size, size])
        return tf.while_loop(lambda number, _: number < _PART, step, (0, sums), shapes)[1]

    def pieces(self, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the start and the end of each token.

        Args:
            size: int32 [characters], length of the best token that ends at each character.
        """
        jumps = tf.concat([[0], tf.range(1, tf.size(size) + 1) - size], axis=0)
        bounds = tf.concat([self._begins, [True]], axis=0)

        def follow():  # Each step finds one more token of each segment.
            def step(bounds, frontier):
                frontier = tf.gather(jumps, frontier)
                frontier = chosen(frontier, ~tf.gather(bounds, frontier))
                return put(bounds, frontier, True), frontier

            state = bounds, places_of(bounds)
            shapes = tf.TensorShape([None]), tf.TensorShape([None])
            return tf.while_loop(lambda _, frontier: tf.size(frontier) > 0, step, state, shapes)[0]

        def double():  # After n steps, 2^n tokens of each segment are found.
            def step(_, bounds, jumps):
                extended = put(bounds, chosen(jumps, bounds), True)
                return tf.reduce_any(extended != bounds), extended, tf.gather(jumps, jumps)

            return tf.while_loop(lambda grew, *_: grew, step, (True, bounds, jumps))[1]

        bounds = tf.cond(tf.size(self._alive) < _PART, follow, double)
        places = places_of(bounds)
        return places[:-1], places[1:]


def _fill_table(rows, num_columns, value, last):
    size = tf.size(rows)
    return tf.concat([tf.fill([size, num_columns - 1], value), tf.fill([size, 1], last)], axis=1)


def _build_levels(letters, ids, num_letters):
    """Yields (int64 keys, int32 token ids) of the nodes on each level of a trie of the tokens.

    The key of a node is `parent * num_letters + letter`. A node at which no token ends has the id
    -1.
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
