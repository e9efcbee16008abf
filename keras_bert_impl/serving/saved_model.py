"""Exports models as SavedModels, which read strings and do not require this package."""

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.cards import as_code, export_card, save_card
from keras_bert_impl.layers.basic import without_gradients
from keras_bert_impl.serving.graphs.chunks import Bucket
from keras_bert_impl.serving.graphs.formats import SAVED_MODEL_ENTRIES, check_target, save_tokenizer
from keras_bert_impl.serving.graphs.signatures import HUB_NAMES, Function, Functions, Signatures
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import all_layers
from keras_bert_impl.utils.io.files import claim, replace_directory, replace_file
from keras_bert_impl.utils.io.paths import local_path, next_version
from keras_bert_impl.utils.io.run_files import read_run_file
from keras_bert_impl.utils.version import __version__

BATCH_SIZES = (1, 8, 32)

TEXTS = (
    "The house stands on a hill above the river.",
    "Ada Lovelace met Charles Babbage in London in June 1833, and wrote the first program.",
    "Why?",
    "It was built by hand, stone by stone, over more than forty years, and yet nobody lives in it.",
)
# Requests that arrive within two milliseconds form a batch, without padding to a fixed size. Only
# requests with strings are batched, because ids of different lengths need padding.
_BATCHING = """\
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 256 }
num_batch_threads { value: 4 }
"""
_MONITORING = """\
prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }
"""
_CONFIG = """\
model_config_list {
  config {
    name: "%s"
    base_path: "/models/%s"
    model_platform: "tensorflow"
  }
}
"""
_OF_THREADS = threading.Lock()


def export_saved_model(
    signatures: Signatures | Mapping[str, Signatures],
    directory: str | Path,
    ids_only: bool = False,
    name: str | None = None,
    run: str | Path | None = None,
) -> None:
    """Writes a model as a SavedModel.

    The directory also contains a model card, `README.md`, and the folder `assets.extra`, whose
    files are not part of the graph. The folder contains the tokenizer files in `tokenizer/`,
    `tf_serving_warmup_requests` and, if known, `labels.json`, `thresholds.json` and `columns.json`
    (the columns of the training set).

    The SavedModel computes in the model's dtype policy. In float32, outputs equal `predict` to 1e-5
    at any batch size. In bfloat16, rounding depends on the batch. For a server, load the model with
    `dtype="float32"` before the export.

    Args:
        signatures: signatures of the model, `model.signatures()`; or a dict of name -> signatures
            of several models, see `SeveralSignatures`.
        directory: directory to write. If the export fails, the directory is unchanged.
        ids_only: exports only signatures with token ids as inputs, which do not require
            tensorflow_text.
        name: model name. Default: the name of the directory.
        run: run directory. The scores and settings of the run are added to the model card. The
            column names of the training set are written to `columns.json`.

    Raises:
        InputError: the directory contains files that are not from an export, or the Keras backend
            is not TensorFlow.

    Example:
        from keras_bert_impl.serving import export_saved_model
        export_saved_model(classifier.signatures(), "exported")
        served = tf.saved_model.load("exported").signatures["serving_default"]
        served(text=tf.constant(["a text"]))["label"]
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "export_saved_model requires the TensorFlow backend of Keras. Call "
            "model.export(...), which starts a process with this backend, or set "
            "KERAS_BACKEND=tensorflow."
        )
    if not isinstance(signatures, Signatures):
        from keras_bert_impl.serving.graphs.together import SeveralSignatures

        signatures = SeveralSignatures(signatures)
    check_target(directory, SAVED_MODEL_ENTRIES)
    name = name or local_path(directory).absolute().name
    module = tf.Module()
    with for_inference(*signatures.models) as variables:
        functions = signatures.functions(ids_only)
    # saves only the variables, not the serving functions of Keras layers
    module.weights = variables
    if "serving_default" in functions:
        module.serve = _wrap_in_one_argument(functions["serving_default"])
    with replace_directory(directory) as temporary:
        tf.saved_model.save(module, str(temporary), signatures=functions)
        extra = temporary / "assets.extra"
        extra.mkdir()
        write_warmup(extra / "tf_serving_warmup_requests", signatures, functions, name)
        save_tokenizer(signatures.tokenizer, signatures.model, extra / "tokenizer")
        columns = _read_columns(run)
        described = signatures.described() | ({"columns": columns} if columns else {})
        for file, content in described.items():
            text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
            (extra / f"{file}.json").write_text(text, encoding="utf-8")
        save_card(model_card(name, signatures, functions, run), temporary, directory)


def _read_columns(run):
    """Returns the text and label columns of a run's training set, if known."""
    path = local_path(run) / "data.json" if run else None
    if path is None or not path.is_file():
        return {}
    options = read_run_file(path).get("read_with") or {}
    return {name: options[name] for name in ("text", "pair", "label") if options.get(name)}


