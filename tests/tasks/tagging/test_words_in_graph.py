"""Words and entities in a TensorFlow graph equal those in Python."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batches import words as in_python
from keras_bert_impl.data.tags.spans import read_labels, spans_of
from keras_bert_impl.tasks.tagging.decode import LabelParts, find_units
from keras_bert_impl.tokenizers.text_words import TextReader, TextWords, find_words


@pytest.fixture(scope="module")
def reader():
    return TextReader()


def test_every_character_is_split_like_in_python(reader):
    """A character between two letters separates them, joins them, or is a separate word."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = ["".join(f"a{chr(code)}b" for code in codes[i::64]) for i in range(64)]
    read = reader(tf.constant(texts))
    spans = find_words(read)
    expected = [in_python.find_words(text) for text in texts]
    assert spans.counts.numpy().tolist() == [len(words.starts) for words in expected]
    starts, ends = (read.in_texts(p, spans.texts).numpy() for p in (spans.starts, spans.ends))
    np.testing.assert_array_equal(starts, np.concatenate([words.starts for words in expected]))
    np.testing.assert_array_equal(ends, np.concatenate([words.ends for words in expected]))


def test_invalid_utf_8_is_split_like_in_python(reader):
    texts = [b"\xff a\xe2\x82 b", b"", b"\0 \0", b" "]
    read = reader(tf.constant(texts))
    spans = find_words(read)
    expected = [in_python.find_words(text.decode("utf-8", "replace")) for text in texts]
    assert spans.counts.numpy().tolist() == [len(words.starts) for words in expected]
    strings = [text.decode() for text in read.strings(spans.starts, spans.ends).numpy()]
    assert strings == [w.text[a:b] for w in expected for a, b in zip(w.starts, w.ends)]


def test_empty_batch_has_no_words(reader):
    read = reader(tf.constant([], tf.string))
    spans = find_words(read)
    assert spans.starts.shape == (0,) and spans.counts.shape == (0,)


@pytest.mark.parametrize(
    "labels",
    [
        *(
            ["O", *(f"{prefix}{kind}" for prefix in prefixes for kind in ("-X", "-Y", ""))]
            for prefixes in ("BI", "BIES", "I", "BILU")
        ),
        ["B_X", "M_X", "E_X", "S_X", "O", "M_Y"],
        ["o", "b-x", "i-x", "i-y", "[CLS]", "X"],
        ["O", "PER", "LOC"],
        ["PER-B", "PER-I", "O", "LOC-I"],
    ],
)
def test_entities_equal_those_of_python(labels):
    """Decodes random sequences of three texts, including invalid ones, like `spans_of`."""
    of_labels = read_labels(labels).parts
    parts, draw = LabelParts(labels), np.random.default_rng(0)
    for _ in range(50):
        counts = draw.integers(0, 9, 3)
        numbers = draw.integers(0, len(labels), counts.sum()).astype("int32")
        places = np.arange(counts.sum(), dtype="int32")
        scores = draw.random((counts.sum(), len(labels))).astype("float32")
        words = TextWords(
            tf.constant(2 * places),
            tf.constant(2 * places + 1),
            tf.constant(np.repeat(np.arange(3), counts)),
            tf.constant(counts),
        )
        entities = parts.entities(words, find_units(tf.constant(places)), numbers, scores)
        expected, first = [], 0
        for text, count in enumerate(counts):
            row = numbers[first : first + count]
            for span in spans_of([labels[number] for number in row], parts=of_labels):
                section = slice(first + span.start, first + span.end)
                score = scores[section][np.arange(span.end - span.start), numbers[section]].mean()
                expected.append((span.type, 2 * section.start, 2 * section.stop - 1, text, score))
            first += count
        kinds = [parts.types[number] for number in entities.types]
        columns = (entities.starts, entities.ends, entities.texts)
        received = list(zip(kinds, *(column.numpy().tolist() for column in columns)))
        assert received == [entity[:4] for entity in expected]
        # A mean of at most eight numbers below 1.
        np.testing.assert_allclose(entities.scores, [entity[4] for entity in expected], atol=1e-6)


def test_words_that_share_a_token_form_one_unit():
    units = find_units(tf.constant([4, 4, -1, -1, 5]))
    assert units.firsts.numpy().tolist() == [0, 2, 3, 4]
    assert units.of_words.numpy().tolist() == [0, 0, 1, 2, 3]
    assert units.is_known.numpy().tolist() == [True, False, False, True]
