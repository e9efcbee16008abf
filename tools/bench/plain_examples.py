"""BERT's original algorithm for pre-training data: plain Python, one process, in memory.

This is the baseline for `prepare`, without arrays or graph operations. Documents are lists of
sentences. The output contains `tf.train.Example`s with static masks.

Source: Devlin et al. 2018, section 3.1 and appendix A.2.
"""

import random
import unicodedata

import tensorflow as tf

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0xF900, 0xFAFF))


class Tokenizer:
    """WordPiece tokenizer for lowercase text, one character at a time.

    Args:
        vocabulary: list of str.
    """

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self._pieces = set(vocabulary)

    def tokenize(self, text):
        """Returns a list of str."""
        return [piece for word in self._split_words(text) for piece in self._split_word(word)]

    def _split_words(self, text):
        cleaned = []
        for character in text:
            code = ord(character)
            if code in (0, 0xFFFD) or _is_control(character):
                continue
            if any(first <= code <= last for first, last in _CJK):
                cleaned.append(f" {character} ")
            else:
                cleaned.append(" " if character.isspace() else character)
        for word in "".join(cleaned).split():
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
            yield from _split_at_punctuation(word)

    def _split_word(self, word):
        if len(word) > 200:
            return ["[UNK]"]
        pieces, start = [], 0
        while start < len(word):
            end = len(word)
            while start < end:
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self._pieces:
                    break
                end -= 1
            else:
                return ["[UNK]"]
            pieces.append(piece)
            start = end
        return pieces


def _is_control(character):
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf")


def _split_at_punctuation(word):
    start = 0
    for place, character in enumerate(word):
        is_ascii_symbol = character.isascii() and not character.isalnum()
        if is_ascii_symbol or unicodedata.category(character).startswith("P"):
            if start < place:
                yield word[start:place]
            yield character
            start = place + 1
    if start < len(word):
        yield word[start:]


def write_examples(documents, vocabulary, path, length=128, dupe_factor=1, seed=0):
    """Writes masked pairs of segments.

    Args:
        documents: lists of sentences.
        vocabulary: list of str.
        path: str, the TFRecord file.
        length: int, number of tokens per example.
        dupe_factor: int, number of passes over the corpus, each with different pairs and masks.
        seed: int.

    Returns:
        (number of examples, number of their tokens without padding).
    """
    generator = random.Random(seed)
    tokenizer = Tokenizer(vocabulary)
    tokenized = [[tokenizer.tokenize(sentence) for sentence in document] for document in documents]
    tokenized = [list(filter(None, document)) for document in tokenized]
    tokenized = [document for document in tokenized if document]
    generator.shuffle(tokenized)
    words = [piece for piece in vocabulary if piece not in _SPECIAL]
    instances = []
    for _ in range(dupe_factor):
        for number in range(len(tokenized)):
            instances += _generate_pairs(tokenized, number, length - 3, generator)
    generator.shuffle(instances)
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    num_tokens = 0
    with tf.io.TFRecordWriter(path) as writer:
        for first, second, is_random in instances:
            tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
            num_tokens += len(tokens)
            positions, hidden = _mask(tokens, words, generator)
            writer.write(_serialize(tokens, segments, positions, hidden, is_random, ids, length))
    return len(instances), num_tokens


def _generate_pairs(documents, number, most_tokens, generator):
    document, chunk, chunk_tokens = documents[number], [], 0
    target = most_tokens if generator.random() >= 0.1 else generator.randint(2, most_tokens)
    place = 0
    while place < len(document):
        chunk.append(document[place])
        chunk_tokens += len(document[place])
        if place == len(document) - 1 or chunk_tokens >= target:
            end = generator.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            first = [token for sentence in chunk[:end] for token in sentence]
            is_random = len(chunk) == 1 or generator.random() < 0.5
            if is_random:
                second = _draw_segment(documents, number, target - len(first), generator)
                place -= len(chunk) - end  # unused sentences are put back for the next example
            else:
                second = [token for sentence in chunk[end:] for token in sentence]
            _trim(first, second, most_tokens, generator)
            yield first, second, is_random
            chunk, chunk_tokens = [], 0
        place += 1


def _draw_segment(documents, number, target, generator):
    index = number
    while index == number:
        index = generator.randrange(len(documents))
    tokens = []
    for sentence in documents[index][generator.randrange(len(documents[index])) :]:
        tokens += sentence
        if len(tokens) >= target:
            break
    return tokens


def _trim(first, second, most_tokens, generator):
    while len(first) + len(second) > most_tokens:
        longer = first if len(first) > len(second) else second
        del longer[0 if generator.random() < 0.5 else -1]


def _mask(tokens, words, generator):
    """Masks `tokens` in place; returns the masked positions and the original tokens."""
    candidates = [n for n, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    generator.shuffle(candidates)
    positions = sorted(candidates[: min(20, max(1, round(len(tokens) * 0.15)))])
    hidden = [tokens[position] for position in positions]
    for position in positions:
        draw = generator.random()
        if draw < 0.8:
            tokens[position] = "[MASK]"
        elif draw < 0.9:
            tokens[position] = generator.choice(words)
    return positions, hidden


def _serialize(tokens, segments, positions, hidden, is_random, ids, length):
    padding, unused = [0] * (length - len(tokens)), [0] * (20 - len(positions))
    integers = {
        "input_ids": [*(ids[token] for token in tokens), *padding],
        "input_mask": [1] * len(tokens) + padding,
        "segment_ids": segments + padding,
        "masked_lm_positions": positions + unused,
        "masked_lm_ids": [*(ids[token] for token in hidden), *unused],
        "next_sentence_labels": [int(is_random)],
    }
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in integers.items()
    }
    weights = tf.train.FloatList(value=[1.0] * len(positions) + [0.0] * len(unused))
    features["masked_lm_weights"] = tf.train.Feature(float_list=weights)
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString()
