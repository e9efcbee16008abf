"""Splits texts into normalized words with space marks, for a SentencePiece model.

As in the `tokenizers` library, added tokens are matched before normalization. The text between
added tokens is normalized and split at white space. `▁` is added to words that do not begin with
`▁`. A `▁` inside a word starts a new word.
"""

import base64
import binascii
import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import (
    INSIDE,
    NO_TOKEN,
    AddedToken,
    AddedTokens,
    in_place,
)
from keras_bert_impl.tokenizers.graphs import (
    after,
    before,
    chosen,
    numbers_of,
    places_of,
    put,
    without_overlaps,
)
from keras_bert_impl.tokenizers.sentencepiece.families import SPACE_MARK
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.table import (
    CODE_POINTS,
    CONTROL,
    JOINS,
    PREPENDS,
    SPACE,
    CodePointTable,
    class_table,
    grapheme_table,
    read_folding,
    shared_blocks,
)
from keras_bert_impl.utils.errors import InputError

# Entries greater than or equal to this value are rows of sequences. Smaller entries are added to
# the code point.
_SEQUENCE = 1 << 22
_MAX_BYTES = 5  # maximum bytes of a character with its marks that are looked up together
_MAX_NODES = 1 << 15  # Maximum nodes of the trie; nmt_nfkc has 8,568.

_UNKNOWN = 0xFFFD  # character outside all vocabularies

_QUOTES = ("`", "'")  # ALBERT converts two of these to a double quote.


