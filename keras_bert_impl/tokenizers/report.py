"""Measures how a tokenizer splits the words of a corpus."""

import collections
from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_bert_impl.tokenizers.learning import batches
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.utils.characters import word_pattern
from keras_bert_impl.utils.errors import InputError


def tokenizer_report(
    tokenizer: Tokenizer, texts: Iterable[str], num_words: int = 10
) -> dict[str, Any]:
    """Measures how a tokenizer splits texts, to choose or extend a vocabulary.

    A word is a sequence of characters with at least one letter or digit, between white space and
    punctuation; an ideograph is a word. Each word is tokenized separately, with a space before it.
    The words do not depend on the tokenizer, so reports of different tokenizers are comparable.

    Args:
        texts: Iterated only once.
        num_words: Maximum length of the lists `most_split` and `most_unknown`.

    Returns:
        dict with the keys
        - `vocabulary_size`: number of tokens in the vocabulary;
        - `characters`, `tokens`: numbers of characters and tokens in the texts, without special
          tokens;
        - `characters_per_token`: `characters` divided by `tokens`;
        - `words`: number of words in the texts;
        - `tokens_per_word`: mean number of tokens per word;
        - `split_words`, `unknown_words`: fraction of the words with several tokens, and with the
          unknown token;
        - `most_split`: the words whose splits add the most tokens to the texts: a list of dicts
          with `word`, `count` and `tokens`;
        - `most_unknown`: the most frequent words with the unknown token, in this format.

    Raises:
        InputError: The texts contain no word.

    Example:
        from keras_bert_impl.tokenizers.report import tokenizer_report
        tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
        tokenizer_report(tokenizer, ["a ab ab"])["most_split"]  # [{"word": "ab", "count": 2, "tokens": ["a", "##b"]}]
    """
    counts: collections.Counter[str] = collections.Counter()
    characters = tokens = 0
    for batch in batches(texts):
        characters += sum(map(len, batch))
        tokens += len(tokenizer.tokenize(batch).flat_values)
        for text in batch:
            counts.update(word_pattern().findall(text))
    words = sorted(word for word in counts if any(map(str.isalnum, word)))
    if not words:
        raise InputError("the texts contain no words.")
    ids = tokenizer.tokenize([f" {word}" for word in words]).to_list()
    times = np.array([counts[word] for word in words])
    lengths = np.array([len(word_ids) for word_ids in ids])
    is_unknown = np.array([tokenizer.unk_id in word_ids for word_ids in ids])

    def listed(scores):
        places = np.argsort(-scores, kind="stable")[:num_words]
        return [
            {
                "word": words[place],
                "count": int(times[place]),
                "tokens": [tokenizer.id_to_token(i) for i in ids[place]],
            }
            for place in places[scores[places] > 0]
        ]

    return {
        "vocabulary_size": tokenizer.vocabulary_size,
        "characters": characters,
        "tokens": tokens,
        "characters_per_token": characters / max(tokens, 1),
        "words": int(times.sum()),
        "tokens_per_word": float(np.average(lengths, weights=times)),
        "split_words": float(np.average(lengths > 1, weights=times)),
        "unknown_words": float(np.average(is_unknown, weights=times)),
        "most_split": listed(times * (lengths - 1)),
        "most_unknown": listed(times * is_unknown),
    }
