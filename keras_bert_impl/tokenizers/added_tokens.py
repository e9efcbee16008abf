"""Added tokens, which are matched as literal strings before texts are split into words.

Tokens with `normalized=False` are matched first, in the input text. The rest of the text is then
normalized, and tokens with `normalized=True` are matched in it.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.graphs import before, chosen, leftmost, places_of, put
from keras_bert_impl.tokenizers.unicode.table import SPACE, class_table, word_table
from keras_bert_impl.utils.errors import InputError

NO_TOKEN, INSIDE = -2, -1
MAX_TOKENS = 50_000  # Published models have a few hundred.
_SHIFT = 21  # bits of a code point
_FEW = 8  # maximum number of first characters for comparisons


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that is matched as a literal string.

    Attributes:
        content: One or more characters.
        single_word: If True, the token is only matched as a whole word: the characters before and
            after it must not be letters, digits or `_`.
        lstrip: Whether the white space before the token is part of the match.
        rstrip: Whether the white space after the token is part of the match.
        normalized: If True, the token and the text are normalized before matching. For example,
            with an uncased tokenizer, the token `[E1]` also matches the text `[e1]`.
        special: If True, `detokenize(..., skip_special_tokens=True)` removes the token.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False

    @property
    def setting(self) -> str | dict[str, Any]:
        """Returns `content` if all other fields have their defaults, else a dict of all fields."""
        return self.content if self == AddedToken(self.content) else dataclasses.asdict(self)


FIELDS = tuple(field.name for field in dataclasses.fields(AddedToken))


def special_tokens(contents: Sequence[str], mask_strips_left: bool = False) -> list[AddedToken]:
    """Returns the special tokens as `AddedToken`s. The mask token is the last one."""
    return [
        AddedToken(
            content,
            lstrip=mask_strips_left and content == contents[-1],
            normalized=False,
            special=True,
        )
        for content in contents
    ]


def as_added_tokens(tokens: Iterable[Any]) -> list[AddedToken]:
    if isinstance(tokens, (str, bytes, dict, set, frozenset)) or not hasattr(tokens, "__iter__"):
        raise InputError(f"expected a list of tokens. Received: {tokens!r:.40}")
    tokens = [_convert_to_added_token(token) for token in tokens]
    if len(tokens) > MAX_TOKENS:
        raise InputError(
            f"at most {MAX_TOKENS} added tokens are supported. Received: {len(tokens)}"
        )
    contents = set()
    for token in tokens:
        if token.content in contents:
            raise InputError(f"the added token {token.content!r:.60} occurs twice.")
        contents.add(token.content)
    return tokens


def _convert_to_added_token(token):
    if isinstance(token, str):
        fields = {"content": token}
    elif isinstance(token, dict):
        fields = {name: token[name] for name in FIELDS if name in token}
    else:
        fields = {name: getattr(token, name) for name in FIELDS if hasattr(token, name)}
    content = fields.get("content")
    if not isinstance(content, str) or not _is_text(content):
        raise InputError(f"an added token must be a non-empty string. Received: {token!r:.60}")
    for name in FIELDS[1:]:
        if type(fields.get(name, False)) is not bool:
            raise InputError(
                f"added token {content!r:.60}: {name} must be true or false, not {fields[name]!r:.40}."
            )
    return AddedToken(**fields)


def _is_text(content):
    return content != "" and content.encode("utf-8", "ignore").decode() == content


def found_tokens(special: list[AddedToken], added: list[AddedToken]) -> list[AddedToken]:
    """Returns the special tokens and the added tokens, without duplicates."""
    return [*({token.content: token for token in (*special, *added)}).values()]


class AddedTokens:
    def __init__(self, tokens: Mapping[int, AddedToken]) -> None:
        contents = [token.content for token in tokens.values()]
        self.numbers = np.array([*tokens], np.int32)
        self._first = sorted({ord(content[0]) for content in contents})
        self._keys, self._children, self._tokens = _build_trie(contents)
        self._lengths = np.array([len(content) for content in contents], np.int32)
        self._single, self._left, self._right = (
            np.array([getattr(token, name) for token in tokens.values()], bool)
            for name in ("single_word", "lstrip", "rstrip")
        )

    def __call__(
        self, code_points: tf.Tensor, is_apart: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Finds the tokens in texts.

        Args:
            code_points: int32 [code points], the code points of all texts. Each text must be
                followed by a number that is not a code point of any token.
            is_apart: bool [code points], True for letters, digits and `_` that may be next to a
                `single_word` token. Default: none may.

        Returns:
            (starts, ends, numbers), each int32 [matches]: the start, the end and the token index of
            each match. If a token has `lstrip` or `rstrip`, the match includes the white space.
        """
        starts, tokens = self._find_longest(code_points)
        starts, ends, tokens = tf.cond(
            tf.size(starts) > 0,
            lambda: self._filter_matches(code_points, starts, tokens, is_apart),
            lambda: (starts, starts, tokens),
        )
        return starts, ends, tf.gather(self.numbers, tokens)

    def _find_longest(self, code_points):
        """Finds the longest token at each position. Returns (starts, tokens), int32 [matches]."""
        candidates = places_of(self._can_begin_token(code_points))

        def step(depth, candidate, node, longest):
            letter = tf.gather(code_points, tf.gather(candidates, candidate) + depth)
            key = tf.bitwise.left_shift(tf.cast(node, tf.int64), _SHIFT) + tf.cast(letter, tf.int64)
            row = tf.searchsorted(self._keys, key)
            goes_on = tf.equal(tf.gather(self._keys, row), key)
            candidate = chosen(candidate, goes_on)
            node = tf.gather(self._children, chosen(row, goes_on))
            token = tf.gather(self._tokens, node)
            longest = put(longest, chosen(candidate, token >= 0), chosen(token, token >= 0))
            return depth + 1, candidate, node, longest

        nothing = tf.fill(tf.shape(candidates), -1)
        *_, longest = tf.while_loop(
            lambda depth, candidate, *_: tf.size(candidate) > 0,
            step,
            (0, tf.range(tf.size(candidates)), tf.zeros_like(candidates), nothing),
            shape_invariants=(tf.TensorShape([]), *3 * [tf.TensorShape([None])]),
        )
        return chosen(candidates, longest >= 0), chosen(longest, longest >= 0)

    def _can_begin_token(self, code_points):
        """Returns bool [code points], True if a token can start with this code point."""
        if not self._first:
            return tf.zeros_like(code_points, tf.bool)
        # If there are few first characters, comparisons are 5× faster than a table lookup.
        if len(self._first) > _FEW:
            return (code_points >= self._first[0]) & (code_points <= self._first[-1])
        equal = [tf.equal(code_points, code_point) for code_point in self._first]
        return functools.reduce(tf.logical_or, equal)

    def _filter_matches(self, code_points, starts, tokens, is_apart):
        """Removes overlapping matches, and applies `single_word`, `lstrip` and `rstrip`."""
        ends = starts + tf.gather(self._lengths, tokens)
        matches = _select_matches(leftmost(starts, ends), (starts, ends, tokens))
        if self._single.any():
            is_word = self._is_word(code_points, is_apart)
            is_word = tf.concat([[False], is_word, [False]], axis=0)
            adjoins = tf.gather(is_word, matches[0]) | tf.gather(is_word, matches[1] + 1)
            matches = _select_matches(~(tf.gather(self._single, matches[2]) & adjoins), matches)
        if not self._left.any() and not self._right.any():
            return matches
        solid = places_of(tf.not_equal(class_table().lookup(code_points), SPACE))
        solid = tf.concat([[-1], solid, [tf.size(code_points)]], axis=0)
        # Removes tokens that begin in the stripped white space of the previous token.
        ends = self._extend_over_spaces(solid, matches)
        matches = _select_matches(matches[0] >= before(ends, 0), matches)
        ends = self._extend_over_spaces(solid, matches)
        starts, _, tokens = matches
        spaces = tf.gather(solid, tf.searchsorted(solid, starts) - 1) + 1
        spaces = tf.where(tf.gather(self._left, tokens), spaces, starts)
        return tf.maximum(spaces, tf.minimum(starts, before(ends, 0))), ends, tokens

    def _is_word(self, code_points, is_apart):
        is_word = word_table().lookup(code_points) > 0
        return is_word if is_apart is None else is_word & ~is_apart

    def _extend_over_spaces(self, solid, matches):
        _, ends, tokens = matches
        following = tf.gather(solid, tf.searchsorted(solid, ends))
        return tf.where(tf.gather(self._right, tokens), following, ends)


def _select_matches(mask, matches):
    return tuple(chosen(values, mask) for values in matches)


def in_place(
    tokens: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, numbers: tf.Tensor
) -> tf.Tensor:
    """Writes the token index at the first code point of each match, and INSIDE at the others."""
    return put(put(tokens, tf.ragged.range(starts, ends).values, INSIDE), starts, numbers)


def _build_trie(tokens):
    """Returns a trie of the tokens as arrays (keys, children, tokens)."""
    edges: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, token in enumerate(tokens):
        node = 0
        for letter in token:
            node = edges.setdefault((node << _SHIFT) | ord(letter), len(edges) + 1)
        ends.setdefault(node, number)
    keys = np.array([*sorted(edges), np.iinfo(np.int64).max], np.int64)
    children = np.array([*(edges[key] for key in sorted(edges)), 0], np.int32)
    numbers = np.full(len(edges) + 1, -1, np.int32)
    numbers[[*ends]] = [*ends.values()]
    return keys, children, numbers
