"""Compares our tokenizers with `transformers` and with the original tokenizers.

    python tools/compare_tokenizers.py --tokenizer bert-base-uncased --wikipedia lines.txt \
        --original tokenization.py --strings 1000000 --seed 0

`--tokenizer` is a model directory with tokenizer files of any kind that this package reads. For the
same directory, ids and offsets are compared with `transformers`, and ids also with the original
tokenizer. For WordPiece, `--original` is `tokenization.py` of
https://github.com/google-research/bert (also in the package bert-tensorflow 1.0.4). For
SentencePiece, it is the model file for the `sentencepiece` library, with the model authors' text
preparation. Prints the number of strings with differences per class, then the characters that cause
differences from the original. Exits with status 1 if a string gives other results than in
`transformers`.

With `--core`, our tokenizer uses only core TensorFlow operations, without TensorFlow Text.

With `--speed`, it measures CPU time instead: the medians of five rounds on the first Wikipedia
lines, in batches of `--batch`. The tokenizers alternate. The measurement uses one thread, or all
threads with `--parallel`.
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import tensorflow as tf
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from keras_bert_impl.tokenizers import (  # noqa: E402
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
)
from keras_bert_impl.tokenizers.graphs import core_operations  # noqa: E402
from keras_bert_impl.tokenizers.sentencepiece.families import FAMILIES  # noqa: E402

BATCH = 8192
CONTEXTS = ("a{}b", " {} ", "{0}{0}", "é{}")
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
BYTES = bytes.fromhex("41 20 80 8f a0 bf c0 c1 c3 df e0 e4 ed ee f0 f1 f4 f5 f8 fe ff")


Encoding = collections.namedtuple("Encoding", "ids offsets")


class PythonTokenizer:
    """A Python tokenizer of `transformers`, such as FlauBERT's, with the interface of `tokenizers`.

    It has no offsets.
    """

    def __init__(self, tokenizer: transformers.PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def encode_batch(self, texts: list[str], add_special_tokens: bool) -> list[Encoding]:
        rows = self._tokenizer(texts, add_special_tokens=add_special_tokens)["input_ids"]
        return [Encoding(ids, None) for ids in rows]


def reference(directory: str) -> Any:
    """Returns the tokenizer of `transformers`, either fast (`tokenizers`) or in Python."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    if not tokenizer.is_fast:
        return PythonTokenizer(tokenizer)
    tokenizer.backend_tokenizer.no_padding()  # tokenizer.json may contain both
    tokenizer.backend_tokenizer.no_truncation()
    return tokenizer.backend_tokenizer


def load_original(path: str, ours: Tokenizer) -> Callable[[str], list[int]]:
    """Returns the model authors' function from texts to ids."""
    if isinstance(ours, WordPieceTokenizer):
        return _load_original_bert(path, ours.vocabulary, ours.lowercase)
    if not isinstance(ours, SentencePieceTokenizer):
        raise SystemExit("there is no original tokenizer for this kind of tokenizer.")
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    ids = {token: position for position, token in enumerate(ours.vocabulary)}
    pieces = _encode_albert_pieces if FAMILIES[ours.family].folds else _encode_pieces
    return lambda text: [ids.get(piece, ours.unk_id) for piece in pieces(model, text)]


def _load_original_bert(path, vocabulary, lowercase):
    spec = importlib.util.spec_from_file_location("original_tokenization", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "FLAGS"):  # the packaged version reads flags from the command line
        module.FLAGS.mark_as_parsed()
    ids = {token: position for position, token in enumerate(vocabulary)}
    basic = module.BasicTokenizer(do_lower_case=lowercase)
    pieces = module.WordpieceTokenizer(vocab=ids)
    return lambda text: [
        ids[piece] for word in basic.tokenize(text) for piece in pieces.tokenize(word)
    ]


def _encode_pieces(model, text):
    return model.encode(text, out_type=str)


