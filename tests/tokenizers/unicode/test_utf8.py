import random

import pytest
import tensorflow as tf

from keras_bert_impl.tokenizers.unicode import utf8

# Lead and continuation bytes at the limits of valid UTF-8.
ODD = bytes.fromhex("41 80 8f 90 9f a0 bf c0 c1 c2 df e0 ed ef f0 f4 f5 f7 f8 f9 fe ff")


DECODE = tf.function(utf8.decode, input_signature=[tf.TensorSpec([None], tf.string)])


def assert_decoded(texts):
    expected = [text.decode("utf-8", "replace") + "\n" for text in texts]
    code_points, starts = DECODE(tf.constant(texts, tf.string, shape=[len(texts)]))
    assert code_points.numpy().tolist() == [ord(character) for character in "".join(expected)]
    lengths = [len(text) for text in expected]
    assert (starts[1:] - starts[:-1]).numpy().tolist() == lengths


@pytest.mark.parametrize("ascii_around", [0, 100])  # decoded by TensorFlow; by our table
def test_invalid_utf8_is_replaced_as_python_does(ascii_around):
    draw = random.Random(0)
    for _ in range(500):
        odd = bytes(draw.choices(ODD, k=draw.randint(1, 6)))
        assert_decoded([b"x" * ascii_around + odd, odd + b"y" * ascii_around])


@pytest.mark.parametrize("ascii_around", [0, 40])
def test_characters_of_one_to_four_bytes(ascii_around):
    codes = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFEFF, 0xFFFF, 0x10000, 0x10FFFF]
    assert_decoded([("z" * ascii_around + chr(code)).encode() for code in codes])


def test_no_text_and_empty_texts():
    assert_decoded([])
    assert_decoded([b"", b""])


def test_encode_gives_the_words():
    text = "ab é 中😀x y"
    characters = tf.constant([ord(character) for character in text])
    words = utf8.encode(characters, tf.constant([0, 3, 5, 9]), tf.constant([2, 4, 8, 10]))
    assert [word.decode() for word in words.numpy()] == ["ab", "é", "中😀x", "y"]
