"""Export of SavedModels that take raw strings and load with only tensorflow and tensorflow_text."""

import json
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert_impl.cards import save_card
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.serving.card import model_card
from keras_bert_impl.serving.formats import SAVED_MODEL_ENTRIES
from keras_bert_impl.serving.inference import for_inference
from keras_bert_impl.serving.signatures import Signatures
from keras_bert_impl.serving.target import check_target, save_tokenizer
from keras_bert_impl.serving.warmup import write_warmup


def export_saved_model(
    signatures: Signatures,
    directory: str | Path,
    ids_only: bool = False,
    name: str | None = None,
    run: str | Path | None = None,
) -> None:
    """Writes a model as a SavedModel.

    The directory also has `README.md`, a model card, and in `assets.extra`, for clients and
    servers: `tokenizer/`, the files of the tokenizer, `labels.json`, if there are labels, and
    `tf_serving_warmup_requests`.

    The graph uses the model's dtype policy, so that it agrees with `predict`: in float32 to 1e-5 at
    any batch size; in bfloat16 to its rounding, which depends on the batch. For a server, load the
    model with `dtype="float32"` first.

    Args:
        signatures: those of the model, `model.signatures()`.
        directory: written to a temporary folder and renamed.
        ids_only: whether to leave out the signatures that take strings, so that loading does not
            need tensorflow_text.
        name: model name. Default: the name of the directory.
        run: run directory, whose scores and settings go into the model card.

    Raises:
        InputError: the directory has files of these names that no export has written, or the
            backend of Keras is not TensorFlow.

    Example:
        from keras_bert_impl.serving import export_saved_model
        export_saved_model(classifier.signatures(), "exported")
        served = tf.saved_model.load("exported").signatures["serving_default"]
        served(text=tf.constant(["a text"]))["label"]
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "a SavedModel is written on the TensorFlow backend of Keras: call model.export(...), "
            "which starts a process with it, or set KERAS_BACKEND=tensorflow."
        )
    check_target(directory, SAVED_MODEL_ENTRIES)
    name = name or local_path(directory).absolute().name
    module = tf.Module()
    with for_inference(signatures.model) as variables:
        functions = signatures.functions(ids_only)
    # Only the variables: Keras's serving functions of the layers are not exported.
    module.weights = variables
    module.serve = _of_one_argument(functions["serving_default"])
    with replace_directory(directory) as temporary:
        tf.saved_model.save(module, str(temporary), signatures=functions)
        extra = temporary / "assets.extra"
        extra.mkdir()
        write_warmup(extra / "tf_serving_warmup_requests", signatures, functions, name)
        save_tokenizer(signatures.tokenizer, signatures.model, extra / "tokenizer")
        labels = getattr(signatures.model, "labels", None)
        if labels:
            text = json.dumps(list(labels), ensure_ascii=False, indent=2) + "\n"
            (extra / "labels.json").write_text(text, encoding="utf-8")
        save_card(model_card(name, signatures, functions, run), temporary, directory)


def _of_one_argument(function):
    """Returns the endpoint `serve` of `keras.layers.TFSMLayer`, which passes one argument."""
    specs = tf.nest.flatten(function.structured_input_signature)
    if len(specs) == 1:
        return function

    @tf.function(input_signature=[{spec.name: spec for spec in specs}])
    def serve(inputs):
        return function(**inputs)

    return serve
