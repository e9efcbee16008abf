"""Learns a WordPiece vocabulary, or additional tokens for a tokenizer, from texts."""

import collections
import heapq
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.inputs import as_strings
from keras_bert_impl.tokenizers.sentencepiece.families import SPACE_MARK
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.wordpiece.files import without_accents
from keras_bert_impl.tokenizers.wordpiece.words import SPECIAL_TOKENS, WordSplitter
from keras_bert_impl.utils.errors import InputError

_PREFIX = "##"  # prefix of a token that continues a word
_ALPHABET = 1000  # maximum number of single-character tokens

_CHARACTERS_AT_ONCE = 1 << 20
_OUTSIDE_ASCII = re.compile(r"[^\x00-\x7f]")
_LETTERS = re.compile(r"[^\W\d_]+")


def learn_wordpiece_vocabulary(
    texts: Iterable[str],
    vocabulary_size: int = 30522,
    lowercase: bool = True,
    min_frequency: int = 2,
) -> list[str]:
    """Learns a WordPiece vocabulary from texts.

    Starts with the 1,000 most frequent characters, and merges the most frequent pair of tokens
    until the vocabulary is full. Uses the trainer of the `tokenizers` library. Texts are read once.
    Memory grows with the number of distinct words. The result is deterministic: the same texts
    always give the same vocabulary.

    Args:
        vocabulary_size: Number of tokens to learn, including special tokens. Small corpora give
            fewer tokens. The default is the size of BERT's vocabulary.
        lowercase: Whether to lowercase texts and strip accents. Create the tokenizer with the same
            value.
        min_frequency: Pairs of tokens that occur less often are not merged.

    Returns:
        The vocabulary: [PAD], [UNK], [CLS], [SEP], [MASK], then single characters, then longer
        tokens in the order in which they were learned.

    Raises:
        InputError: The texts contain no words, or `vocabulary_size` is too small for the
            characters.

    Example:
        vocabulary = learn_wordpiece_vocabulary(open("corpus.txt"), vocabulary_size=8000)
    """
    split = WordSplitter(lowercase)
    counts = count_words(texts, lambda batch: split(batch).ordinary())
    if not counts:
        raise InputError("the texts contain no words to learn a vocabulary from.")
    # The trainer numbers tokens in random order and breaks ties by number. With a given list of
    # characters, the result is deterministic.
    characters = _choose_alphabet(counts)
    inside = {character for word in counts for character in word[1:]}
    start = [*SPECIAL_TOKENS, *characters]
    start += [_PREFIX + character for character in characters if character in inside]
    if vocabulary_size < len(start):
        raise InputError(
            f"vocabulary_size={vocabulary_size} is too small: special tokens and characters alone "
            f"need {len(start)}."
        )
    return _train(counts, start, vocabulary_size, min_frequency)


def count_accents(texts: Iterable[str], counts: collections.Counter[str]) -> Iterator[str]:
    """Yields `texts`, and counts their characters outside ASCII."""
    for text in texts:
        counts.update(_OUTSIDE_ASCII.findall(text))
        yield text


def describe_folding(counts: collections.Counter[str]) -> str:
    """Describes the accents that an uncased vocabulary removes; empty if there are none.

    Args:
        counts: From `count_accents`.
    """
    removed = {c: n for c, n in counts.items() if without_accents(c) != c}
    if not removed:
        return ""
    some = ", ".join(sorted(removed, key=lambda c: (-removed[c], c))[:5])
    return (
        f"removed the accents of {sum(removed.values()):,} characters, such as {some}; --cased keeps "
        "accents and capital letters"
    )


def _choose_alphabet(counts):
    frequency: collections.Counter = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    ranked = sorted(frequency, key=lambda character: (-frequency[character], character))
    return sorted(ranked[:_ALPHABET])


def _train(counts, start, vocabulary_size, min_frequency):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        min_frequency=min_frequency,
        special_tokens=start,
        limit_alphabet=0,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeat_words(counts), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.get)


