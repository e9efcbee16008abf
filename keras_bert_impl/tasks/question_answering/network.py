"""Question answering network for export to other runtimes."""

from typing import Any

import numpy as np

from keras_bert_impl.serving.network import networks
from keras_bert_impl.serving.network.networks import Network, to_numpy


class QuestionAnswererNetwork(Network):
    """Outputs `start_logits` and `end_logits`, `[batch, length]`."""

    def write(self, graph: Any) -> None:
        states = networks.hidden_states(
            graph, self.config, networks.add_inputs(graph, self.config)
        )[-1]
        # [batch, length, 2]
        logits = networks.add_logits(graph, states, self.model.get_layer(self.model.head))
        for number, name in enumerate(("start_logits", "end_logits")):
            graph.output(name, graph.add("Gather", logits, number, axis=2), ["batch", "length"])

    def outputs_of_model(self, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = self.model(features, training=False)
        return {name: to_numpy(output) for name, output in outputs.items()}

    def as_model_outputs(self, session: Any, features: dict[str, np.ndarray]) -> np.ndarray:
        outputs = session(features)
        return np.stack([outputs["start_logits"], outputs["end_logits"]], axis=1)
