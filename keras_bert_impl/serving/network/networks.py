"""The networks of models, written operation by operation for other runtimes."""

import keras
import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.network import parts


class Network:
    """The network of a model, written from its configuration and weights.

    A subclass stands in the folder of its task, and the model class names it as `network`. Its inputs
    are those of `optimum`'s exports, whole numbers `[batch, length]` of any size: `input_ids`,
    `attention_mask` (1 for a real token, else 0) and, if the encoder has several segments,
    `token_type_ids`. Outputs are float32; those at padding have no meaning.

    Args:
        model: `Encoder` or `TaskModel`.

    Attributes:
        groups: names of the dimensions that inputs have between `batch` and `length`.
    """

    groups = ()

    def __init__(self, model: keras.Model):
        self.model = model
        self.config = encoder_of(model).config

    @property
    def rank(self) -> int:
        """Number of dimensions of the inputs."""
        return 2 + len(self.groups)

    def write(self, graph) -> None:
        """Writes the network into a graph, with its outputs.

        Args:
            graph: `onnx.graph.Graph` or `litert.graph.Graph`, with `weights_of(model)`.
        """
        raise NotImplementedError

    def outputs_of_model(self, features: dict) -> dict:
        """What the Keras model computes of features, under the names of the outputs.

        Args:
            features: dict of int32 arrays, of `rank` dimensions.
        """
        return {"logits": to_numpy(self.model(features, training=False))}

    def as_model_outputs(self, session, features: dict) -> np.ndarray:
        """What the Keras model would return of a batch of its features, computed by a session.

        Args:
            session: function of features to outputs by name.
            features: dict of int32 arrays, as the model takes them.
        """
        return session(features)["logits"]


class EncoderNetwork(Network):
    """`last_hidden_state` `[batch, length, hidden]`, and with a pooler `pooler_output`."""

    def write(self, graph):
        features = parts.add_inputs(graph, self.config)
        states = parts.hidden_states(graph, self.config, features)[-1]
        width = self.config.hidden_dim
        graph.output("last_hidden_state", states, ["batch", "length", width])
        if self.config.use_pooler:
            pooled = parts.pool_tokens(graph, self.config, states, features, use_pooler=True)
            graph.output("pooler_output", pooled, ["batch", width])

    def outputs_of_model(self, features):
        outputs = self.model(features, training=False)
        found = {"last_hidden_state": to_numpy(outputs["sequence_output"])}
        if self.config.use_pooler:
            found["pooler_output"] = to_numpy(outputs["pooled_output"])
        return found


def network_of(model: keras.Model) -> Network:
    """The network of a model.

    Raises:
        InputError: a model of a kind that has none, or with an adapter.
    """
    network = EncoderNetwork if isinstance(model, Encoder) else getattr(model, "network", None)
    if network is None:
        raise InputError(f"a {type(model).__name__} has no form here but a SavedModel.")
    adapter = encoder_of(model).config.adapter
    if adapter is not None:
        raise InputError(
            f"a model with an adapter, {adapter.kind}, has no such form here; LoRA's can be made "
            "an ordinary model by `keras-bert merge`."
        )
    return network(model)


def weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    """The weights of a model by their paths."""
    return {weight.path: to_numpy(weight.value) for weight in model.weights}


def encoder_of(model: keras.Model) -> Encoder:
    """The `Encoder` of a model, or the model, if it is one."""
    return getattr(model, "encoder", model)


def to_numpy(tensor) -> np.ndarray:
    """A tensor of any backend as an array."""
    return keras.ops.convert_to_numpy(tensor)
