"""Multiple-choice network for export to other runtimes."""

from typing import Any

from keras_bert_impl.serving.network import networks
from keras_bert_impl.serving.network.networks import Network


class MultipleChoiceNetwork(Network):
    """Outputs `logits` `[batch, choices]`."""

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("choices", "windows") if self.model.long_texts.has_windows else ("choices",)

    def write(self, graph: Any) -> None:
        features = networks.add_inputs(graph, self.config, self.groups)
        texts = networks.merge_groups(graph, features, self.rank)

        def of_rows(rows):
            return networks.pooled_vectors(graph, self.config, rows, self.config.use_pooler)

        vectors = networks.text_vectors(graph, texts, self.model, of_rows)
        logits = networks.add_logits(graph, vectors, self.model.head_layer)  # [batch * choices, 1]
        mask = features["attention_mask"]
        logits = graph.add("Reshape", logits, graph.add("Shape", mask, end=2))
        within = list(range(2, self.rank))
        is_choice = graph.cast(graph.add("ReduceMax", mask, axes=within, keepdims=0), "bool")
        logits = graph.add("Where", is_choice, logits, networks.NO_ROW)
        graph.output("logits", logits, ["batch", "choices"])
