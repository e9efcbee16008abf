"""Ways from texts to the scores of one BERT classifier, as a user of each library would go.

A system is a function of (the folder that `write_models` wrote, length in tokens, threads) that
returns the work to measure: a function of a list of texts to an array of scores or logits
`[batch, classes]`. All others than ours tokenize by `tokenizers`, the Rust library; KerasHub by its
own preprocessor, which pads to a fixed length, and is given the right one.
"""

import sys
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).resolve().parents[1]
_LABELS = ["negative", "positive"]


def write_models(directory, folder, systems):
    """Writes the forms of one classifier that some systems read.

    Args:
        directory: of the model.
        folder: `Path` to write to.
        systems: names of `SYSTEMS`.
    """
    from keras_bert_impl import TextClassifier
    from keras_bert_impl.interop import open_model, read_encoder_config
    from keras_bert_impl.serving.onnx import export_onnx

    longest = read_encoder_config(open_model(directory)).max_length
    model = TextClassifier.from_pretrained(directory, labels=_LABELS, max_length=longest)
    model.save_pretrained(folder / "pytorch")
    if {"ours", "ours-c-api"} & set(systems):
        model.export(folder / "saved_model")
    for system, precision in (("ours-onnx", "fp32"), ("ours-onnx-int8", "int8")):
        if system in systems:
            export_onnx(model, folder / system, precision)
    if "fused-onnx" in systems:
        from onnx_latency import traced_and_fused

        traced_and_fused(_transformers(folder, "eager"), folder, "logits", {0: "batch"})
    if {"keras-hub", "keras-hub-exported"} & set(systems):
        from keras_bert_impl.conversion import convert

        # Their BERT has this activation alone.
        convert(folder / "pytorch", folder / "keras_hub", "keras_hub", activation="gelu_tanh")


# === Ours ===


def ours(folder, length, threads):
    """The SavedModel, strings in, in Python."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, the operations of tokenizers

    model = tf.saved_model.load(str(folder / "saved_model"))
    answer = model.signatures["serving_default"]
    return lambda texts: answer(text=tf.constant(texts))["scores"].numpy()


def ours_c_api(folder, length, threads):
    """The SavedModel in TensorFlow's C API."""
    sys.path.insert(0, str(TOOLS / "serving"))
    import c_api

    model = c_api.Model(folder / "saved_model")
    return lambda texts: model.ask("serving_default", text=texts)["scores"]


def _onnx(path, folder, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # As for OpenMP in `harness`.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    tokenize = _rust_tokenizer(folder)
    names = {one.name for one in session.get_inputs()}

    def run(texts):
        features = tokenize(texts)
        return session.run(None, {name: features[name] for name in names})[0]

    return run


# === Peers ===


def _rust_tokenizer(folder):
    """A function of texts to dicts of int64 arrays."""
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


def _transformers(folder, attention):
    import transformers

    return transformers.AutoModelForSequenceClassification.from_pretrained(
        folder / "pytorch", attn_implementation=attention
    ).eval()


def pytorch(folder, length, threads, compiled=False):
    """`transformers` with SDPA attention."""
    import torch

    torch.set_num_threads(threads)
    model, tokenize = _transformers(folder, "sdpa"), _rust_tokenizer(folder)
    forward = torch.compile(model) if compiled else model

    def run(texts):
        with torch.inference_mode():
            tensors = {n: torch.from_numpy(rows) for n, rows in tokenize(texts).items()}
            return forward(**tensors).logits.numpy()

    return run


def _keras_hub(folder, length):
    import keras_hub

    model = keras_hub.models.TextClassifier.from_preset(str(folder / "keras_hub"))
    model.preprocessor.sequence_length = length
    return model


def keras_hub(folder, length, threads):
    """KerasHub's classifier, `predict`."""
    model = _keras_hub(folder, length)
    return lambda texts: model.predict(np.array(texts, object), batch_size=len(texts), verbose=0)


def keras_hub_exported(folder, length, threads):
    """KerasHub's preprocessor and classifier in one graph, exported and loaded again."""
    import keras
    import tensorflow as tf
    import tensorflow_text  # noqa: F401, the operations of tokenizers

    model, target = _keras_hub(folder, length), str(folder / f"keras_hub_exported_{length}")
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


SYSTEMS = {
    "ours": ours,
    "ours-c-api": ours_c_api,
    "ours-onnx": lambda folder, _, threads: _onnx(
        folder / "ours-onnx" / "model.onnx", folder, threads
    ),
    "ours-onnx-int8": lambda folder, _, threads: _onnx(
        folder / "ours-onnx-int8" / "model.onnx", folder, threads
    ),
    "fused-onnx": lambda folder, _, threads: _onnx(folder / "fused.onnx", folder, threads),
    "pytorch": pytorch,
    "pytorch-compiled": lambda *args: pytorch(*args, compiled=True),
    "keras-hub": keras_hub,
    "keras-hub-exported": keras_hub_exported,
}
