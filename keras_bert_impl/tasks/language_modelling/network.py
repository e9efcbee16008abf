"""Masked language model network for export to other runtimes."""

from typing import Any

import numpy as np

from keras_bert_impl.serving.network import layers, networks
from keras_bert_impl.serving.network.networks import Network


class MaskedLMNetwork(Network):
    """Outputs `logits` `[batch, length, vocabulary]`."""

    def write(self, graph: Any) -> None:
        outputs = networks.hidden_states(
            graph, self.config, networks.add_inputs(graph, self.config)
        )[-1]
        head = self.model.get_layer("masked_lm")
        if head.dense is not None:
            activation = head.dense.activation.__name__
            outputs = layers.dense(graph, outputs, "masked_lm/dense", activation)
            epsilon = self.config.layer_norm_epsilon
            outputs = layers.layer_norm(graph, outputs, "masked_lm/layer_norm", epsilon)
        table = graph.weight("embeddings/token_embeddings")
        logits = graph.add("MatMul", outputs, graph.add("Transpose", table, perm=[1, 0]))
        logits = graph.add("Add", logits, graph.weight("masked_lm/output_bias"))
        graph.output("logits", logits, ["batch", "length", self.config.vocabulary_size])

    def outputs_of_model(self, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        batch, length = features["token_ids"].shape
        places = np.tile(np.arange(length, dtype="int32"), (batch, 1))
        return super().outputs_of_model(features | {"masked_positions": places})
