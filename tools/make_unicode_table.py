"""Creates keras_bert_impl/tokenizers/unicode/table.npz with the `tokenizers` library.

    python tools/make_unicode_table.py [--out FILE]

Records the effect of normalizers and pre-tokenizers on every code point: BERT (cased and uncased),
byte-level BPE and SentencePiece models. With this table, our tokenizers do not depend on the
machine's Unicode tables. The layout is described in the reader of the file,
keras_bert_impl/tokenizers/unicode/table.py. Takes about two minutes.
"""

import argparse
import functools
import io
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_bert_impl.tokenizers.unicode import table as layout  # noqa: E402
from keras_bert_impl.utils.io.files import replace_file  # noqa: E402

SURROGATES = range(0xD800, 0xE000)  # surrogates are not valid in text
HANGUL_PARTS = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]  # joined to the previous syllable
OWN_WORD = layout.BREAK_BEFORE | layout.BREAK_AFTER
SPACE = OWN_WORD | layout.DROPPED

decompose = normalizers.NFD().normalize_str
pre_tokenize = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
clean = normalizers.BertNormalizer(
    handle_chinese_chars=False, strip_accents=False, lowercase=False
).normalize_str


def flags_of(character: str) -> int:
    """Returns the effect of the pre-tokenizer on a normalized character between two letters."""
    words = [word for word, _ in pre_tokenize(f"x{character}x")]
    if words == ["x", "x"]:
        return SPACE
    if words == ["x", character, "x"]:
        return OWN_WORD
    assert words == [f"x{character}x"], (character, words)
    return 0


def ranks_of_marks() -> dict[str, int]:
    """Returns mark -> rank: one plus the number of combining classes that sort before it."""
    letters = (chr(code) for code in range(layout.CODE_POINTS) if code not in SURROGATES)
    first, last = "\u0334", "\u0345"  # lowest and highest class
    marks = [
        letter
        for letter in letters
        if decompose(letter) == letter
        and (decompose(f"x{letter}{first}")[1] == first or decompose(f"x{last}{letter}")[2] == last)
    ]
    by_class = {unicodedata.combining(mark): mark for mark in marks}
    by_class.pop(0, None)  # marks newer than Python's table
    return {
        mark: 1 + sum(_is_sorted_before(class_mark, mark) for class_mark in by_class.values())
        for mark in [*marks, first, last]
    }


def _is_sorted_before(mark, later):
    return mark != later and decompose(f"x{later}{mark}")[1] == mark


def entry_of(
    code: int, normalize: Callable[[str], str], ranks: dict[str, int], sequences: list[list[int]]
) -> int:
    """Returns the entry of one code point; appends a row to `sequences` if needed."""
    if code in SURROGATES or not clean(f"x{chr(code)}x")[1:-1]:
        return layout.make_entry(0, layout.DROPPED, layout.CLEANED)
    text = normalize(f"x{chr(code)}x")[1:-1]
    rank = ranks.get(decompose(chr(code))[0], 0)
    if not text:
        return layout.make_entry(0, layout.DROPPED, rank)
    if len(text) == 3 and text[0] == text[2] == " ":  # CJK characters, separated by the normalizer
        return layout.make_entry(ord(text[1]) - code, OWN_WORD)
    if len(text) == 1:
        return layout.make_entry(ord(text) - code, flags_of(text), rank)
    assert len(text) <= layout.SLOTS and " " not in text, (hex(code), text)
    row = [layout.make_entry(ord(item), flags_of(item), ranks.get(item, 0)) for item in text]
    row += [layout.make_entry(0, layout.DROPPED, layout.CLEANED)] * (layout.SLOTS - len(row))
    sequences.append(row)
    return layout.make_entry(len(sequences) - 1 - code, layout.SEQUENCE)


def table(lowercase: bool, strip_accents: bool) -> dict[str, np.ndarray]:
    """Returns the arrays of a setting: index [blocks of Unicode], blocks [entries], sequences."""
    normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    normalize = normalizer.normalize_str
    # Text with accents is not in canonical order.
    ranks = ranks_of_marks() if strip_accents else {}
    sequences: list[list[int]] = []
    entries = [entry_of(code, normalize, ranks, sequences) for code in range(layout.CODE_POINTS)]
    rows = np.array(sequences, np.int32).reshape(-1, layout.SLOTS)
    return in_blocks(np.array(entries, np.int32)) | {"sequences": rows}


def in_blocks(values: np.ndarray) -> dict[str, np.ndarray]:
    """Returns arrays for one value per code point. Equal blocks are stored once."""
    rows = values.reshape(-1, layout.BLOCK)
    blocks, index = np.unique(rows, axis=0, return_inverse=True)
    return {"index": index.reshape(-1).astype(np.uint16), "blocks": blocks.reshape(-1)}


def byte_level_table() -> dict[str, np.ndarray]:
    """Returns the arrays of the classes by which byte-level BPE splits words."""
    pre_tokenize = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    neighbours = {layout.LETTER: "a", layout.NUMBER: "1", layout.OTHER: "!"}

    def class_of(code):
        if code not in SURROGATES:
            for name, neighbour in neighbours.items():
                if len(pre_tokenize(f"{neighbour}{chr(code)}{neighbour}")) == 1:
                    return name
        return layout.SPACE

    classes = [class_of(code) for code in range(layout.CODE_POINTS)]
    return in_blocks(np.array(classes, np.uint8))