def _encode_albert_pieces(model, text):
    """Splits the comma from a number, and tokenizes the number again."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    text = unicodedata.normalize("NFKD", text)
    text = "".join(character for character in text if not unicodedata.combining(character)).lower()
    for piece in _encode_pieces(model, text):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            number = _encode_pieces(model, piece[:-1].replace("▁", ""))
            if piece[0] != "▁":
                number[0] = number[0].removeprefix("▁")
            yield from filter(None, number)
            yield ","
        else:
            yield piece


def classes_of_strings(
    wikipedia: str, count: int, seed: int, step: int, tokens: list[str]
) -> Iterator[tuple[str, Iterable[str | bytes]]]:
    """Yields (name, iterable of bytes) for each class of strings; `count` strings are random."""
    draw = random.Random(seed)
    with open(wikipedia, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in itertools.islice(file, count // 10)]
    for context in CONTEXTS:
        yield f"every code point in {context!r}", _place_in_context(context, step)
    yield "Wikipedia lines", lines
    share = (count - len(lines)) // len(RANDOM_CLASSES)
    for name, make in RANDOM_CLASSES.items():
        # the original tokenizer needs milliseconds for a word of hundreds of characters
        number = share // 10 if make is _make_long_word else share
        yield name, (make(draw, lines, tokens) for _ in range(number))


def _place_in_context(context, step):
    return (context.format(chr(code)) for code in CODE_POINTS[::step])


def _draw_unicode(draw, lines, tokens):
    return "".join(chr(draw.choice(CODE_POINTS)) for _ in range(draw.randint(1, 20)))


def _draw_letters(draw, lines, tokens):
    """Random strings from Unicode blocks of living scripts, with marks, spaces and punctuation."""
    blocks = draw.sample(WRITTEN_BLOCKS, 3) + [(0x20, 0x7F), (0x300, 0x370)]
    return "".join(chr(draw.randrange(*draw.choice(blocks))) for _ in range(draw.randint(1, 40)))


def _make_long_word(draw, lines, tokens):
    length = draw.choice([99, 100, 101, 199, 200, 201, 250])
    letter = draw.choice(["a", "B", "é", "я", "ा", "한", "𐐀", "x\u0301", "ab", "中", "."])
    return f"ab {(letter * length)[: length * len(letter)]} c"


def _draw_controls(draw, lines, tokens):
    odd = "\0\x01\x07\t\n\r\x0b\x1c\x7f\x85\xa0\xad\u200b\u200d\u2028\u202f\u3000\ufeff\ufffd\ue000"
    return "".join(draw.choice(odd + "ab ") for _ in range(draw.randint(1, 30)))


def _draw_special_tokens(draw, lines, tokens):
    parts = [*tokens, *(token.swapcase() for token in tokens), tokens[-1][:-1], tokens[-1][1:]]
    parts += ["[", "<", ">", "a", " ", "é", "[ CLS]", "中", "1,", "▁"]
    return "".join(draw.choice(parts) for _ in range(draw.randint(1, 10)))


def _draw_casing(draw, lines, tokens):
    odd = "İıſßẞΣσςΆΐǅǈǄŉᾳᾼK\u212bΩꭰᎠᏸﬁﬃȺⱥ\u0307\u0345aSI "
    return "".join(draw.choice(odd) for _ in range(draw.randint(1, 20)))


def _draw_marked(draw, lines, tokens):
    """Letters of one or two bytes, and marks. The character map of SentencePiece joins these."""
    odd = "aeouAEOnsªº²½ǆǱ\u0600\u0301\u0302\u0308\u0327\u0903\u200d\u200c\ufb01\uff9e½ \x01\t"
    return "".join(draw.choice(odd) for _ in range(draw.randint(1, 15)))


def _draw_quotes(draw, lines, tokens):
    odd = [
        "``",
        "''",
        "`",
        "'",
        "1,",
        "1,000",
        "2",
        " ",
        "  ",
        "▁",
        "a",
        "-",
        ".",
        "(",
        "888",
        "aaa",
    ]
    return "".join(draw.choice(odd) for _ in range(draw.randint(1, 12)))


def _cut_lines(draw, lines, tokens):
    """Parts of Wikipedia lines in which one random character is replaced."""
    line = draw.choice(lines)
    start = draw.randrange(len(line) + 1)
    part = list(line[start : start + 60])
    if part:
        part[draw.randrange(len(part))] = chr(draw.choice(CODE_POINTS))
    return "".join(part)


def _draw_invalid(draw, lines, tokens):
    text = draw.choice(lines)[:80].encode()
    place = draw.randrange(len(text) + 1)
    return text[:place] + bytes(draw.choices(BYTES, k=draw.randint(1, 6))) + text[place:]


RANDOM_CLASSES = {
    "random code points": _draw_unicode,
    "random letters and marks": _draw_letters,
    "very long words": _make_long_word,
    "control characters": _draw_controls,
    "literal special tokens": _draw_special_tokens,
    "odd casing": _draw_casing,
    "short letters and marks": _draw_marked,
    "quotes, numbers, spaces": _draw_quotes,
    "Wikipedia, a character replaced": _cut_lines,
    "invalid UTF-8": _draw_invalid,
}
WRITTEN_BLOCKS = [
    (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0xE00, 0x1000),
    (0x1100, 0x1200),
    (0x1E00, 0x2000), (0x2000, 0x2070), (0x3000, 0x3100), (0x4E00, 0xA000), (0xAC00, 0xD7A4),
    (0xF900, 0xFB00), (0x1D150, 0x1D180), (0x1F300, 0x1F700), (0x20000, 0x20100),
]  # fmt: skip


class Comparison:
    """Runs strings through all tokenizers, counts differences and records their causes."""

    def __init__(self, directory: str, original: str | None) -> None:
        self.ours = Tokenizer.from_pretrained(directory)
        self.theirs = reference(directory)
        self.tokens = special_tokens(self.ours)
        self.original = load_original(original, self.ours) if original else None
        self.causes: collections.Counter[str] = collections.Counter()
        self._odd: set[str] = set()

    def run(self, name: str, strings: Iterable[str | bytes]) -> collections.Counter:
        """Counts the strings of a class and their differences: ids, offsets, original ids."""
        strings, counts = iter(strings), collections.Counter[str]()
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
            if theirs.offsets is not None:
                counts["offsets"] += list(zip(start, end)) != theirs.offsets
            if self.original and ours != self.original(text):
                counts["original"] += 1
                self.causes[self._describe_cause(name, text)] += 1

    def _describe_cause(self, name, text):
        """Describes why a string differs from the original, by its first unusual character."""
        if name.startswith("every"):
            odd = next(character for character in text if character not in "abé ")
            self._odd.add(odd)
            return f"one of the {unicodedata.category(odd)} characters"
        if any(token in text for token in self.tokens):
            return "a literal special token"
        if len(max(text.split(), key=len, default="")) > 100:
            return "a word of more than 100 characters"
        odd = [unicodedata.category(character) for character in text if character in self._odd]
        return f"one of the {odd[0]} characters" if odd else "something else"


def special_tokens(tokenizer: Tokenizer) -> list[str]:
    names = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
    return [tokenizer.id_to_token(getattr(tokenizer, name)) for name in names]


def speed(directory: str, lines: list[str], size: int, parallel: bool) -> None:
    """Prints tokens per CPU second and per second of each tokenizer, for batches of `size`."""
    ours, theirs = Tokenizer.from_pretrained(directory), reference(directory)
    batches = [lines[start : start + size] for start in range(0, len(lines), size)]
    tensors = [tf.constant(batch) for batch in batches]
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(size)
    dataset = dataset.map(ours.tokenize, num_parallel_calls=tf.data.AUTOTUNE)
    runs = {
        "tokenizers": lambda: [
            [encoding.ids for encoding in theirs.encode_batch(batch, add_special_tokens=False)]
            for batch in batches
        ],
    }
    if parallel:
        runs["ours, in tf.data"] = lambda: list(dataset)
    else:
        runs["ours"] = lambda: [ours.tokenize(batch) for batch in tensors]
        runs["ours, with offsets"] = lambda: [
            ours.tokenize_with_offsets(batch) for batch in tensors
        ]
    if isinstance(ours, WordPieceTokenizer):
        import tensorflow_text

        stock = tensorflow_text.FastBertTokenizer(
            ours.vocabulary, token_out_type=tf.int32, lower_case_nfd_strip_accents=ours.lowercase
        )
        runs["TensorFlow Text's FastBertTokenizer"] = lambda: [
            stock.tokenize(batch) for batch in tensors
        ]
        if not parallel:
            runs["ours, core operations only"] = lambda: _tokenize_in_core(ours, tensors)
    tokens = sum(ours.tokenize(batch).flat_values.shape[0] for batch in tensors)
    rates = collections.defaultdict(list)
    for _ in range(6):
        for name, run in runs.items():
            began, began_wall = time.process_time(), time.monotonic()
            run()
            times = time.process_time() - began, time.monotonic() - began_wall
            rates[name].append([tokens / seconds for seconds in times])
    print("| | tokens a CPU-second | times `tokenizers` | tokens a second |\n|---|---|---|---|")
    medians = {
        name: [statistics.median(column) for column in zip(*rows[1:])]
        for name, rows in rates.items()
    }
    for name, (cpu, wall) in medians.items():
        ratio = cpu / medians["tokenizers"][0]
        print(f"| {name} | {cpu:,.0f} | {ratio:.1f} | {wall:,.0f} |")


def _tokenize_in_core(tokenizer, tensors):
    with core_operations():
        return [tokenizer.tokenize(batch) for batch in tensors]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", required=True, help="model directory")
    parser.add_argument("--wikipedia", required=True, help="text file with one string per line")
    parser.add_argument("--original", help="original tokenizer; default: not compared")
    parser.add_argument("--strings", type=int, default=1_000_000, help="number of random strings")
    parser.add_argument("--step", type=int, default=1, help="use only every n-th code point")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--core", action="store_true", help="use only core operations of TensorFlow"
    )
    parser.add_argument("--batch", type=int, default=1000, help="batch size for --speed")
    parser.add_argument(
        "--speed", action="store_true", help="measure CPU time instead of comparing"
    )
    parser.add_argument("--parallel", action="store_true", help="use all threads for --speed")
    options = parser.parse_args()
    if options.speed:
        if not options.parallel:
            os.environ["RAYON_NUM_THREADS"] = "1"
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        with open(options.wikipedia, encoding="utf-8") as file:
            lines = [next(file).rstrip("\n") for _ in range(8000)]
        speed(options.tokenizer, lines, options.batch, options.parallel)
        return 0
    comparison = Comparison(options.tokenizer, options.original)
    began, total = time.monotonic(), collections.Counter[str]()
    columns = ("strings", "ids", "offsets", "original")
    print("| class | strings | ids differ | offsets differ | ids differ from the original |")
    print("|---|---|---|---|---|")
    classes = classes_of_strings(
        options.wikipedia, options.strings, options.seed, options.step, comparison.tokens
    )
    for name, strings in classes:
        with core_operations(options.core):
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
