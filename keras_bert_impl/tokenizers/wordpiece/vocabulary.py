"""Training of a WordPiece vocabulary."""

import collections
from collections.abc import Iterable

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tokenizers.new_tokens import count_words
from keras_bert_impl.tokenizers.wordpiece.words import SPECIAL_TOKENS, WordSplitter

_PREFIX = "##"  # of a token that continues a word
_ALPHABET = 1000  # maximum number of single-character tokens


def learn_wordpiece_vocabulary(
    texts: Iterable[str],
    vocabulary_size: int = 30522,
    lowercase: bool = True,
    min_frequency: int = 2,
) -> list[str]:
    """Learns a WordPiece vocabulary from texts.

    Starts from the 1,000 most frequent characters and joins the most frequent pair of tokens
    until the vocabulary is full (the trainer of the `tokenizers` library). Texts are read once and
    not kept; memory grows with the number of different words. The same texts give the same list.

    Args:
        vocabulary_size: Number of tokens to learn, including special tokens. The result is
            smaller if the texts do not have as many. The default is BERT's.
        lowercase: Whether to lowercase and strip accents. Give the tokenizer the same value.
        min_frequency: The minimum count of a pair to be joined.

    Returns:
        [PAD] [UNK] [CLS] [SEP] [MASK], characters, then tokens in the order learned.

    Raises:
        InputError: If the texts have no words or `vocabulary_size` is too small for the characters.

    Example:
        vocabulary = learn_wordpiece_vocabulary(open("corpus.txt"), vocabulary_size=8000)
    """
    split = WordSplitter(lowercase)
    counts = count_words(texts, lambda batch: split(batch).ordinary())
    if not counts:
        raise InputError("the corpus is empty: its texts have no words to learn a vocabulary from.")
    # The trainer numbers tokens in the order in which it finds them, which is random, and breaks
    # ties by number. Listing all characters in order beforehand makes it deterministic.
    characters = _alphabet(counts)
    inside = {character for word in counts for character in word[1:]}
    start = [*SPECIAL_TOKENS, *characters]
    start += [_PREFIX + character for character in characters if character in inside]
    if vocabulary_size < len(start):
        raise InputError(
            f"vocabulary_size={vocabulary_size} is too small: special tokens and characters alone "
            f"need {len(start)}."
        )
    return _train(counts, start, vocabulary_size, min_frequency)


def _alphabet(counts):
    """Returns the most frequent characters, in code point order."""
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
    tokenizer.train_from_iterator(_repeated(counts), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.get)


def _repeated(counts):
    """Yields every word as often as it was counted, in texts of bounded size, for the trainer."""
    for word, count in sorted(counts.items()):
        for done in range(0, count, 1000):
            yield f"{word} " * min(1000, count - done)
