import tensorflow as tf

from keras_bert_impl.tokenizers.unicode.table import (
    BREAK_AFTER,
    BREAK_BEFORE,
    DROPPED,
    SEQUENCE,
    UnicodeTable,
    flags_of,
    rank_of,
    value_of,
)


def entry(table, code):
    return table.lookup(tf.constant([code]))[0]


def test_letters_change_by_setting_of_lowercase():
    assert value_of(entry(UnicodeTable(True), ord("É"))) == ord("e")
    assert value_of(entry(UnicodeTable(False), ord("É"))) == ord("É")


def test_flags_of_kinds_of_characters():
    table = UnicodeTable(True)
    everything = BREAK_BEFORE | BREAK_AFTER | DROPPED | SEQUENCE
    expected = {"a": 0, "!": BREAK_BEFORE | BREAK_AFTER, "中": BREAK_BEFORE | BREAK_AFTER}
    expected |= {" ": BREAK_BEFORE | BREAK_AFTER | DROPPED, "\u0301": DROPPED, "\0": DROPPED}
    for character, flags in expected.items():
        assert flags_of(entry(table, ord(character)), everything) == flags, character


def test_a_syllable_becomes_three_letters():
    table = UnicodeTable(True)
    syllable = entry(table, ord("한"))
    assert flags_of(syllable, SEQUENCE) == SEQUENCE
    assert value_of(table.sequence(value_of(syllable))).numpy().tolist() == [0x1112, 0x1161, 0x11AB]


def test_marks_have_canonical_order():
    """U+0334 (class 1) before U+0316 (220) before U+0301 (230) before U+0345 (240)."""
    table = UnicodeTable(True)
    ranks = [int(rank_of(entry(table, mark))) for mark in (0x41, 0x334, 0x316, 0x301, 0x345)]
    assert ranks == sorted(set(ranks)) and ranks[0] == 0
    same_class = [int(rank_of(entry(table, mark))) for mark in (0x31B, 0x1D165, 0x1D172)]
    assert len(set(same_class)) == 1
