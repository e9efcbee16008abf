"""Counts the strings that get different tokens in other runtimes, by kind of string.

    python tools/serving/runtime_texts.py --tokenizer bert-base-uncased --wikipedia lines.txt

`--tokenizer` is a model directory, and `--wikipedia` is a text file with one string per line.
Compares the ids of onnxruntime-extensions and openvino-tokenizers with this package, on the strings
of `tools/compare_tokenizers.py`. MediaPipe returns no ids, so the vectors of a small random
embedder are compared, for uncased WordPiece. Runtimes that are not installed are skipped.
"""

import argparse
import collections
import importlib.util
import itertools
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from compare_tokenizers import classes_of_strings, special_tokens  # noqa: E402

from keras_bert_impl.tokenizers import (  # noqa: E402
    ByteLevelBPETokenizer,
    Tokenizer,
    WordPieceTokenizer,
)

BATCH, LENGTH = 1024, 64
LONGEST_WORD = 100
KINDS = {  # in this order: the first kind that a string contains counts
    "NUL": lambda text, kinds: "\0" in text,
    "a control, format or unassigned character": lambda text, kinds: any(
        k[0] == "C" for k in kinds
    ),
    "a space outside ASCII": lambda text, kinds: any(
        k[0] == "Z" and c != " " for c, k in zip(text, kinds)
    ),
    "a combining mark": lambda text, kinds: any(k[0] == "M" for k in kinds),
    "a capital letter outside ASCII": lambda text, kinds: any(
        c != c.lower() and not c.isascii() for c in text
    ),
    "an accent": lambda text, kinds: unicodedata.normalize("NFD", text) != text,
    "punctuation or a symbol outside ASCII": lambda text, kinds: any(
        k[0] in "PS" and not c.isascii() for c, k in zip(text, kinds)
    ),
    "another character outside ASCII": lambda text, kinds: not text.isascii(),
    "ASCII": lambda text, kinds: True,
}


def kind_of(text: str, special: list[str]) -> str:
    """Returns the kind of a string."""
    if any(token in text for token in special):
        return "a literal special token"
    if len(max(text.split(), key=len, default="")) > LONGEST_WORD:
        return "a word of more than 100 characters"
    kinds = [unicodedata.category(character) for character in text]
    return next(name for name, has in KINDS.items() if has(text, kinds))


# === Runtimes: each returns a function from texts and our ids to bool [texts], whether they differ ===


def onnxruntime_extensions(ours: Tokenizer, directory: str) -> Callable | None:
    """Runs the custom operator for WordPiece or byte-level BPE on one string at a time."""
    import onnx
    import onnxruntime
    from onnxruntime_extensions import get_library_path

    if isinstance(ours, WordPieceTokenizer):
        lower = int(ours.lowercase)
        op, outputs = "BertTokenizer", 4
        settings = {"vocab_file": "\n".join(ours.vocabulary), "do_lower_case": lower}
        settings["strip_accents"] = lower
    elif isinstance(ours, ByteLevelBPETokenizer):
        op, outputs = "RobertaTokenizer", 3
        merges = (Path(directory) / "merges.txt").read_text(encoding="utf-8").split("\n")
        merges = [line for line in merges if line and not line.startswith("#version")]
        vocabulary = (Path(directory) / "vocab.json").read_text(encoding="utf-8")
        settings = {"vocab": vocabulary, "merges": "\n".join(merges), "padding_length": -1}
    else:
        return None
    strings, int64 = onnx.TensorProto.STRING, onnx.TensorProto.INT64
    names = [f"output_{number}" for number in range(outputs)]
    node = onnx.helper.make_node(op, ["text"], names, domain="ai.onnx.contrib", **settings)
    values = [onnx.helper.make_tensor_value_info(name, int64, None) for name in names]
    text = onnx.helper.make_tensor_value_info("text", strings, [None])
    graph = onnx.helper.make_graph([node], "graph", [text], values)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.contrib", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def ids_of(text):
        (ids,) = session.run(names[:1], {"text": np.array([text], object)})
        return np.reshape(ids, -1)[1:-1].tolist()

    return lambda texts, ids: [ids_of(text) != ours for text, ours in zip(texts, ids)]