def composition() -> dict[str, np.ndarray]:
    """Returns the arrays of normalization form C."""
    compose = normalizers.NFC().normalize_str
    letters = [chr(code) for code in range(layout.CODE_POINTS) if code not in SURROGATES]
    parts = {c: decompose(c) for c in letters if decompose(c) != c and not "가" <= c <= "힣"}
    pairs = {}
    for letter, text in parts.items():
        first, second = compose(text[:-1]), text[-1]
        if compose(letter) == letter:
            assert len(first) == 1 and compose(first + second) == letter, hex(ord(letter))
            pairs[(ord(first) << layout.PAIR_SHIFT) + ord(second)] = ord(letter)
    rows = [[*map(ord, text)] + [-1] * (4 - len(text)) for text in parts.values()]
    ranks = ranks_of_marks()
    return {
        **composition_classes(decompose, compose, {mark: ranks.get(mark, 0) for mark in letters}),
        "decomposed": np.array([*map(ord, parts)], np.int32),
        "parts": np.array(rows, np.int32),
        "pairs": np.array(sorted(pairs), np.int64),
        "composites": np.array([pairs[pair] for pair in sorted(pairs)], np.int32),
    }


def composition_classes(
    decompose: Callable[[str], str], compose: Callable[[str], str], ranks: dict[str, int]
) -> dict[str, np.ndarray]:
    """Returns the arrays of entries for composition. `ranks` contains every character."""
    composed = [c for c in ranks if compose(c) == c != decompose(c)]
    seconds = {decompose(letter)[-1] for letter in composed}
    seconds |= {*map(chr, HANGUL_PARTS)}
    firsts = {compose(decompose(letter)[:-1]) for letter in composed}
    assert not any(ranks[second] == 0 for second in seconds & firsts)
    entries = np.zeros(layout.CODE_POINTS, np.uint8)
    for letter, rank in ranks.items():
        first = decompose(letter)[0]
        entry = rank + layout.CHANGES * (compose(letter) != letter)
        entries[ord(letter)] = entry + layout.JOINS_BEFORE * (ranks[first] > 0 or first in seconds)
    return in_blocks(entries)


def word_table() -> dict[str, np.ndarray]:
    """Returns arrays that mark word characters, for tokens with `single_word`."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    tokenizer.add_tokens([AddedToken("x", single_word=True)])
    letters = [chr(code) if code not in SURROGATES else "a" for code in range(layout.CODE_POINTS)]
    is_inside = [tokenizer.encode(f"{letter}x").ids == [0] for letter in letters]
    return in_blocks(np.array(is_inside, np.uint8))


def folding() -> dict[str, np.ndarray]:
    """Returns the arrays of single characters that ALBERT's normalizer changes."""
    fold = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    ).normalize_str
    letters = (chr(code) for code in range(layout.CODE_POINTS) if code not in SURROGATES)
    changes = {letter: fold(letter) for letter in letters if fold(letter) != letter}
    texts = "".join(changes.values())
    return {
        "codes": np.array([ord(letter) for letter in changes], np.int32),
        "texts": np.array([ord(letter) for letter in texts], np.int32),
        "splits": np.cumsum([0, *map(len, changes.values())]).astype(np.int32),
    }


def graphemes() -> dict[str, np.ndarray]:
    """Returns arrays for joining characters, using normalizations that map one character to `y`.

    If the joined characters have fewer than six bytes, `y` replaces all of them.
    """
    joined, prepended = map_of("x"), map_of("\u0600")  # U+0600 joins the next character

    def kind_of(code):
        if code in SURROGATES:
            return layout.CONTROL
        if joined(f"x{chr(code)}") == "y":
            return layout.JOINS
        if joined(f"{chr(code)}x\u0301") == f"{chr(code)}y\u0301":
            return layout.PREPENDS
        is_control = code < 0x10000 and prepended(f"\u0600{chr(code)}") != "y"
        return layout.CONTROL if is_control else layout.PLAIN

    kinds = [kind_of(code) for code in range(layout.CODE_POINTS)]
    return in_blocks(np.array(kinds, np.uint8))


def map_of(character: str) -> Callable[[str], str]:
    """Returns the normalization of a SentencePiece model that maps one character to `y`."""
    with tempfile.TemporaryDirectory() as folder:
        rules, model = Path(folder, "rules.tsv"), io.BytesIO()
        rules.write_text(f"{ord(character):X}\t79\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"]),
            model_writer=model,
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
        )
    # mypy does not find the message classes, which are generated at run time
    proto = sentencepiece_model_pb2.ModelProto.FromString(  # type: ignore[attr-defined]
        model.getvalue()
    )
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap).normalize_str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(layout.__file__).with_name("table.npz")
    parser.add_argument("--out", type=Path, default=default, help="default: %(default)s")
    out = parser.parse_args().out
    arrays = {}
    tables: dict[str, Callable] = {
        name: functools.partial(table, *setting) for setting, name in layout.NAMES.items()
    }
    tables |= {"byte_level": byte_level_table, "folding": folding, "grapheme": graphemes}
    tables |= {"word": word_table, "composition": composition}
    for name, table_of in tables.items():
        for key, array in table_of().items():
            arrays[f"{name}_{key}"] = array
            print(f"{name} {key}: {array.shape} {array.dtype}")
    with replace_file(out) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
    print(f"wrote {out}: {out.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
