"""Creates keras_bert_impl/tokenizers/moses/table.npz from Unicode tables and `sacremoses`.

    python tools/make_moses_table.py [--out FILE]

Sets of characters come from Moses' rules (letters, numbers, ...) and from the properties of code
points in Python (white space, control characters, digits). The file in the package was created with
Python 3.11, Unicode 14. keras_bert_impl/tokenizers/moses/characters.py describes the layout.
"""

import argparse
import functools
import sys
import unicodedata
from pathlib import Path

import numpy as np
import sacremoses

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_bert_impl.tokenizers.moses import characters as layout  # noqa: E402
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS  # noqa: E402
from keras_bert_impl.utils.io.files import replace_file  # noqa: E402
from tools.make_unicode_table import SURROGATES, composition_classes, in_blocks  # noqa: E402


def composition() -> dict[str, np.ndarray]:
    """Returns the arrays of entries for composition, computed with Python's normalization."""
    letters = [chr(code) for code in range(CODE_POINTS) if code not in SURROGATES]
    classes = sorted({*map(unicodedata.combining, letters)})
    ranks = {letter: classes.index(unicodedata.combining(letter)) for letter in letters}
    decompose = functools.partial(unicodedata.normalize, "NFD")
    return composition_classes(decompose, functools.partial(unicodedata.normalize, "NFC"), ranks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(layout.__file__).with_name("table.npz")
    parser.add_argument("--out", type=Path, default=default, help="default: %(default)s")
    out = parser.parse_args().out
    moses = sacremoses.MosesTokenizer
    tests = {
        layout.SPACE: str.isspace,
        layout.REMOVED: lambda c: unicodedata.category(c).startswith("C"),
        layout.WORD: set(moses.IsAlnum).__contains__,
        layout.LETTER: set(moses.IsAlpha).__contains__,
        layout.NUMBER: set(moses.IsN).__contains__,
        layout.LOWER: set(moses.IsLower).__contains__,
        layout.DIGIT: lambda c: unicodedata.category(c) == "Nd",
    }
    flags = np.zeros(CODE_POINTS, np.uint8)
    for code in range(CODE_POINTS):
        if code not in SURROGATES:
            flags[code] = sum(flag for flag, test in tests.items() if test(chr(code)))
    arrays = in_blocks(flags) | {f"composition_{name}": a for name, a in composition().items()}
    with replace_file(out) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
    print(f"wrote {out}: {out.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