@dataclasses.dataclass
class MarkedWords:
    """The words and added tokens of a batch of texts.

    Attributes:
        strings: string [words], the words in UTF-8. If the tokenizer adds ▁ to every word, the
            strings have no leading ▁.
        added: int32 [words], the index of the word's added token; negative if it is not an added
            token.
        starts, ends: int32 [words], the span of each word in `places`. The span includes a leading
            ▁ in the text.
        own_mark: int32 [words], 1 if the leading ▁ is in the text but not in `strings`; -1 if it is
            in `strings` but not in the text; otherwise 0.
        texts: int64 [texts + 1], the index of each text's first word.
        text_starts: int32 [texts + 1], the index of each text's first code point.
        places, place_ends: int32 [characters], the span of code points for each normalized
            character.
    """

    strings: tf.Tensor
    added: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    own_mark: tf.Tensor
    texts: tf.Tensor
    text_starts: tf.Tensor
    places: tf.Tensor
    place_ends: tf.Tensor

    def characters_of(
        self, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Converts spans of tokens in their words to spans in the concatenated texts."""
        word = numbers_of(starts.row_lengths())
        begin = tf.gather(self.starts, word)
        # A mark that is not in the text gets the position of the next character.
        mark = begin + tf.gather(self.own_mark, word) - 1
        first = tf.maximum(mark + starts.values, begin)
        last = tf.maximum(mark + ends.values - 1, begin)
        return tf.gather(self.places, first), tf.gather(self.place_ends, last)


class MarkedWordSplitter:
    def __init__(
        self,
        tokens: list[AddedToken],
        changes: dict[str, str],
        folds: bool,
        prepend_scheme: str = "always",
        splits_at_spaces: bool = False,
    ) -> None:
        self._prepend_scheme = prepend_scheme
        self._splits_at_spaces = splits_at_spaces
        self._folding = CharacterTable(read_folding()) if folds else None
        self._map = CharacterMap(changes)
        first = {number: token for number, token in enumerate(tokens) if not token.normalized}
        self._find = AddedTokens(first)
        self._find_later = None
        self.written: dict[str, str] = {}
        later = {number: token for number, token in enumerate(tokens) if token.normalized}
        if later:
            contents = self._normalize_texts([token.content for token in later.values()])
            pairs = [(item, text) for item, text in zip(later.items(), contents) if text]
            self.written = {token.content: text for (_, token), text in pairs}
            self._find_later = AddedTokens(
                {n: dataclasses.replace(token, content=text) for (n, token), text in pairs}
            )

    def _normalize_texts(self, texts):
        with tf.init_scope():
            code_points, text_starts = utf8.decode(tf.constant(texts))
            marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
            places = tf.range(tf.size(marked))
            codes = self._normalize(marked, places, places + 1)[0].numpy()
        ends = np.flatnonzero(codes == CODE_POINTS)
        starts = [0, *(ends + 1)]
        return ["".join(map(chr, codes[start:end])) for start, end in zip(starts, ends)]

    def __call__(self, texts: tf.Tensor) -> MarkedWords:
        code_points, text_starts = utf8.decode(texts)  # A newline follows each text.
        marked = put(code_points, text_starts[1:] - 1, CODE_POINTS)
        places = tf.range(tf.size(marked))
        line = self._normalize(*_replace_tokens(self._find(marked), marked, places, places + 1))
        if self._find_later is not None:
            line = _replace_tokens(self._find_later(line[0]), *line)
        characters, places, place_ends = line
        added = characters - CODE_POINTS - 1
        is_mark = tf.equal(characters, ord(SPACE_MARK))
        is_space = tf.equal(class_table().lookup(characters), SPACE)
        if self._splits_at_spaces:  # Other white space is part of a word, as an unknown character.
            is_other = is_space & tf.not_equal(characters, ord(" "))
            characters = tf.where(is_other, _UNKNOWN, characters)
            is_space &= ~is_other
        is_gap = is_space | (characters >= CODE_POINTS)
        begins = ~is_gap & (before(is_gap, True) | is_mark) | (added >= 0)
        starts = places_of(begins)
        ends = places_of(tf.concat([begins | is_gap, [True]], axis=0))
        ends = tf.gather(ends, tf.searchsorted(ends, starts, side="right"))
        own_mark = tf.gather(tf.cast(is_mark, tf.int32), starts)
        texts = tf.searchsorted(tf.gather(places, starts), text_starts, out_type=tf.int64)
        if self._prepend_scheme == "always":
            written = tf.where(is_gap | is_mark, 0, characters)
            strings = utf8.encode(written, starts + own_mark, ends)
        else:
            strings = utf8.encode(tf.where(is_gap, 0, characters), starts, ends)
            place = tf.gather(places, starts)
            text = tf.searchsorted(text_starts, place)
            is_first = tf.equal(tf.gather(text_starts, text), place) & (own_mark == 0)
            is_first &= self._prepend_scheme == "first"
            strings = tf.where(is_first, tf.strings.join([SPACE_MARK, strings]), strings)
            own_mark = -tf.cast(is_first, tf.int32)
        return MarkedWords(
            strings=strings,
            added=tf.gather(added, starts),
            starts=starts,
            ends=ends,
            own_mark=own_mark,
            texts=texts,
            text_starts=text_starts,
            places=places,
            place_ends=place_ends,
        )

    def _normalize(self, characters, places, place_ends):
        if self._folding is not None:
            characters, places, place_ends = _join_quotes(characters, places, place_ends)
            characters, source = self._folding.put_in(*self._folding.replace(characters))
            places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        characters, source = self._map(characters)
        places, place_ends = tf.gather(places, source), tf.gather(place_ends, source)
        return characters, places, place_ends


def _replace_tokens(matches, characters, places, place_ends):
    """Replaces each added token with one code above the Unicode range."""
    starts, ends, numbers = matches
    tokens = in_place(tf.fill(tf.shape(characters), NO_TOKEN), starts, ends, numbers)
    characters = tf.where(tokens >= 0, CODE_POINTS + 1 + tokens, characters)
    place_ends = put(place_ends, starts, tf.gather(place_ends, ends - 1))
    remaining = places_of(tf.not_equal(tokens, INSIDE))
    return [tf.gather(values, remaining) for values in (characters, places, place_ends)]


def _join_quotes(characters, places, place_ends):
    """Replaces two equal consecutive quotes with a double quote."""
    is_quote = tf.reduce_any(tf.equal(characters, [[ord(quote)] for quote in _QUOTES]), axis=0)
    pairs = without_overlaps(is_quote & (characters == after(characters, 0)))

    def join():  # The second quote is kept.
        new = tf.where(before(pairs, False), ord('"'), characters)
        return [chosen(values, ~pairs) for values in (new, places, place_ends)]

    return tf.cond(tf.reduce_any(pairs), join, lambda: [characters, places, place_ends])


def read_map(encoded: str) -> dict[str, str]:
    try:
        data = base64.b64decode(encoded, validate=True)
        return _read_trie(data) if data else {}
    except (binascii.Error, IndexError, TypeError, ValueError) as error:
        message = f"the character map (precompiled_charsmap) is damaged: {error}."
        raise InputError(message) from error


def _read_trie(data):
    """Traverses a double-array trie, level by level."""
    size = int.from_bytes(data[:4], "little")
    if size % 4 or size > len(data) - 4:
        raise ValueError(f"the trie has {size} bytes, but only {len(data) - 4} are left")
    units, texts = np.frombuffer(data[4 : 4 + size], "<u4").astype(np.int64), data[4 + size :]
    labels = units & 0x800000FF
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    places, prefixes, replacements, visited = offsets[:1], [b""], {}, 0
    for _ in range(_MAX_BYTES):  # Longer sequences are never looked up.
        children = places[:, np.newaxis] ^ np.arange(1, 256)  # [nodes, 255]
        exists = children < len(units)
        exists &= labels[np.where(exists, children, 0)] == np.arange(1, 256)
        rows, columns = np.nonzero(exists)
        children = children[rows, columns]
        prefixes = [prefixes[row] + bytes([byte + 1]) for row, byte in zip(rows, columns)]
        visited += len(children)
        if visited > _MAX_NODES:
            raise ValueError(f"the trie has more than {_MAX_NODES} nodes")
        places = children ^ offsets[children]
        for number in np.nonzero(units[children] & 0x100)[0]:
            start = units[places[number]] & 0x7FFFFFFF
            text = texts[start : texts.index(b"\0", start)]
            replacements[prefixes[number].decode()] = text.decode()
    return replacements


class CharacterTable:
    def __init__(self, changes: dict[str, str], others: Sequence[str] = ()) -> None:
        entries = np.zeros(CODE_POINTS, np.int32)
        rows: list[str] = []
        for character, text in changes.items():
            if len(text) == 1:
                entries[ord(character)] = ord(text) - ord(character)
            else:
                entries[ord(character)] = _SEQUENCE + len(rows)
                rows.append(text)
        self._table = CodePointTable(*shared_blocks(entries))
        self.first_other = len(rows)
        rows.extend(others)
        self._codes = np.array([ord(c) for text in rows for c in text] + [0], np.int32)
        self._splits = np.cumsum([0, *map(len, rows), 0]).astype(np.int32)

    def replace(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces characters with single characters. Returns (characters, `row` of `put_in`)."""
        entries = self._table.lookup(characters)
        is_sequence = entries >= _SEQUENCE
        row = tf.where(is_sequence, entries - _SEQUENCE, -1)
        return tf.where(is_sequence, characters, characters + entries), row

    def put_in(
        self,
        characters: tf.Tensor,
        row: tf.Tensor,
        covered: tf.Tensor | None = None,
        count: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces characters with sequences of characters.

        Args:
            characters: int32 [n].
            row: int32 [n], index of the sequence that replaces each character; -1 for characters
                that stay.
            covered: bool [n], whether a character is replaced together with an earlier character.
                Default: False.
            count: int32 [n], number of characters that each sequence replaces. Default: 1.

        Returns:
            (characters, originals), int32 [m]. `originals` contains the index of the character from
            which each new character comes.
        """
        covered = tf.zeros_like(row, tf.bool) if covered is None else covered
        count = tf.ones_like(row) if count is None else count

        def put():
            start = tf.gather(self._splits, tf.maximum(row, 0))  # [n]
            size = tf.gather(self._splits, tf.maximum(row, 0) + 1) - start
            size = tf.where(covered, 0, tf.where(row >= 0, size, 1))
            source = numbers_of(size)  # [m]
            within = tf.range(tf.size(source)) - tf.gather(tf.cumsum(size, exclusive=True), source)
            is_new = tf.gather(row, source) >= 0
            new = tf.gather(self._codes, tf.where(is_new, tf.gather(start, source) + within, 0))
            new = tf.where(is_new, new, tf.gather(characters, source))
            # `tokenizers` distributes the new characters over the positions of the old characters.
            return new, source + tf.minimum(within, tf.gather(count, source) - 1)

        unchanged = tf.reduce_all(row < 0) & ~tf.reduce_any(covered)
        return tf.cond(unchanged, lambda: (characters, tf.range(tf.size(row))), put)


class CharacterMap:
    """Normalizes texts with the character map of a SentencePiece model, from `read_map`."""

    def __init__(self, changes: dict[str, str]) -> None:
        single = {key: text for key, text in changes.items() if len(key) == 1}
        pairs = {
            key: text
            for key, text in changes.items()
            if len(key) == 2 and key[0] not in single and len(key.encode()) <= _MAX_BYTES
        }
        keys = np.array([ord(k[0]) * CODE_POINTS + ord(k[1]) for k in pairs], np.int64)
        order = np.argsort(keys)
        # This sentinel is greater than every pair, so a search always returns a valid index.
        self._pairs = np.append(keys[order], np.iinfo(np.int64).max)
        self._table = CharacterTable(single, list(pairs.values()))
        self._pair_rows = np.append(order + self._table.first_other, -1).astype(np.int32)

    def __call__(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes texts.

        Args:
            characters: int32 [n], code points. Codes above the Unicode range separate texts.

        Returns:
            (characters, originals), int32 [m]. `originals` contains the index of the input
            character that the `tokenizers` library assigns to each new character.
        """
        single, row = self._table.replace(characters)
        kind = grapheme_table().lookup(characters)
        previous = before(kind, CONTROL)
        joins = (kind == JOINS) & (previous != CONTROL)
        begins = ~(joins | ((previous == PREPENDS) & (kind != CONTROL)))

        def with_marks():
            changed = (single != characters) | (row >= 0)
            return self._look_up_marked(characters, row, changed, begins)

        def without():
            return row, tf.zeros_like(begins), tf.ones_like(row)

        row, covered, count = tf.cond(tf.reduce_all(begins), without, with_marks)
        single, source = self._table.put_in(single, row, covered, count)
        return single, _align_places(source, characters)

    def _look_up_marked(self, characters, row, changed, begins):
        """Replaces a short grapheme if its first one or two characters have a replacement."""
        size = utf8.byte_lengths(characters)
        whole = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [n], index of each character's grapheme
        count = tf.gather(tf.math.segment_sum(tf.ones_like(size), whole), whole)
        short = tf.gather(tf.math.segment_sum(size, whole), whole) <= _MAX_BYTES
        following = tf.cast(after(characters, 0), tf.int64)
        keys = tf.cast(characters, tf.int64) * CODE_POINTS + following
        number = tf.searchsorted(self._pairs, keys)
        is_pair = tf.equal(tf.gather(self._pairs, number), keys) & ~changed
        is_short = begins & short & (count > 1)
        row = tf.where(is_short & is_pair, tf.gather(self._pair_rows, number), row)
        stands_for_all = is_short & (changed | is_pair)
        first = chosen(stands_for_all, begins)  # [graphemes]
        covered = tf.gather(first, whole) & ~begins
        return row, covered, tf.where(stands_for_all, count, 1)


def _align_places(source, characters):
    """Corrects positions next to deleted characters, so that they are as in `tokenizers`."""
    # The last of several replacements has the position of a deleted character after it.
    is_repeated = source == before(source, -1)
    source += tf.cast(is_repeated & (after(source, 0) > source + 1), tf.int32)
    # In `tokenizers`, positions are too low by the number of characters deleted at the start.
    is_edge = characters >= CODE_POINTS
    part = tf.cumsum(tf.cast(is_edge, tf.int32), exclusive=True)  # [n]
    start = tf.math.segment_min(tf.range(tf.size(part)), part)  # [parts]
    vanished = tf.math.segment_min(source, tf.gather(part, source)) - start
    shift = tf.gather(vanished, tf.gather(part, source))
    return source - tf.where(tf.gather(is_edge, source), 0, shift)
