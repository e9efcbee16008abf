"""Network definitions of models, written operator by operator for other runtimes."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.network import parts


class Network:
    """Network of a model, written from its configuration and weights."""

    groups = ()

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.config = encoder_of(model).config

    @property
    def rank(self) -> int:
        """Number of dimensions of the inputs."""
        return 2 + len(self.groups)

    def write(self, graph: parts.Graph) -> None:
        """Writes the network and its outputs into a graph, which has `weights_of(model)`."""
        raise NotImplementedError

    def outputs_of_model(self, features: dict) -> dict[str, np.ndarray]:
        """Returns the outputs of the Keras model by name."""
        return {"logits": to_numpy(self.model(features, training=False))}

    def as_model_outputs(self, session: Callable, features: dict) -> np.ndarray:
        """Runs a session on a batch and returns the outputs in the Keras model's format."""
        return session(features)["logits"]


class EncoderNetwork(Network):
    """Outputs `last_hidden_state` `[batch, length, hidden]`, and with a pooler `pooler_output`."""

    def write(self, graph: parts.Graph) -> None:
        features = parts.add_inputs(graph, self.config)
        states = parts.hidden_states(graph, self.config, features)[-1]
        width = self.config.hidden_dim
        graph.output("last_hidden_state", states, ["batch", "length", width])
        if self.config.use_pooler:
            pooled = parts.pool_tokens(graph, self.config, states, features, use_pooler=True)
            graph.output("pooler_output", pooled, ["batch", width])

    def outputs_of_model(self, features: dict) -> dict[str, np.ndarray]:
        outputs = self.model(features, training=False)
        found = {"last_hidden_state": to_numpy(outputs["sequence_output"])}
        if self.config.use_pooler:
            found["pooler_output"] = to_numpy(outputs["pooled_output"])
        return found


def network_of(model: keras.Model) -> Network:
    """Returns the network of a model."""
    config = encoder_of(model).config
    network = EncoderNetwork if isinstance(model, Encoder) else getattr(model, "network", None)
    if network is None:
        raise InputError(f"a {type(model).__name__} can be exported only as a SavedModel.")
    if config.max_global_tokens is not None:
        raise InputError("a longformer can be exported only as a SavedModel.")
    if config.adapter is not None:
        raise InputError(
            f"a model with an adapter, {config.adapter.kind}, can be exported only as a SavedModel; "
            "merge LoRA into the weights first with `keras-bert merge`."
        )
    return network(model)


def weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the weights of a model by path."""
    return {weight.path: to_numpy(weight.value) for weight in model.weights}


def encoder_of(model: keras.Model) -> Encoder:
    """Returns the `Encoder` of a model, or the model itself if it is one."""
    return getattr(model, "encoder", model)


def to_numpy(tensor: Any) -> np.ndarray:
    """Converts a tensor of any backend to a NumPy array."""
    return keras.ops.convert_to_numpy(tensor)
