"""Further pieces for a tokenizer, learned from texts of a domain."""

import collections
import heapq
import re

import tensorflow as tf

from keras_bert_impl.tokenizers.sentencepiece.unigram import SPACE_MARK
from keras_bert_impl.tokenizers.texts import as_strings

_CHARACTERS_AT_ONCE = 1 << 20
_LETTERS = re.compile(r"[^\W\d_]+")


def learn_pieces(tokenizer, texts, count, min_frequency=5):
    """A tokenizer with further pieces behind its own, whose ids stay.

    Of WordPiece and SentencePiece these are whole words that it has in several pieces: best first
    those whose pieces come most often in the texts beyond one for each word. In SentencePiece a new
    piece is as likely as the least likely of the old ones, and so likelier than all of them
    together. Where a vocabulary has merges, they go on where they ended: again and again the most
    frequent pair of neighbours becomes a piece. Texts are read once and not kept.

    Args:
        tokenizer: `Tokenizer`.
        texts: iterable of str.
        count: int, the most pieces.
        min_frequency: int: a word or a pair that is rarer is left out. Default 5.

    Returns:
        (tokenizer, pieces): the larger one, of the same class; dict of new piece -> list of the ids
        of its old pieces, best first.

    Source: for merges Sennrich et al. 2016, section 3.2.

    Example:
        larger, pieces = learn_pieces(tokenizer, open("abstracts.txt"), 1000)
    """
    counts = count_words(texts, tokenizer.words)
    settings = tokenizer.get_config()
    if "merges" in settings:
        words = _in_pieces(tokenizer, counts)
        old = tokenizer.vocabulary, tokenizer.merges
        pieces, merges = further_merges(words, *old, count, min_frequency)
        settings["merges"] = [*tokenizer.merges, *merges]
    elif "scores" in settings:
        words = _in_pieces(tokenizer, _by_first_letters(counts))
        pieces = _whole_words(words, tokenizer.vocabulary, count, min_frequency, SPACE_MARK)
        least = [min(tokenizer.scores[i] for i in ids) for ids in pieces.values()]
        settings["scores"] = [*tokenizer.scores, *least]
    else:
        words = _in_pieces(tokenizer, counts)
        pieces = _whole_words(words, tokenizer.vocabulary, count, min_frequency)
    settings["vocabulary"] = [*tokenizer.vocabulary, *pieces]
    return type(tokenizer)(**settings), pieces


def count_words(texts, words_of):
    """How often each word comes.

    Args:
        texts: iterable of str.
        words_of: function of a string tensor [batch] to one of words, in graph.

    Returns:
        dict of str to int.
    """
    words_of = tf.function(
        words_of, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    counts = collections.Counter()
    for batch in _batches(texts):
        counts.update(words_of(as_strings(batch)).numpy().tolist())
    return {word.decode(): count for word, count in counts.items()}


def _batches(texts):
    """Lists of texts of some megabytes, so that the graph has enough to do at once."""
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > _CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _in_pieces(tokenizer, counts):
    """list of (word, ids of its pieces, count), by the alphabet; none with a special piece."""
    words = sorted(counts)
    special = {
        getattr(tokenizer, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")
    }
    pieces = tokenizer.word_ids(tf.constant(words, tf.string)).to_list() if words else []
    return [(w, ids, counts[w]) for w, ids in zip(words, pieces) if special.isdisjoint(ids)]


def _by_first_letters(counts):
    """Counts of the letters that words begin with: SentencePiece's words have their punctuation."""
    found = collections.Counter()
    for word, count in counts.items():
        letters = _LETTERS.match(word)
        if letters:
            found[letters[0]] += count
    return found


def _whole_words(words, vocabulary, count, min_frequency, mark=""):
    """dict of piece -> ids of its old pieces, those that save most first."""
    known = set(vocabulary)
    found = {
        mark + word: (ids, times)
        for word, ids, times in words
        if len(ids) > 1 and times >= min_frequency and mark + word not in known
    }
    best = sorted(found, key=lambda piece: (-found[piece][1] * (len(found[piece][0]) - 1), piece))
    return {piece: found[piece][0] for piece in best[:count]}


def further_merges(words, vocabulary, merges, count, min_frequency):
    """The next merges of byte-pair encoding.

    Pairs whose piece is there already, made by other merges, stay two pieces: of these merges new
    ones know nothing.

    Args:
        words: list of (word, ids of its pieces, count).
        vocabulary, merges: of the tokenizer.
        count: int, the most new pieces.
        min_frequency: int, of a pair.

    Returns:
        (pieces, merges): dict of new piece -> list of the ids of its old pieces; list of (left,
        right) pairs of str.
    """
    texts = list(vocabulary)
    old_ids = [[number] for number in range(len(texts))]
    known = {*texts, *(left + right for left, right in merges)}
    pairs = _Pairs((ids, times) for _, ids, times in words)
    found = []
    while len(found) < count:
        pair = pairs.most_frequent(min_frequency)
        if pair is None:
            break
        left, right = pair
        if texts[left] + texts[right] in known:
            pairs.forget(pair)
            continue
        pairs.merge(pair, len(texts))
        found.append((texts[left], texts[right]))
        texts.append(texts[left] + texts[right])
        old_ids.append(old_ids[left] + old_ids[right])
        known.add(texts[-1])
    new = slice(len(vocabulary), None)
    return dict(zip(texts[new], old_ids[new])), found


class _Pairs:
    """Pairs of neighbours in the pieces of words, counted while they are merged.

    Args:
        words: iterable of (list of ids, count).
    """

    def __init__(self, words):
        self._words = [(list(ids), times) for ids, times in words]
        self._counts = collections.Counter()
        self._where = collections.defaultdict(set)  # pair -> numbers of words it is or was in
        for number, (ids, times) in enumerate(self._words):
            self._add(number, ids, times)
        self._heap = [(-times, pair) for pair, times in self._counts.items()]
        heapq.heapify(self._heap)

    def _add(self, number, ids, times):
        for pair in zip(ids, ids[1:]):
            self._counts[pair] += times
            self._where[pair].add(number)

    def most_frequent(self, least):
        """The pair, of several the one with the lowest ids; None if none comes `least` times."""
        while self._heap:
            times, pair = self._heap[0]
            if -times == self._counts[pair]:
                return pair if -times >= least else None
            heapq.heappop(self._heap)  # counted anew since
        return None

    def forget(self, pair):
        """Passes a pair over from now on."""
        self._counts[pair] = 0

    def merge(self, pair, merged):
        """Replaces a pair by one piece, wherever it is."""
        changed = set()
        for number in self._where.pop(pair):
            ids, times = self._words[number]
            for old in zip(ids, ids[1:]):
                self._counts[old] -= times
                changed.add(old)
            ids = _merged(ids, pair, merged)
            self._words[number] = ids, times
            self._add(number, ids, times)
            changed.update(zip(ids, ids[1:]))
        for one in changed:
            heapq.heappush(self._heap, (-self._counts[one], one))


def _merged(ids, pair, merged):
    """ids with one in place of a pair, from the left."""
    found, place = [], 0
    while place < len(ids):
        is_pair = tuple(ids[place : place + 2]) == pair
        found.append(merged if is_pair else ids[place])
        place += 2 if is_pair else 1
    return found
