"""Compares our WordPiece tokenizer with `tokenizers` and with the original BERT tokenizer.

    python tools/compare_tokenizers.py --vocabulary vocab.txt --uncased --wikipedia lines.txt \
        --original tokenization.py --strings 1000000 --seed 0

`--original` is `tokenization.py` of https://github.com/google-research/bert (it is also in the
package bert-tensorflow 1.0.4). Ids are compared with both, offsets with `tokenizers`. Prints, for
each class of strings, how many differ, and at the end which characters make the difference. Exits
with 1 where anything differs from `tokenizers`. With `--speed` it measures instead: the first
Wikipedia lines, one thread, CPU time, all tokenizers in turn, medians of five.
"""

import argparse
import collections
import importlib.util
import itertools
import os
import random
import statistics
import sys
import time
import unicodedata
from pathlib import Path

import tensorflow as tf
import tensorflow_text
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_bert_impl.tokenizers import WordPieceTokenizer  # noqa: E402
from keras_bert_impl.tokenizers.pretrained_files import read_vocabulary  # noqa: E402
from keras_bert_impl.tokenizers.words import SPECIAL_TOKENS  # noqa: E402

BATCH = 8192
CONTEXTS = ("a{}b", " {} ", "{0}{0}", "é{}")
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
BYTES = bytes.fromhex("41 20 80 8f a0 bf c0 c1 c3 df e0 e4 ed ee f0 f1 f4 f5 f8 fe ff")


def reference(vocabulary, lowercase):
    """BERT's tokenizer as the `tokenizers` library has it."""
    ids = {token: position for position, token in enumerate(vocabulary)}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def load_original(path, vocabulary, lowercase):
    """A function from a text to ids, made of the classes of the original tokenization.py."""
    spec = importlib.util.spec_from_file_location("original_tokenization", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "FLAGS"):  # the packaged version reads its settings from the command line
        module.FLAGS.mark_as_parsed()
    ids = {token: position for position, token in enumerate(vocabulary)}
    basic = module.BasicTokenizer(do_lower_case=lowercase)
    pieces = module.WordpieceTokenizer(vocab=ids)
    return lambda text: [
        ids[piece] for word in basic.tokenize(text) for piece in pieces.tokenize(word)
    ]


