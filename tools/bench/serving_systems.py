"""A BERT model on texts, written in the usual way of each library.

A system is a function of (folder written by `write_models`, maximum number of tokens per text,
threads) that returns the function to be measured. This function converts a list of texts to an
array `[batch, ...]`: scores or logits for `CLASSIFIERS`, vectors for `EMBEDDERS`. The peers
tokenize with the Rust library `tokenizers`. KerasHub's preprocessor pads to a fixed length, which
is set to the length of the texts.
"""

import contextlib
import functools
import itertools
import sys
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).resolve().parents[1]
_LABELS = ["negative", "positive"]
_BUCKET_ROWS, _BUCKET_LENGTHS = (1, 32), (32, 128, 384)  # for "ours-xla"


def write_models(directory, folder, systems, texts=()):
    """Writes one classifier in the formats that some systems read.

    Args:
        directory: model directory.
        folder: `Path` to write to.
        systems: names of `SYSTEMS`.
        texts: calibration texts for "ours-openvino-calibrated".
    """
    from keras_bert_impl import TextClassifier, TextEmbedder
    from keras_bert_impl.checkpoints.interop import open_model, read_encoder_config
    from keras_bert_impl.serving import export_saved_model
    from keras_bert_impl.serving.litert import export_litert
    from keras_bert_impl.serving.onnx import export_onnx
    from keras_bert_impl.serving.openvino import export_openvino

    longest = read_encoder_config(open_model(directory)).max_length
    model = TextClassifier.from_pretrained(directory, labels=_LABELS, max_length=longest)
    model.save_pretrained(folder / "pytorch")
    (folder / "published").symlink_to(Path(directory).resolve())
    if "embed" in systems:
        embedder = TextEmbedder.from_pretrained(directory, max_length=longest)
        embedder.export(folder / "embedder")
    if {"ours", "ours-c-api"} & set(systems):
        model.export(folder / "saved_model")
    if "ours-bf16" in systems:
        half = TextClassifier.from_pretrained(
            directory, labels=_LABELS, max_length=longest, dtype="mixed_bfloat16"
        )
        half.set_weights(model.get_weights())  # the head is newly initialized
        half.export(folder / "ours-bf16")
    if "ours-xla" in systems:
        signatures = model.signatures()
        lengths = [length for length in _BUCKET_LENGTHS if length <= longest]
        signatures.buckets = list(itertools.product(_BUCKET_ROWS, lengths))
        export_saved_model(signatures, folder / "ours-xla")
    for system, (export, precision) in {
        "ours-onnx": (export_onnx, "fp32"),
        "ours-onnx-int8": (export_onnx, "int8"),
        "ours-litert": (export_litert, "fp32"),
        "ours-litert-int8": (export_litert, "int8"),
        "ours-openvino": (export_openvino, "fp32"),
        "ours-openvino-int8": (export_openvino, "int8"),
    }.items():
        if {system, system + "-bf16"} & set(systems):
            export(model, folder / system, precision)
    if "ours-openvino-calibrated" in systems:
        export_openvino(model, folder / "ours-openvino-calibrated", "int8", calibration=texts)
    if "fused-onnx" in systems:
        from onnx_latency import traced_and_fused

        traced_and_fused(_load_transformers(folder, "eager"), folder, "logits", {0: "batch"})
    if {"keras-hub", "keras-hub-exported"} & set(systems):
        from keras_bert_impl.models.conversion.formats import convert

        # KerasHub's BERT supports only this activation.
        convert(folder / "pytorch", folder / "keras_hub", "keras_hub", activation="gelu_tanh")


# === Ours ===


def ours(folder, length, threads, name="saved_model", output="scores"):
    """The SavedModel with string inputs, run in Python."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, the operations of tokenizers

    model = tf.saved_model.load(str(folder / name))
    answer = model.signatures["serving_default"]
    return lambda texts: answer(text=tf.constant(texts))[output].numpy()


def encode(folder, length, threads):
    """`TextEmbedder.encode`, without an export."""
    from keras_bert_impl import TextEmbedder

    return TextEmbedder.from_pretrained(folder / "published", max_length=length).encode


def ours_c_api(folder, length, threads):
    """The SavedModel run with TensorFlow's C API."""
    sys.path.insert(0, str(TOOLS / "serving"))
    import c_api

    model = c_api.Model(folder / "saved_model")
    return lambda texts: model.ask("serving_default", text=texts)["scores"]