def _repeat_words(counts):
    for word, count in sorted(counts.items()):
        for start in range(0, count, 1000):
            yield f"{word} " * min(1000, count - start)


class Extension(NamedTuple):
    """A tokenizer with new tokens.

    Attributes:
        tokenizer: The extended tokenizer, of the same class.
        old_ids: For each new token, the ids of the old tokens that form it. The best new token is
            first.
        tokens_per_word: Mean numbers of tokens per word before and after the extension. Empty if
            the texts contain no words.
    """

    tokenizer: Tokenizer
    old_ids: dict[str, list[int]]
    tokens_per_word: list[float]


def learn_tokens(
    tokenizer: Tokenizer, texts: Iterable[str], count: int, min_frequency: int = 5
) -> Extension:
    """Extends a tokenizer with new subword tokens; existing ids do not change.

    Source: for merges, Sennrich et al. 2016, section 3.2.
    """
    counts = count_words(texts, tokenizer.words)
    settings = tokenizer.get_config()
    if "merges" in settings:
        words = _split_into_tokens(tokenizer, counts)
        old = tokenizer.vocabulary, settings["merges"]
        old_ids, merges = further_merges(words, *old, count, min_frequency)
        settings["merges"] = [*settings["merges"], *merges]
    elif "scores" in settings:
        words = _split_into_tokens(tokenizer, _cut_after_letters(counts))
        old_ids = _choose_words(words, tokenizer.vocabulary, count, min_frequency, SPACE_MARK)
        scores = settings["scores"]
        least = [min(scores[i] for i in ids) for ids in old_ids.values()]
        # Tokens without a score get the lowest score, which does not change the score of unknown
        # tokens.
        unscored = tokenizer.vocabulary_size - len(scores)
        settings["scores"] = [*scores, *[min(scores)] * unscored, *least]
    else:
        words = _split_into_tokens(tokenizer, counts)
        old_ids = _choose_words(words, tokenizer.vocabulary, count, min_frequency)
    settings["vocabulary"] = [*tokenizer.vocabulary, *old_ids]
    larger = type(tokenizer)(**settings)
    kinds = (tokenizer, larger) if counts else ()
    return Extension(larger, old_ids, [_average_tokens(kind, counts) for kind in kinds])


def _average_tokens(tokenizer, counts):
    numbers = tokenizer.word_ids(tf.constant([*counts], tf.string)).row_lengths()
    return float(np.average(numbers, weights=[*counts.values()]))