def _wrap_in_one_argument(function):
    """Wraps a function, because `keras.layers.TFSMLayer` passes all inputs as one argument."""
    specs = tf.nest.flatten(function.structured_input_signature)
    if len(specs) == 1:
        return function

    @tf.function(input_signature=[{spec.name: spec for spec in specs}])
    def serve(inputs):
        return function(**inputs)

    return serve


@contextlib.contextmanager
def for_inference(*models: keras.Model) -> Iterator[list[tf.Variable]]:
    """Context manager for tracing inference graphs. Yields the variables to save.

    Weight matrices are cast to the compute dtype once, not in each call. Weights that are equal in
    several models, such as the frozen weights of a common base model, are saved once.
    """
    stored = {id(v): v.value for model in models for v in model.variables}
    values = keras.StatelessScope()
    for layer in [layer for model in models for layer in all_layers(model)]:
        kernel = getattr(layer, "kernel", None)
        is_matrix = isinstance(layer, keras.layers.Dense) and isinstance(kernel, keras.Variable)
        # A quantized matrix is not float32 and is not rounded.
        if is_matrix and kernel.dtype == "float32" and layer.compute_dtype != "float32":
            rounded = tf.Variable(tf.cast(kernel.value, layer.compute_dtype), trainable=False)
            stored[id(kernel)] = rounded
            values.add_update((kernel, rounded))
    different: dict[str, list[tf.Variable]] = {}  # by path
    for variable in [variable for model in models for variable in model.variables]:
        candidates, tensor = different.setdefault(variable.path, []), stored[id(variable)]
        same = [v for v in candidates if v.dtype == tensor.dtype and np.array_equal(v, tensor)]
        if same:
            stored[id(variable)] = same[0]
            values.add_update((variable, same[0]))
        else:
            candidates.append(tensor)
    with values, without_gradients():
        yield list({id(value): value for value in stored.values()}.values())


# === Versions ===


def export_version(
    signatures: Signatures | Mapping[str, Signatures],
    directory: str | Path,
    ids_only: bool = False,
    run: str | Path | None = None,
) -> Path:
    """Exports a model as the next version in a folder that TensorFlow Serving polls.

    The folder name is the model name. The folder contains the versions `1/`, `2/`, ..., and the
    files `models.config`, `batching_parameters.txt` and `monitoring.config` for a server that
    mounts the folder as `/models/NAME`.

    Args:
        directory: the folder.
        signatures, ids_only, run: see `export_saved_model`.

    Returns:
        Path of the version.

    Raises:
        InputError: the folder name is not a valid model name, the folder is a SavedModel, or another
            process is exporting to it.

    Example:
        from keras_bert_impl.serving import export_version
        export_version(classifier.signatures(), "models/reviews", run="run")
    """
    directory = local_path(directory).absolute()
    name = directory.name
    if not re.fullmatch("[A-Za-z0-9._-]+", name):
        raise InputError(
            f"{directory}: the name of the folder is the name of the model and may contain only "
            "letters, digits, '.', '_' and '-'. Rename the folder."
        )
    _check_is_no_model(directory)
    with _refuse_other_exports(directory):
        path = directory / str(next_version(directory))
        export_saved_model(signatures, path, ids_only, name=name, run=run)
        for file, text in (
            ("models.config", _CONFIG % (name, name)),
            ("batching_parameters.txt", _BATCHING),
            ("monitoring.config", _MONITORING),
        ):
            with replace_file(directory / file) as temporary:
                temporary.write_text(text, encoding="utf-8")
    return path


@contextlib.contextmanager
def _refuse_other_exports(directory):
    with _OF_THREADS:  # A file lock does not exclude other threads of the process.
        lock = claim(directory / ".lock")
        if lock is None:
            raise InputError(f"another process is exporting to {directory}; wait for it to finish.")
        try:
            yield
        finally:
            (directory / ".lock").unlink(missing_ok=True)
            lock.release()
            with contextlib.suppress(OSError):  # The folder contains a version, so it is not empty.
                directory.rmdir()


def _check_is_no_model(directory):
    if (directory / "saved_model.pb").exists():
        raise InputError(f"{directory} is a SavedModel. Pass a folder for versions.")


# === Warm-up requests ===


def write_warmup(path: str | Path, signatures: Signatures, functions: Functions, name: str) -> None:
    """Writes warm-up requests for each signature and each of `BATCH_SIZES`."""
    with tf.io.TFRecordWriter(str(path)) as file:
        for (signature, function), size in itertools.product(functions.items(), BATCH_SIZES):
            inputs = example_inputs(signatures, function, size)
            file.write(prediction_log(name, signature, inputs))
        for bucket in signatures.buckets:
            inputs = bucket_inputs(signatures, functions["ids"], bucket)
            file.write(prediction_log(name, "ids", inputs))