def litert(folder, length, threads, name):
    """LiteRT after the Rust tokenizer."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(folder / name / "model.tflite"), num_threads=threads)
    model, tokenize = interpreter.get_signature_runner(), _load_rust_tokenizer(folder)

    def run(texts):
        features = {n: rows.astype("int32") for n, rows in tokenize(texts).items()}
        return model(**features)["logits"]

    return run


def openvino(folder, length, threads, name, precision="f32"):
    """OpenVINO after the Rust tokenizer."""
    import openvino

    hints = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads}
    model = openvino.Core().compile_model(str(folder / name / "model.xml"), "CPU", hints)
    tokenize = _load_rust_tokenizer(folder)
    return lambda texts: model(tokenize(texts))["logits"]


def onnx(folder, length, threads, file):
    """ONNX Runtime after the Rust tokenizer."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # no spinning threads; see `harness`
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(folder / file), options, providers=providers)
    tokenize = _load_rust_tokenizer(folder)
    names = {node.name for node in session.get_inputs()}

    def run(texts):
        features = tokenize(texts)
        return session.run(None, {name: features[name] for name in names})[0]

    return run


# === Peers ===


def _load_rust_tokenizer(folder):
    """Returns a function that converts texts to dicts of int64 arrays."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "pytorch" / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding()

    def tokenize(texts):
        rows = tokenizer.encode_batch(texts)
        return {
            "input_ids": np.array([row.ids for row in rows]),
            "attention_mask": np.array([row.attention_mask for row in rows]),
            "token_type_ids": np.array([row.type_ids for row in rows]),
        }

    return tokenize


def _load_transformers(folder, attention):
    import transformers

    return transformers.AutoModelForSequenceClassification.from_pretrained(
        folder / "pytorch", attn_implementation=attention
    ).eval()


def pytorch(folder, length, threads, compiled=False, dtype="float32"):
    """`transformers` with SDPA attention."""
    import torch

    torch.set_num_threads(threads)
    model, tokenize = _load_transformers(folder, "sdpa"), _load_rust_tokenizer(folder)
    model.to(getattr(torch, dtype))
    forward = torch.compile(model) if compiled else model

    def run(texts):
        with torch.inference_mode():
            tensors = {n: torch.from_numpy(rows) for n, rows in tokenize(texts).items()}
            return forward(**tensors).logits.float().numpy()

    return run


def _load_keras_hub(folder, length):
    import keras_hub

    model = keras_hub.models.TextClassifier.from_preset(str(folder / "keras_hub"))
    model.preprocessor.sequence_length = length
    return model


def keras_hub(folder, length, threads):
    """KerasHub's classifier with `predict`."""
    model = _load_keras_hub(folder, length)
    return lambda texts: model.predict(np.array(texts, object), batch_size=len(texts), verbose=0)