def _split_into_tokens(tokenizer, counts):
    """Returns (word, token ids, count) of the words without special tokens, sorted by word."""
    words = sorted(counts)
    special = {getattr(tokenizer, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")}
    old_ids = tokenizer.word_ids(tf.constant(words, tf.string)).to_list() if words else []
    return [(w, ids, counts[w]) for w, ids in zip(words, old_ids) if special.isdisjoint(ids)]


def _cut_after_letters(counts):
    """Cuts words after their first run of letters. SentencePiece words may end in punctuation."""
    prefix_counts: collections.Counter = collections.Counter()
    for word, count in counts.items():
        letters = _LETTERS.match(word)
        if letters:
            prefix_counts[letters[0]] += count
    return prefix_counts


def _choose_words(words, vocabulary, count, min_frequency, mark=""):
    """Chooses the words that save the most tokens. Returns {new token: old ids}."""
    old_tokens = set(vocabulary)
    candidates = {
        mark + word: (ids, times)
        for word, ids, times in words
        if len(ids) > 1 and times >= min_frequency and mark + word not in old_tokens
    }
    best = sorted(
        candidates,
        key=lambda token: (-candidates[token][1] * (len(candidates[token][0]) - 1), token),
    )
    return {token: candidates[token][0] for token in best[:count]}


def further_merges(
    words: list[tuple[str, list[int], int]],
    vocabulary: list[str],
    merges: list[tuple[str, str]],
    count: int,
    min_frequency: int,
) -> tuple[dict[str, list[int]], list[tuple[str, str]]]:
    """Learns additional merges. Returns ({new token: old token ids}, list of (left, right))."""
    texts = list(vocabulary)
    old_ids = [[number] for number in range(len(texts))]
    tokens = {*texts, *(first + second for first, second in merges)}
    pairs = _Pairs((ids, times) for _, ids, times in words)
    new_merges: list[tuple[str, str]] = []
    while len(new_merges) < count:
        pair = pairs.most_frequent(min_frequency)
        if pair is None:
            break
        first, second = pair
        if texts[first] + texts[second] in tokens:
            pairs.skip(pair)
            continue
        pairs.merge(pair, len(texts))
        new_merges.append((texts[first], texts[second]))
        texts.append(texts[first] + texts[second])
        old_ids.append(old_ids[first] + old_ids[second])
        tokens.add(texts[-1])
    new = slice(len(vocabulary), None)
    return dict(zip(texts[new], old_ids[new])), new_merges


class _Pairs:
    def __init__(self, words: Iterable[tuple[list[int], int]]) -> None:
        self._words = [(list(ids), times) for ids, times in words]
        self._counts: collections.Counter = collections.Counter()
        # pair -> indices of the words that contain it, or contained it before a merge
        self._where: collections.defaultdict = collections.defaultdict(set)
        for number, (ids, times) in enumerate(self._words):
            self._add(number, ids, times)
        self._heap = [(-times, pair) for pair, times in self._counts.items()]
        heapq.heapify(self._heap)

    def _add(self, number, ids, times):
        for pair in zip(ids, ids[1:]):
            self._counts[pair] += times
            self._where[pair].add(number)

    def most_frequent(self, least: int) -> tuple[int, int] | None:
        """Returns the most frequent pair, or None if its count is below `least`."""
        while self._heap:
            times, pair = self._heap[0]
            if -times == self._counts[pair]:
                return pair if -times >= least else None
            heapq.heappop(self._heap)  # The count is outdated.
        return None

    def skip(self, pair: tuple[int, int]) -> None:
        self._counts[pair] = 0

    def merge(self, pair: tuple[int, int], merged: int) -> None:
        changed = set()
        for number in self._where.pop(pair):
            ids, times = self._words[number]
            for old in zip(ids, ids[1:]):
                self._counts[old] -= times
                changed.add(old)
            ids = _merge_pair(ids, pair, merged)
            self._words[number] = ids, times
            self._add(number, ids, times)
            changed.update(zip(ids, ids[1:]))
        for changed_pair in changed:
            heapq.heappush(self._heap, (-self._counts[changed_pair], changed_pair))


def _merge_pair(ids, pair, merged):
    merged_ids, place = [], 0
    while place < len(ids):
        is_pair = tuple(ids[place : place + 2]) == pair
        merged_ids.append(merged if is_pair else ids[place])
        place += 2 if is_pair else 1
    return merged_ids


def count_words(texts: Iterable[str], words_of: Callable) -> dict[str, int]:
    words_of = tf.function(
        words_of, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    counts: collections.Counter = collections.Counter()
    for batch in batches(texts):
        counts.update(words_of(as_strings(batch)).numpy().tolist())
    return {word.decode(): count for word, count in counts.items()}


def batches(texts):
    """Yields lists of texts of a few megabytes."""
    batch, size = [], 0
    for text in itertools.chain.from_iterable(map(_split_text, texts)):
        batch.append(text)
        size += len(text)
        if size > _CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _split_text(text):
    """Splits a text at spaces into chunks of about one megabyte, to limit memory."""
    start = 0
    while len(text) - start > _CHARACTERS_AT_ONCE:
        most = start + _CHARACTERS_AT_ONCE
        end = text.rfind(" ", start, most) + 1 or most
        yield text[start:end]
        start = end
    yield text[start:]
