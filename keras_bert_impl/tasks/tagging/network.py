"""Token classification network for export to other runtimes."""

from typing import Any

from keras_bert_impl.serving.network import networks
from keras_bert_impl.serving.network.networks import Network


class TokenClassifierNetwork(Network):
    """Outputs `logits` `[batch, length, labels]`; with a CRF these are the emissions."""

    def write(self, graph: Any) -> None:
        states = networks.hidden_states(
            graph, self.config, networks.add_inputs(graph, self.config)
        )[-1]
        logits = networks.add_logits(graph, states, self.model.head_layer)
        graph.output("logits", logits, ["batch", "length", self.model.num_classes])
