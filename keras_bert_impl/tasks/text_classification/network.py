"""Text classification networks for export to other runtimes."""

from typing import Any

from keras_bert_impl.models.heads import needs_pooler
from keras_bert_impl.serving.network import networks
from keras_bert_impl.serving.network.networks import Network


class TextClassifierNetwork(Network):
    """Outputs `logits` `[batch, classes]`; with windows, inputs are `[batch, windows, length]`."""

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("windows",) if self.model.long_texts.has_windows else ()

    def write(self, graph: Any) -> None:
        features = networks.add_inputs(graph, self.config, self.groups)

        def of_rows(rows):
            if self.model.pooling is None:
                return networks.pooled_vectors(graph, self.config, rows, needs_pooler(self.config))
            states = networks.hidden_states(graph, self.config, rows)[-1]
            mask = graph.add("Unsqueeze", rows["attention_mask"], [2])  # a one-token window
            width, pooling = self.config.hidden_dim, self.model.pooling
            return networks.pool_windows(graph, states, mask, width, pooling, "pooling")

        vectors = networks.text_vectors(graph, features, self.model, of_rows)
        logits = networks.add_logits(graph, vectors, self.model.head_layer)
        graph.output("logits", logits, ["batch", self.model.num_classes])


class NextSentenceNetwork(Network):
    """Outputs `logits` `[batch, 2]`."""

    def write(self, graph: Any) -> None:
        vectors = networks.pooled_vectors(
            graph, self.config, networks.add_inputs(graph, self.config), use_pooler=True
        )
        logits = networks.add_logits(graph, vectors, self.model.get_layer(self.model.head))
        graph.output("logits", logits, ["batch", 2])