def openvino_tokenizers(ours: Tokenizer, directory: str) -> Callable:
    """Runs the graph that openvino-tokenizers writes for the tokenizer of `transformers`."""
    import openvino
    import transformers
    from openvino_tokenizers import convert_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        ours.save_pretrained(folder)
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    model = openvino.compile_model(convert_tokenizer(theirs, add_special_tokens=False), "CPU")

    def differ(texts, ids):
        outputs = model(texts)
        rows = zip(outputs["input_ids"], outputs["attention_mask"].astype(bool), ids)
        return [row[real].tolist() != ours for row, real, ours in rows]

    return differ


def mediapipe(ours: Tokenizer, directory: str) -> Callable | None:
    """Runs a small random embedder. Its vectors differ if the ids differ."""
    import keras

    from keras_bert_impl import Encoder, EncoderConfig, TextEmbedder
    from keras_bert_impl.serving.mediapipe import answers, are_different, export_mediapipe

    if not isinstance(ours, WordPieceTokenizer) or not ours.lowercase:
        return None
    keras.utils.set_random_seed(0)
    small = {"num_layers": 1, "num_heads": 2, "hidden_dim": 32, "intermediate_dim": 32}
    small |= {"max_length": LENGTH, "initializer_range": 0.5, "use_pooler": False}
    model = TextEmbedder(Encoder(EncoderConfig(ours.vocabulary_size, **small)), ours)
    path = Path(tempfile.mkdtemp()) / "model"
    export_mediapipe(model, path)

    def differ(texts, ids):
        theirs = answers(path / "model.tflite", model, texts)
        return are_different(model, model.encode(texts, batch_size=256), theirs)

    return differ


RUNTIMES = {
    "onnxruntime_extensions": onnxruntime_extensions,
    "openvino_tokenizers": openvino_tokenizers,
    "mediapipe": mediapipe,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", required=True, help="model directory")
    parser.add_argument("--wikipedia", required=True, help="text file with one string per line")
    parser.add_argument("--strings", type=int, default=66_666, help="number of random strings")
    parser.add_argument("--step", type=int, default=40, help="use only every n-th code point")
    options = parser.parse_args()
    ours = Tokenizer.from_pretrained(options.tokenizer)
    special = special_tokens(ours)
    runtimes = {name: make for name, make in RUNTIMES.items() if importlib.util.find_spec(name)}
    runtimes = {name: make(ours, options.tokenizer) for name, make in runtimes.items()}
    runtimes = {name: differ for name, differ in runtimes.items() if differ is not None}
    counts = {name: collections.Counter() for name in runtimes}
    total = 0
    how = options.wikipedia, options.strings, 0, options.step, special
    for title, strings in classes_of_strings(*how):
        before, number, strings = {n: c.total() for n, c in counts.items()}, 0, iter(strings)
        while batch := list(itertools.islice(strings, BATCH)):
            texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in batch]
            ids, number = ours.tokenize(texts).to_list(), number + len(texts)
            for name, differ in runtimes.items():
                wrong = itertools.compress(texts, differ(texts, ids))
                counts[name].update(kind_of(text, special) for text in wrong)
        total += number
        columns = (f"{name} {counts[name].total() - before[name]:,}" for name in runtimes)
        print(f"{title}: {number:,} strings; {', '.join(columns)}", flush=True)
    for name, count in counts.items():
        scale = 1e5 / total
        print(f"{name}, per 100,000 of {total:,}: {count.total() * scale:,.0f}")
        for kind, wrong in count.most_common():
            print(f"    {kind}: {wrong * scale:,.0f}")


if __name__ == "__main__":
    main()
