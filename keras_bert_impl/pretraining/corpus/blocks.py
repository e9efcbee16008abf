"""Converts a block of documents to token ids, examples and serialized rows, and counts them."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_bert_impl.pretraining.corpus import readers, sentences
from keras_bert_impl.pretraining.examples import records, rows
from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, RowLength
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.unicode.table import CJK
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Fraction, OneOf, PositiveInt, Rate, validate

NumberedDocument = tuple[int, readers.Document]  # index in the corpus, document
_AT_ONCE = 1 << 18  # characters
_PLAIN, _ALONE = 1, 2  # byte classes; all other bytes have class 0
_OTHER_SPACES = re.compile(r"[^\S ]")
_WHITE_SPACE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]"  # whitespace as defined by `str.split`


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the conversion of documents to rows. `prepare` has the same arguments."""

    length: RowLength
    objective: Annotated[str, OneOf(*RECORDS_OBJECTIVES)]
    passes: PositiveInt
    short_sequence_probability: Rate
    random_next_share: Fraction
    pack: bool
    max_examples_per_row: PositiveInt
    seed: int
    segmented: bool = False
    languages: tuple[str, ...] = ()

    def __post_init__(self):
        validate(self)
        if (self.objective == "tlm") != (len(set(self.languages)) > 1):
            raise InputError(
                "the objective tlm requires languages, two or more names, and no other objective "
                f"accepts them. Received: objective={self.objective}, "
                f"languages={list(self.languages)}"
            )

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"languages": list(self.languages)}

    def translations(self, document: readers.Document) -> readers.Document:
        """Returns a copy with one sentence per paragraph.

        Raises `InputError` if the number of paragraphs is not the number of languages.
        """
        if len(document.paragraphs) != len(self.languages):
            raise InputError(
                f"{document.source}: expected {len(self.languages)} lines, a sentence in each of "
                f"{', '.join(self.languages)}, but there are {len(document.paragraphs)}. Put a "
                "blank line between groups of translations."
            )
        return dataclasses.replace(document, is_split=True)


@dataclasses.dataclass
class TextBlock:
    """Consecutive documents of one split."""

    split: str
    documents: list[NumberedDocument] = dataclasses.field(default_factory=list)
    characters: int = 0
    number: int | None = None  # None until the block is complete

    def append(self, number: int, document: readers.Document) -> None:
        self.documents.append((number, document))
        self.characters += document.characters

    def joined(self, other: "TextBlock") -> "TextBlock":
        documents = self.documents + other.documents
        return TextBlock(self.split, documents, self.characters + other.characters)


