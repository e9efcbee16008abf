"""Models in ONNX Runtime, beside the ones that they were written from."""

import contextlib

import keras
import numpy as np
import onnxruntime

from keras_bert_impl.serving.onnx.networks import input_names, kind_of


class Session:
    """A written model in ONNX Runtime, on the CPU.

    Args:
        model: path of the file, or bytes.
        config: `EncoderConfig` of the model that it was written from.
    """

    def __init__(self, model, config):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        # Threads that spin take the processor from whatever else runs beside an export.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = model if isinstance(model, bytes) else str(model)
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(model, options, providers=providers)
        self._config = config

    def __call__(self, features):
        """dict of name to float32 array: the outputs.

        Args:
            features: dict of int arrays or tensors, as an encoder takes them.
        """
        outputs = self._session.run(None, as_inputs(features, self._config))
        return dict(zip((output.name for output in self._session.get_outputs()), outputs))


def as_inputs(features, config):
    """dict of int64 arrays: features of an encoder as the inputs of its graph."""
    names = input_names(config)
    return {name: np.asarray(features[ours], "int64") for name, ours in names.items()}


def keras_outputs(model, features):
    """What a model computes of features, under the names of the outputs of its graph.

    Args:
        model: as of `write_graph`.
        features: dict of int32 arrays: of a `TextEmbedder` `[batch, length]`, of others as their
            networks take them.
    """
    kind = kind_of(model)
    features = {name: np.asarray(feature) for name, feature in features.items()}
    if kind == "MaskedLM":
        batch, length = features["token_ids"].shape
        places = np.tile(np.arange(length, dtype="int32"), (batch, 1))
        features["masked_positions"] = places
    if kind == "TextEmbedder":
        features = {name: feature[:, None] for name, feature in features.items()}
    outputs = keras.tree.map_structure(
        keras.ops.convert_to_numpy, model(features, training=False)
    )
    if kind == "Encoder":
        found = {"last_hidden_state": outputs["sequence_output"]}
        pooled = {"pooler_output": outputs["pooled_output"]} if model.config.use_pooler else {}
        return found | pooled
    if kind == "QuestionAnswerer":
        return {"start_logits": outputs[:, 0], "end_logits": outputs[:, 1]}
    if kind == "TextEmbedder":
        return {"sentence_embedding": outputs[:, 0]}
    return {"logits": outputs}


@contextlib.contextmanager
def answered_by(session, model):
    """Inside the block a task model's `predict` computes its network by a `Session`."""

    def predict_batches(data, **kwargs):
        scores = [model.scores(_network_outputs(session, model, batch)) for batch in data]
        return np.concatenate(scores)

    model.predict_batches = predict_batches
    try:
        yield
    finally:
        del model.predict_batches


def _network_outputs(session, model, batch):
    """What the network of a task model would return of a batch of features."""
    features, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
    if kind_of(model) != "TextEmbedder":
        outputs = list(session(features).values())
        return np.stack(outputs, axis=1) if len(outputs) > 1 else outputs[0]
    batch, group, length = features["token_ids"].shape
    rows = {n: np.reshape(feature, (batch * group, length)) for n, feature in features.items()}
    return session(rows)["sentence_embedding"].reshape(batch, group, -1)


def relative_difference(received, expected, padding_mask):
    """How far outputs are from others, relative to those: of each the root of the mean square.

    Args:
        received, expected: dicts of name to float32 array.
        padding_mask: int `[batch, length]` or `[batch, group, length]`. What stands where it is 0
            is left out.

    Returns:
        float, that of the output that is farthest; infinite where one has no finite numbers.
    """
    mask, found = np.asarray(padding_mask, bool), []
    for name, array in expected.items():
        other = received[name]
        if array.shape[:2] == mask.shape:  # of tokens
            array, other = array[mask], other[mask]
        real = array > -1e8  # choices that are padding have -1e9
        distance = np.sqrt(np.mean(np.square(other - array)[real]))
        found.append(distance / max(np.sqrt(np.mean(np.square(array[real]))), 1e-6))
    worst = np.max(found)
    return float(worst) if np.isfinite(worst) else float("inf")