def keras_hub_exported(folder, length, threads):
    """KerasHub's preprocessor and classifier in one graph, exported and reloaded."""
    import keras
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, the operations of tokenizers

    model, target = _load_keras_hub(folder, length), str(folder / f"keras_hub_exported_{length}")
    archive = keras.export.ExportArchive()
    archive.track(model)
    network = keras.Model(model.inputs, model.outputs)
    archive.add_endpoint(
        "serve",
        lambda texts: network(model.preprocessor(texts)),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    archive.write_out(target, verbose=False)
    served = tf.saved_model.load(target)
    return lambda texts: np.asarray(served.serve(tf.constant(texts)))


def ctranslate2(folder, length, threads):
    """CTranslate2 with 8 bits for the encoder and pooler, and NumPy for the classifier."""
    import ctranslate2
    import safetensors.numpy

    converted = str(folder / "ctranslate2")
    if not Path(converted).exists():
        converter = ctranslate2.converters.TransformersConverter(str(folder / "pytorch"))
        converter.convert(converted, quantization="int8")
    encoder = ctranslate2.Encoder(converted, device="cpu", intra_threads=threads)
    weights = safetensors.numpy.load_file(folder / "pytorch" / "model.safetensors")
    kernel, bias = weights["classifier.weight"].T, weights["classifier.bias"]
    tokenize = _load_rust_tokenizer(folder)

    def run(texts):
        features = tokenize(texts)
        rows, lengths = features["input_ids"], features["attention_mask"].sum(axis=1)
        ids = [row[:length].tolist() for row, length in zip(rows, lengths, strict=True)]
        outputs = encoder.forward_batch(ids)
        return np.array(outputs.pooler_output) @ kernel + bias

    return run


def nncf(folder, length, threads):
    """The transformers model in OpenVINO, quantized to 8 bits by NNCF with the texts of a shape."""
    if not (folder / "nncf" / "model.xml").exists():
        with contextlib.redirect_stdout(sys.stderr):  # NNCF prints its progress
            _write_nncf(folder)
    return openvino(folder, length, threads, "nncf")


def _write_nncf(folder):
    import json

    import nncf
    import openvino
    import torch

    batches = json.loads(next(folder.glob("*.json")).read_text())
    tokenize = _load_rust_tokenizer(folder)
    rows = [tokenize([text]) for text in sum(batches, [])]
    example = {name: torch.from_numpy(row) for name, row in rows[0].items()}
    model = openvino.convert_model(_load_transformers(folder, "sdpa"), example_input=example)
    kind = nncf.ModelType.TRANSFORMER
    quantized = nncf.quantize(model, nncf.Dataset(rows), model_type=kind)
    openvino.save_model(quantized, folder / "nncf" / "model.xml", compress_to_fp16=False)


def sentence_transformers(folder, length, threads, backend="torch"):
    """`SentenceTransformer.encode`."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder / "published"), backend=backend, device="cpu")
    model.max_seq_length = length
    return functools.partial(model.encode, show_progress_bar=False)


CLASSIFIERS = {
    "ours": ours,
    "ours-bf16": functools.partial(ours, name="ours-bf16"),
    "ours-c-api": ours_c_api,
    "ours-xla": functools.partial(ours, name="ours-xla"),
    "ours-onnx": functools.partial(onnx, file="ours-onnx/model.onnx"),
    "ours-onnx-int8": functools.partial(onnx, file="ours-onnx-int8/model.onnx"),
    "ours-litert": functools.partial(litert, name="ours-litert"),
    "ours-litert-int8": functools.partial(litert, name="ours-litert-int8"),
    "ours-openvino": functools.partial(openvino, name="ours-openvino"),
    "ours-openvino-bf16": functools.partial(openvino, name="ours-openvino", precision="bf16"),
    "ours-openvino-int8": functools.partial(openvino, name="ours-openvino-int8"),
    "ours-openvino-calibrated": functools.partial(openvino, name="ours-openvino-calibrated"),
    "fused-onnx": functools.partial(onnx, file="fused.onnx"),
    "pytorch": pytorch,
    "pytorch-bf16": functools.partial(pytorch, dtype="bfloat16"),
    "pytorch-compiled": functools.partial(pytorch, compiled=True),
    "pytorch-bf16-compiled": functools.partial(pytorch, compiled=True, dtype="bfloat16"),
    "keras-hub": keras_hub,
    "keras-hub-exported": keras_hub_exported,
    "ctranslate2-int8": ctranslate2,
    "nncf-int8": nncf,
}
EMBEDDERS = {
    "embed": functools.partial(ours, name="embedder", output="vectors"),
    "embed-python": encode,
    "embed-sentence-transformers": sentence_transformers,
    "embed-sentence-transformers-onnx": functools.partial(sentence_transformers, backend="onnx"),
    "embed-sentence-transformers-openvino": functools.partial(
        sentence_transformers, backend="openvino"
    ),
}
SYSTEMS = {**CLASSIFIERS, **EMBEDDERS}
# These need additional packages: ctranslate2; sentence-transformers[onnx,openvino].
PEERS = ["ctranslate2-int8", *(name for name in EMBEDDERS if "sentence-transformers" in name)]