@dataclasses.dataclass
class Counts:
    """Statistics of a block or a split."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    corpus_tokens: int = 0
    tokens_inside_words: int = 0  # of segmented Chinese text
    examples: int = 0
    pairs_labelled_1: int = 0
    rows: int = 0
    tokens: int = 0
    examples_in_fullest_row: int = 0
    unknown_tokens: int = 0

    def __add__(self, other):
        fullest = max(self.examples_in_fullest_row, other.examples_in_fullest_row)
        sums = (a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other)))
        return dataclasses.replace(Counts(*sums), examples_in_fullest_row=fullest)

    def summary(self, length: int) -> dict[str, Any]:
        """Returns a dict with the counts and `fill`, the fraction of tokens without padding."""
        fill = self.tokens / (self.rows * length) if self.rows else 0.0
        return dataclasses.asdict(self) | {"fill": round(fill, 6)}


@dataclasses.dataclass
class BuiltBlock:
    """Serialized rows of a block, in random order, and the statistics of the block."""

    rows: list[bytes]
    counts: Counts


class WordTokens:
    """Tokenizes texts. Caches the token ids of words, so that repeated words are not encoded again.

    If `segmented` is True, a Chinese character that continues a word has the id `token id +
    vocabulary size`.
    """

    def __init__(self, tokenizer: Tokenizer, segmented: bool = False) -> None:
        self.tokenizer = tokenizer
        self._is_chinese = _find_chinese_characters(tokenizer) if segmented else None
        self._kinds = _map_bytes_to_kinds(tokenizer.word_breaks)
        self._words = pa.array([], pa.large_string())  # distinct words of the most recent texts
        self._parts = np.zeros(0, np.int64)  # per word: number of whitespace-separated parts
        self._lengths = np.zeros(0, np.int64)  # per word: number of tokens
        self._ids = np.zeros(0, np.int32)  # token ids of all words, concatenated

    def __call__(self, paragraphs: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray, int]:
        """Tokenizes texts without line breaks.

        Returns:
            (ids, lengths, num_words): token ids of all texts, int32 [tokens]; number of tokens per
            text, int64 [texts]; total number of whitespace-separated words, int.
        """
        if not self.tokenizer.word_breaks:
            texts = [
                f" {text}" if at else text
                for paragraph in paragraphs
                for at, text in enumerate(paragraph)
            ]
            num_words = sum(len(text.split()) for text in texts)
            return *_tokenize_in_batches(texts, self._tokenize), num_words
        texts = [*itertools.chain.from_iterable(paragraphs)]
        if self._is_chinese is not None:
            texts = [_OTHER_SPACES.sub(" ", text) for text in texts]
        words, first_words, num_joined = self._cut(texts)
        words = words.dictionary_encode()
        self._cache_words(words.dictionary)
        places = words.indices.to_numpy().astype(np.intp)
        lengths = self._lengths[places]
        starts = (np.cumsum(self._lengths) - self._lengths)[places]
        return (
            rows.concatenated_spans(self._ids, starts, lengths),
            np.add.reduceat(lengths, first_words),
            int(self._parts[places].sum() - num_joined),
        )

    def _tokenize(self, texts):
        ragged = self.tokenizer.tokenize(texts)
        return ragged.flat_values.numpy(), ragged.row_lengths().numpy()

    def _cut(self, texts):
        """Splits texts into words and ASCII punctuation marks.

        Returns:
            (words, first_words, num_joined): string array of words, which include a leading space;
            index of the first word of each text, int64 [texts]; number of words that follow the
            previous word without a space, int.
        """
        data = b"\n".join([b"", *map(str.encode, texts)])
        characters = np.frombuffer(data, np.uint8)
        begins = (characters == ord(" ")) | (characters == ord("\n"))
        num_spaces = np.count_nonzero(begins)
        kinds = np.frombuffer(data.translate(self._kinds), np.uint8)
        begins[1:] |= kinds[1:] * kinds[:-1] >= _ALONE
        starts = np.flatnonzero(begins)
        first_words = np.flatnonzero(characters[starts] == ord("\n"))
        # An Arrow array stores its words contiguously, so this view copies nothing.
        buffers = map(pa.py_buffer, (np.append(starts, len(data)), data.replace(b"\n", b" ")))
        words = pa.Array.from_buffers(pa.large_string(), len(starts), [None, *buffers])
        return words, first_words, len(starts) - num_spaces

    def _cache_words(self, words):
        """Replaces the cached words by `words`. Encodes only words that were not cached before."""
        places = pc.index_in(words, self._words).fill_null(-1).to_numpy().astype(np.int64)
        is_new = places < 0
        places[is_new] = len(self._words) + np.arange(np.count_nonzero(is_new))
        new = pc.ascii_ltrim(words.filter(pa.array(is_new)), " ")
        ids, lengths = _tokenize_in_batches(new.to_pylist(), self.tokenizer.tokenize_words)
        if self._is_chinese is not None:
            ids += len(self._is_chinese) * self._mark_continuations(ids, lengths)
        ids, lengths = np.append(self._ids, ids), np.append(self._lengths, lengths)
        starts = (np.cumsum(lengths) - lengths)[places]
        self._words = words
        self._parts = np.append(self._parts, _count_parts(new))[places]
        self._lengths = lengths[places]
        self._ids = rows.concatenated_spans(ids, starts, self._lengths)

    def _mark_continuations(self, ids, lengths):
        is_chinese = self._is_chinese[ids]
        continues = is_chinese & np.append(False, is_chinese)[: len(ids)]
        continues[(np.cumsum(lengths) - lengths)[lengths > 0]] = False
        return continues


def _find_chinese_characters(tokenizer):
    """Returns whether each token is a Chinese character, bool [vocabulary]."""
    if not (tokenizer.word_breaks and getattr(tokenizer, "split_on_cjk", False)):
        raise InputError(
            "segmented text requires a WordPiece tokenizer that splits Chinese text into "
            f"characters and has no added tokens. Received: a {tokenizer.kind} tokenizer"
        )
    return np.array(
        [
            len(token) == 1 and any(first <= ord(token) <= last for first, last in CJK)
            for token in tokenizer.vocabulary
        ]
    )


def _tokenize_in_batches(texts, tokenize):
    """Returns (token ids of all texts, int32 [tokens]; number of ids per text, int64 [texts])."""
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    batch = np.cumsum([len(text) for text in texts]) // _AT_ONCE
    bounds = [0, *(1 + np.flatnonzero(np.diff(batch))), len(texts)]
    for start, end in itertools.pairwise(bounds if texts else ()):
        some_ids, some_lengths = tokenize(texts[start:end])
        ids.append(some_ids)
        lengths.append(some_lengths)
    return np.concatenate(ids), np.concatenate(lengths)


def _map_bytes_to_kinds(word_breaks):
    """Returns a table for `bytes.translate` that maps each byte to its class."""
    kinds = bytearray(256)
    for byte in range(33, 127):  # ASCII except whitespace and control characters
        kinds[byte] = _ALONE if chr(byte) in word_breaks else _PLAIN
    return bytes(kinds)


def _count_parts(words):
    parts = (pc.binary_length(words).to_numpy() > 0).astype(np.int64)
    for place in np.flatnonzero(pc.match_substring_regex(words, _WHITE_SPACE).to_numpy(False)):
        parts[place] = len(words[place].as_py().split())
    return parts


def build_block(text_block: TextBlock, settings: Settings, word_tokens: WordTokens) -> BuiltBlock:
    """Converts documents to sentences, tokens, examples, packed rows and serialized rows."""
    tokenizer = word_tokens.tokenizer
    documents = text_block.documents
    if settings.languages:
        documents = [(number, settings.translations(document)) for number, document in documents]
    block, num_words = tokenize(documents, word_tokens)
    counts = Counts(
        documents=len(block.document_numbers),
        sentences=len(block.sentence_starts) - 1,
        words=num_words,
        corpus_tokens=len(block.token_ids),
        tokens_inside_words=int(np.sum(block.token_ids >= tokenizer.vocabulary_size)),
        unknown_tokens=int(np.sum(block.token_ids == tokenizer.unk_id)),
    )
    serialized: list[bytes] = []
    for pass_number in range(settings.passes):
        examples = _build_examples(block, settings, pass_number, tokenizer.num_separators)
        spans, labels = rows.spans_of(examples), [example.label for example in examples]
        lengths = rows.lengths_of(spans, tokenizer.num_separators)
        most = settings.max_examples_per_row if settings.pack else 1
        packed = rows.pack_rows(lengths.tolist(), settings.length, most)
        counts += Counts(
            examples=len(examples),
            pairs_labelled_1=labels.count(1),
            rows=len(packed),
            tokens=int(lengths.sum()),
            examples_in_fullest_row=max(map(len, packed), default=0),
        )
        if not packed:  # no document contains a token
            continue
        arrays = rows.lay_out(
            block, spans, labels, packed, settings.length, settings.max_examples_per_row, tokenizer
        )
        serialized += records.serialize_rows(
            arrays,
            records.num_ids(tokenizer.vocabulary_size, settings.segmented),
            (text_block.number << 32) + len(serialized),
        )
    generator = rows.stream(settings.seed, "rows", text_block.number)
    order = rows.permutation(generator, len(serialized))
    return BuiltBlock([serialized[index] for index in order], counts)


def _build_examples(block, settings, pass_number, num_separators):
    if settings.objective == "mlm":
        return rows.contiguous_examples(block, settings.length)
    length = settings.length - (num_separators - 1)  # a pair has one more separator
    if settings.objective == "tlm":
        num_languages = len(settings.languages)
        return rows.translation_examples(block, length, num_languages, settings.seed, pass_number)
    draws = block, length, settings.seed, pass_number, settings.short_sequence_probability
    if settings.objective == "mlm_nsp":
        return rows.next_sentence_examples(*draws, settings.random_next_share)
    return rows.sentence_order_examples(*draws)


def tokenize(
    documents: Sequence[NumberedDocument], word_tokens: WordTokens
) -> tuple[rows.TokenBlock, int]:
    """Splits documents into sentences and tokenizes them; returns the tokens and the word count."""
    paragraphs, sentence_counts = [], []
    for _, document in documents:
        document_paragraphs = [document.paragraphs]
        if not document.is_split:
            document_paragraphs = [sentences.split_sentences(text) for text in document.paragraphs]
        paragraphs += document_paragraphs
        sentence_counts.append(sum(map(len, document_paragraphs)))
    token_ids, lengths, num_words = word_tokens(paragraphs)
    sentence_documents = np.repeat(np.arange(len(documents)), sentence_counts)[lengths > 0]
    document_indices, nonempty_counts = np.unique(sentence_documents, return_counts=True)
    block = rows.TokenBlock(
        token_ids,
        [0, *np.cumsum(lengths[lengths > 0]).tolist()],
        [0, *np.cumsum(nonempty_counts).tolist()],
        [documents[index][0] for index in document_indices],
    )
    return block, num_words


class HashSet:
    """A set of 64-bit integers with 8 bytes per integer. Used to detect duplicate documents."""

    _MOST_RECENT = 1 << 18  # a Python set needs ten times as much memory

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.zeros(0, np.uint64)

    def add(self, value: int) -> bool:
        """Adds `value`; returns whether it is new."""
        if value in self._recent:
            return False
        position = np.searchsorted(self._sorted, np.uint64(value))
        if position < len(self._sorted) and self._sorted[position] == value:
            return False
        self._recent.add(value)
        if len(self._recent) >= self._MOST_RECENT:
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            self._sorted = np.concatenate([self._sorted, recent])
            self._sorted.sort(kind="stable")
            self._recent = set()
        return True