def classes_of_strings(wikipedia, count, seed):
    """(name, iterable of bytes) of each class; the random ones share `count` strings."""
    draw = random.Random(seed)
    with open(wikipedia, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in itertools.islice(file, count // 10)]
    for context in CONTEXTS:
        yield f"every code point in {context!r}", (context.format(chr(c)) for c in CODE_POINTS)
    yield "Wikipedia lines", lines
    share = (count - len(lines)) // len(RANDOM_CLASSES)
    for name, make in RANDOM_CLASSES.items():
        # The original takes milliseconds for a word of hundreds of characters.
        number = share // 10 if make is _long_words else share
        yield name, (make(draw, lines) for _ in range(number))


def _random_unicode(draw, lines):
    return "".join(chr(draw.choice(CODE_POINTS)) for _ in range(draw.randint(1, 20)))


def _random_letters(draw, lines):
    """Mixtures from blocks that people write in, with marks, spaces and punctuation."""
    blocks = draw.sample(WRITTEN_BLOCKS, 3) + [(0x20, 0x7F), (0x300, 0x370)]
    return "".join(chr(draw.randrange(*draw.choice(blocks))) for _ in range(draw.randint(1, 40)))


def _long_words(draw, lines):
    length = draw.choice([99, 100, 101, 199, 200, 201, 250])
    letter = draw.choice(["a", "B", "é", "я", "ा", "한", "𐐀", "x\u0301", "ab", "中", "."])
    return f"ab {(letter * length)[: length * len(letter)]} c"


def _controls(draw, lines):
    odd = "\0\x01\x07\t\n\r\x0b\x1c\x7f\x85\xa0\xad\u200b\u200d\u2028\u202f\u3000\ufeff\ufffd\ue000"
    return "".join(draw.choice(odd + "ab ") for _ in range(draw.randint(1, 30)))


def _special_tokens(draw, lines):
    parts = [*SPECIAL_TOKENS, "[mask]", "[", "]", "[MASK", "MASK]", "a", " ", "é", "[ CLS]", "中"]
    return "".join(draw.choice(parts) for _ in range(draw.randint(1, 10)))


def _casing(draw, lines):
    odd = "İıſßẞΣσςΆΐǅǈǄŉᾳᾼK\u212bΩꭰᎠᏸﬁﬃȺⱥ\u0307\u0345aSI "
    return "".join(draw.choice(odd) for _ in range(draw.randint(1, 20)))


def _cut_lines(draw, lines):
    """Parts of Wikipedia lines with one character of them replaced by any other."""
    line = draw.choice(lines)
    start = draw.randrange(len(line) + 1)
    part = list(line[start : start + 60])
    if part:
        part[draw.randrange(len(part))] = chr(draw.choice(CODE_POINTS))
    return "".join(part)


def _invalid(draw, lines):
    text = draw.choice(lines)[:80].encode()
    place = draw.randrange(len(text) + 1)
    return text[:place] + bytes(draw.choices(BYTES, k=draw.randint(1, 6))) + text[place:]


RANDOM_CLASSES = {
    "random code points": _random_unicode,
    "random letters and marks": _random_letters,
    "very long words": _long_words,
    "control characters": _controls,
    "literal special tokens": _special_tokens,
    "odd casing": _casing,
    "Wikipedia, a character replaced": _cut_lines,
    "invalid UTF-8": _invalid,
}
WRITTEN_BLOCKS = [
    (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0xE00, 0x1000),
    (0x1100, 0x1200),
    (0x1E00, 0x2000), (0x2000, 0x2070), (0x3000, 0x3100), (0x4E00, 0xA000), (0xAC00, 0xD7A4),
    (0xF900, 0xFB00), (0x1D150, 0x1D180), (0x1F300, 0x1F700), (0x20000, 0x20100),
]  # fmt: skip


class Comparison:
    """Runs strings through all tokenizers, counts differences and keeps what made them."""

    def __init__(self, vocabulary, lowercase, original):
        self.ours = WordPieceTokenizer(vocabulary, lowercase)
        self.theirs = reference(vocabulary, lowercase)
        self.original = original
        self.causes = collections.Counter()
        self._odd = set()

    def run(self, name, strings):
        """Counts of one class: strings, and those that differ in ids, offsets, to the original."""
        strings, counts = iter(strings), collections.Counter()
        while batch := list(itertools.islice(strings, BATCH)):
            raw = [text if isinstance(text, bytes) else text.encode() for text in batch]
            texts = [text.decode("utf-8", "replace") for text in raw]
            self._check(name, raw, texts, counts)
        return counts

    def _check(self, name, raw, texts, counts):
        ids, starts, ends = self.ours.tokenize_with_offsets(tf.constant(raw))
        tf.debugging.assert_equal(ids.values, self.ours.tokenize(tf.constant(raw)).values)
        ids, starts, ends = ids.to_list(), starts.to_list(), ends.to_list()
        encodings = self.theirs.encode_batch(texts, add_special_tokens=False)
        for text, ours, start, end, theirs in zip(texts, ids, starts, ends, encodings):
            counts["strings"] += 1
            counts["ids"] += ours != theirs.ids
            counts["offsets"] += list(zip(start, end)) != theirs.offsets
            if self.original and ours != self.original(text):
                counts["original"] += 1
                self.causes[self._cause(name, text)] += 1

    def _cause(self, name, text):
        """Why a string differs from the original: the kind of its first odd character."""
        if name.startswith("every"):
            odd = next(character for character in text if character not in "abé ")
            self._odd.add(odd)
            return f"one of the {unicodedata.category(odd)} characters"
        if any(token in text for token in SPECIAL_TOKENS):
            return "a literal special token"
        if len(max(text.split(), key=len, default="")) > 100:
            return "a word of more than 100 characters"
        odd = [unicodedata.category(character) for character in text if character in self._odd]
        return f"one of the {odd[0]} characters" if odd else "something else"


def speed(vocabulary, lowercase, lines):
    """Prints lines a second of one thread for each tokenizer, and ratios to `tokenizers`."""
    ours, theirs = WordPieceTokenizer(vocabulary, lowercase), reference(vocabulary, lowercase)
    stock = tensorflow_text.FastBertTokenizer(
        vocabulary, token_out_type=tf.int32, lower_case_nfd_strip_accents=lowercase
    )
    batches = [lines[start : start + 256] for start in range(0, len(lines), 256)]
    tensors = [tf.constant(batch) for batch in batches]
    runs = {
        "tokenizers": lambda: [
            [encoding.ids for encoding in theirs.encode_batch(batch, add_special_tokens=False)]
            for batch in batches
        ],
        "ours": lambda: [ours.tokenize(batch) for batch in tensors],
        "ours, with offsets": lambda: [ours.tokenize_with_offsets(batch) for batch in tensors],
        "TensorFlow Text's FastBertTokenizer": lambda: [stock.tokenize(batch) for batch in tensors],
    }
    seconds = collections.defaultdict(list)
    for _ in range(6):
        for name, run in runs.items():
            began = time.process_time()
            run()
            seconds[name].append(time.process_time() - began)
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    for name, median in medians.items():
        ratio = medians["tokenizers"] / median
        print(f"| {name} | {len(lines) / median:,.0f} | {ratio:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", required=True, help="vocab.txt")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--uncased", dest="lowercase", action="store_true")
    mode.add_argument("--cased", dest="lowercase", action="store_false")
    parser.add_argument("--wikipedia", required=True, help="text file, a line is a string")
    parser.add_argument("--original", help="the original tokenization.py (default: left out)")
    parser.add_argument("--strings", type=int, default=1_000_000, help="besides the code points")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed", action="store_true", help="measure instead of comparing")
    options = parser.parse_args()
    vocabulary = read_vocabulary(options.vocabulary)
    if options.speed:
        os.environ["RAYON_NUM_THREADS"] = "1"
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        with open(options.wikipedia, encoding="utf-8") as file:
            speed(vocabulary, options.lowercase, [next(file).rstrip("\n") for _ in range(4096)])
        return 0
    original = None
    if options.original:
        original = load_original(options.original, vocabulary, options.lowercase)
    comparison = Comparison(vocabulary, options.lowercase, original)
    began, total = time.monotonic(), collections.Counter()
    columns = ("strings", "ids", "offsets", "original")
    print("| class | strings | ids differ | offsets differ | ids differ from the original |")
    print("|---|---|---|---|---|")
    for name, strings in classes_of_strings(options.wikipedia, options.strings, options.seed):
        counts = comparison.run(name, strings)
        total.update(counts)
        print(f"| {name} | " + " | ".join(f"{counts[c]:,}" for c in columns) + " |", flush=True)
    print("| all | " + " | ".join(f"{total[c]:,}" for c in columns) + " |\n")
    for cause, count in comparison.causes.most_common():
        print(f"| {cause} | {count:,} |")
    print(f"{time.monotonic() - began:.0f} s")
    return int(total["ids"] + total["offsets"] > 0)


if __name__ == "__main__":
    sys.exit(main())
