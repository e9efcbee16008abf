"""Processing of one block of documents: from text to serialized rows and counts."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import OneOf, PositiveInt, Rate, validate
from keras_bert_impl.pretraining.corpus import readers, sentences
from keras_bert_impl.pretraining.corpus.word_tokens import WordTokens
from keras_bert_impl.pretraining.examples import draws, packing, pairs, records, row_layout
from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, RowLength

NumberedDocument = tuple[int, readers.Document]  # with its running number in the corpus


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that turn documents into rows; see the arguments of `prepare`."""

    length: RowLength
    objective: Annotated[str, OneOf(*RECORDS_OBJECTIVES)]
    passes: PositiveInt
    short_sequence_probability: Rate
    pack: bool
    max_examples_per_row: PositiveInt
    seed: int

    def __post_init__(self):
        validate(self)


@dataclasses.dataclass
class TextBlock:
    """Consecutive documents of one split. The number is None until the block is complete."""

    split: str
    documents: list[NumberedDocument] = dataclasses.field(default_factory=list)
    characters: int = 0
    number: int | None = None

    def append(self, number: int, document: readers.Document) -> None:
        self.documents.append((number, document))
        self.characters += document.characters

    def joined(self, other: "TextBlock") -> "TextBlock":
        """Returns a block of the documents of both."""
        documents = self.documents + other.documents
        return TextBlock(self.split, documents, self.characters + other.characters)


@dataclasses.dataclass
class Counts:
    """Statistics of a block or a split; `+` adds them."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    corpus_tokens: int = 0
    examples: int = 0
    pairs_labelled_1: int = 0
    rows: int = 0
    tokens: int = 0
    examples_in_fullest_row: int = 0

    def __add__(self, other):
        fullest = max(self.examples_in_fullest_row, other.examples_in_fullest_row)
        sums = (a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other)))
        return dataclasses.replace(Counts(*sums), examples_in_fullest_row=fullest)

    def summary(self, length: int) -> dict[str, Any]:
        """Returns a dict of the counts and `fill`, the fraction of the rows that is not padding."""
        fill = self.tokens / (self.rows * length) if self.rows else 0.0
        return dataclasses.asdict(self) | {"fill": round(fill, 6)}


@dataclasses.dataclass
class BuiltBlock:
    """Serialized rows in random order, and their statistics."""

    rows: list[bytes]
    counts: Counts


def build(text_block: TextBlock, settings: Settings, word_tokens: WordTokens) -> BuiltBlock:
    """Splits, tokenizes, pairs, packs and serializes the documents of a block."""
    tokenizer = word_tokens.tokenizer
    block, num_words = tokenize(text_block.documents, word_tokens)
    if settings.objective == "mlm_nsp" and len(block.document_numbers) < 2:
        raise InputError(
            f"fewer than two of the documents from {text_block.documents[0][1].source} to "
            f"{text_block.documents[-1][1].source} contain text that the tokenizer can encode; "
            "next-sentence prediction needs two. Add documents, use larger blocks, or choose "
            "--objective mlm."
        )
    counts = Counts(
        documents=len(block.document_numbers),
        sentences=len(block.sentence_starts) - 1,
        words=num_words,
        corpus_tokens=len(block.token_ids),
    )
    serialized: list[bytes] = []
    for pass_number in range(settings.passes):
        made = _examples(block, settings, pass_number, tokenizer.num_separators)
        spans, labels = row_layout.spans_of(made), [example.label for example in made]
        lengths = row_layout.lengths_of(spans, tokenizer.num_separators)
        most = settings.max_examples_per_row if settings.pack else 1
        packed = packing.pack_rows(lengths.tolist(), settings.length, most)
        counts += Counts(
            examples=len(made),
            pairs_labelled_1=sum(labels),
            rows=len(packed),
            tokens=int(lengths.sum()),
            examples_in_fullest_row=max(map(len, packed), default=0),
        )
        if not packed:  # no document has a token
            continue
        arrays = row_layout.lay_out(
            block, spans, labels, packed, settings.length, settings.max_examples_per_row, tokenizer
        )
        serialized += records.serialize_rows(
            arrays, tokenizer.vocabulary_size, (text_block.number << 32) + len(serialized)
        )
    generator = draws.stream(settings.seed, "rows", text_block.number)
    order = draws.permutation(generator, len(serialized))
    return BuiltBlock([serialized[index] for index in order], counts)


def _examples(block, settings, pass_number, num_separators):
    if settings.objective == "mlm":
        return pairs.contiguous_examples(block, settings.length)
    is_nsp = settings.objective == "mlm_nsp"
    make = pairs.next_sentence_examples if is_nsp else pairs.sentence_order_examples
    length = settings.length - (num_separators - 1)  # pairs leave room for one separator
    return make(block, length, settings.seed, pass_number, settings.short_sequence_probability)


def tokenize(
    documents: Sequence[NumberedDocument], word_tokens: WordTokens
) -> tuple[pairs.TokenBlock, int]:
    """Splits documents into sentences and tokenizes these; also returns the number of words."""
    paragraphs, sentence_counts = [], []
    for _, document in documents:
        own = [document.paragraphs]
        if not document.is_split:
            own = [sentences.split_sentences(text) for text in document.paragraphs]
        paragraphs += own
        sentence_counts.append(sum(map(len, own)))
    token_ids, lengths, num_words = word_tokens(paragraphs)
    document_of = np.repeat(np.arange(len(documents)), sentence_counts)[lengths > 0]
    kept, kept_counts = np.unique(document_of, return_counts=True)
    block = pairs.TokenBlock(
        token_ids,
        [0, *np.cumsum(lengths[lengths > 0]).tolist()],
        [0, *np.cumsum(kept_counts).tolist()],
        [documents[index][0] for index in kept],
    )
    return block, num_words


class HashSet:
    """A set of 64-bit integers in 8 bytes each, used to detect duplicate documents."""

    _MOST_RECENT = 1 << 18  # in a Python set, which needs ten times the memory

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
