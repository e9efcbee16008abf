"""Derives keras_bert_impl/tokenizers/moses/table.npz from Python's Unicode tables and `sacremoses`.

    python tools/make_moses_table.py [--out FILE]

Sets of characters come from Moses' rules (letters, numbers, ...) and from Python's properties of
each code point (white space, control characters, digits). The file in the package was made with
Python 3.11, Unicode 14. keras_bert_impl/tokenizers/moses/characters.py describes the layout.
"""

import argparse
import sys
import unicodedata
from pathlib import Path

import numpy as np
import sacremoses

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_bert_impl.io.files import replace_file  # noqa: E402
from keras_bert_impl.tokenizers.moses import characters as layout  # noqa: E402
from keras_bert_impl.tokenizers.unicode.table import BLOCK, CODE_POINTS  # noqa: E402

SURROGATES = range(0xD800, 0xE000)  # not valid in text
HANGUL_PARTS = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]  # join the syllable before them


def joins(character: str, parts: set[str]) -> bool:
    return unicodedata.combining(character) > 0 or character in parts


def second_parts() -> set[str]:
    """Returns the non-initial characters of decompositions, which may compose again (NFC)."""
    parts = {chr(code) for code in HANGUL_PARTS}
    for character in map(chr, range(CODE_POINTS)):
        halves = unicodedata.decomposition(character).split()
        if len(halves) == 2 and not halves[0].startswith("<"):
            parts.add(chr(int(halves[1], 16)))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(layout.__file__).with_name("table.npz")
    parser.add_argument("--out", type=Path, default=default, help="default: %(default)s")
    out = parser.parse_args().out
    moses = sacremoses.MosesTokenizer
    parts = second_parts()
    tests = {
        layout.SPACE: str.isspace,
        layout.REMOVED: lambda c: unicodedata.category(c).startswith("C"),
        layout.WORD: set(moses.IsAlnum).__contains__,
        layout.LETTER: set(moses.IsAlpha).__contains__,
        layout.NUMBER: set(moses.IsN).__contains__,
        layout.LOWER: set(moses.IsLower).__contains__,
        layout.DIGIT: lambda c: unicodedata.category(c) == "Nd",
        layout.JOINS: lambda c: joins(unicodedata.normalize("NFD", c)[0], parts),
    }
    flags = np.zeros(CODE_POINTS, np.uint8)
    for code in range(CODE_POINTS):
        if code not in SURROGATES:
            flags[code] = sum(flag for flag, test in tests.items() if test(chr(code)))
    blocks, index = np.unique(flags.reshape(-1, BLOCK), axis=0, return_inverse=True)
    index = index.reshape(-1).astype(np.uint16)
    with replace_file(out) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, index=index, blocks=blocks.reshape(-1))
    print(f"wrote {out}: {out.stat().st_size / 1024:.0f} KiB, {len(blocks)} blocks")


if __name__ == "__main__":
    main()
