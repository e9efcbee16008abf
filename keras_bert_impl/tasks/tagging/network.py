"""Token classification network for export to other runtimes."""

from typing import Any

from keras_bert_impl.serving.network import parts
from keras_bert_impl.serving.network.networks import Network


class TokenClassifierNetwork(Network):
    """Outputs `logits` `[batch, length, labels]`; with a CRF these are the emissions."""

    def write(self, graph: Any) -> None:
        states = parts.hidden_states(graph, self.config, parts.add_inputs(graph, self.config))[-1]
        logits = parts.add_logits(graph, states, self.model.head_layer)
        graph.output("logits", logits, ["batch", "length", self.model.num_classes])