def bucket_inputs(
    signatures: Signatures, function: Function, bucket: Bucket
) -> dict[str, np.ndarray]:
    rows, length = bucket
    shape = (*[1] * (signatures.features_rank - 2), rows, length)
    inputs = {spec.name: np.zeros(shape, "int32") for spec in _list_specs(function)}
    inputs["padding_mask"] += 1
    return inputs


def example_strings(signatures: Signatures, size: int = len(TEXTS)) -> dict[str, list]:
    """Returns a batch of inputs for `serving_default`, from built-in texts."""
    return _make_strings(signatures, signatures.strings, size)


def _make_strings(signatures, ranks, size):
    texts = [signatures.as_example(text) for text in TEXTS]

    def text(number):
        return texts[number % len(texts)]

    return {
        name: [text(i + k) if rank == 1 else [text(i + k), text(i + k + 1)] for i in range(size)]
        for k, (name, rank) in enumerate(ranks.items())
    }


def example_inputs(signatures: Signatures, function: Function, size: int) -> dict[str, np.ndarray]:
    specs = _list_specs(function)
    if specs[0].dtype == tf.string:
        strings = _make_strings(signatures, {spec.name: spec.shape.rank for spec in specs}, size)
        return {name: np.array(texts, object) for name, texts in strings.items()}
    (texts,) = _make_strings(signatures, {"text": 1}, size).values()
    features = {name: feature.numpy() for name, feature in signatures.cut(texts).items()}
    features["word_mask"] = features["padding_mask"]
    features |= {new: features[name] for name, new in HUB_NAMES.items()}

    def add_groups(rows, rank):
        # [batch, length] -> [batch, 1, ..., length]
        return rows.reshape(len(rows), *[1] * (rank - 2), -1)

    return {spec.name: add_groups(features[spec.name], spec.shape.rank) for spec in specs}


def _list_specs(function):
    return tf.nest.flatten(function.structured_input_signature)


def prediction_log(name: str, signature: str, inputs: dict[str, np.ndarray]) -> bytes:
    """Returns a request as a serialized `PredictionLog`, the format of warm-up requests.

    Source: `prediction_log.proto`, `predict.proto` and `model.proto` of TensorFlow Serving.
    """
    model_spec = _encode_field(1, name.encode()) + _encode_field(3, signature.encode())
    request = _encode_field(1, model_spec)
    for key, values in inputs.items():
        tensor = tf.make_tensor_proto(values).SerializeToString()
        request += _encode_field(2, _encode_field(1, key.encode()) + _encode_field(2, tensor))
    return _encode_field(6, _encode_field(1, request))  # PredictionLog.predict_log.request


def _encode_field(number, content):
    length, size = b"", len(content)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


# === Model cards ===


def model_card(
    name: str, signatures: Signatures, functions: Functions, run: str | Path | None = None
) -> str:
    note = (
        f", for rows of up to {signatures.max_length} tokens. Exported by keras_bert_impl "
        f"{__version__} with TensorFlow {tf.__version__}."
    )
    sections = ["## Use", _format_use(functions), "## Signatures", _format_table(functions)]
    for part, described in signatures.described().get("models", {}).items():
        if described.get("labels"):
            sections += [f"## Labels of `{part}`", ", ".join(map(as_code, described["labels"]))]
    return export_card(signatures.model, name, signatures.config, note, sections, run)


def _format_use(functions):
    name = next(iter(functions))
    specs = tf.nest.flatten(functions[name].structured_input_signature)
    called = ".structured_input_signature"  # The model takes token ids.
    if all(spec.dtype == tf.string for spec in specs):
        called = "(" + ", ".join(f'{spec.name}=tf.constant(["a text"])' for spec in specs) + ")"
    return f"""\
Pass the parent of this folder to `keras-bert serve` and TensorFlow Serving. In Python:

```python
{_format_imports(functions)}
model = tf.saved_model.load("path/to/this/folder")
print(model.signatures["{name}"]{called})
```"""


def _format_imports(functions):
    """Returns the import line for TensorFlow and, if a graph needs it, TF-Text."""
    graphs = [function.graph.as_graph_def() for function in functions.values()]
    nodes = [node for graph in graphs for part in (graph, *graph.library.function)
             for node in (part.node if part is graph else part.node_def)]  # fmt: skip
    needs_text = any(node.op.startswith("FastWordpiece") for node in nodes)
    return "import tensorflow as tf" + (", tensorflow_text" if needs_text else "")


def _format_table(functions):
    rows = ["| signature | inputs | outputs |", "|---|---|---|"]
    for name, function in functions.items():
        inputs = tf.nest.flatten(function.structured_input_signature)
        inputs = ", ".join(map(_format_spec, [spec.name for spec in inputs], inputs))
        outputs = function.structured_outputs
        outputs = ", ".join(map(_format_spec, outputs, outputs.values()))
        rows.append(f"| `{name}` | {inputs} | {outputs} |")
    return "\n".join(rows)


def _format_spec(name, spec):
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"`{name}` {spec.dtype.name} [{shape}]"
