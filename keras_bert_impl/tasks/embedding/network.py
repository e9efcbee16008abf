"""Text embedding network for export to other runtimes."""

from typing import Any

import numpy as np

from keras_bert_impl.serving.network import layers, networks
from keras_bert_impl.serving.network.networks import Network, to_numpy
from keras_bert_impl.tasks.embedding.poolings import poolings_of


class TextEmbedderNetwork(Network):
    """Outputs `sentence_embedding` `[batch, dim]`; inputs have no group axis, only single texts."""

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("windows",) if self.model.long_texts.has_windows else ()

    def write(self, graph: Any) -> None:
        poolings = poolings_of(self.model.pooling)

        def of_rows(rows):
            states = networks.hidden_states(graph, self.config, rows)[-self.model.num_layers :]
            states = _mixed(graph, states, self.model)
            mask = rows["attention_mask"]
            vectors = [pooling.write(graph, states, mask) for pooling in poolings]
            if len(vectors) == 1:
                return vectors[0]
            return graph.add("Concat", *map(graph.as_float32, vectors), axis=1)

        features = networks.add_inputs(graph, self.config, self.groups)
        pooled = self.config.hidden_dim
        if self.model.layer_mix is None:
            pooled *= self.model.num_layers
        pooled *= len(poolings)
        vectors = graph.as_float32(
            networks.text_vectors(graph, features, self.model, of_rows, pooled)
        )
        for layer, projection in zip(self.model.projection_layers, self.model.projections):
            inputs = graph.as_computed(vectors)
            if projection["kind"] == "layer_norm":
                outputs = layers.layer_norm(graph, inputs, layer.name, layer.epsilon)
            else:
                outputs = layers.dense(graph, inputs, layer.name, projection["activation"])
            vectors = graph.as_float32(outputs)
        if self.model.normalize:
            length = graph.add("ReduceL2", vectors, axes=[-1])
            vectors = graph.add("Div", vectors, graph.add("Max", length, np.float32(1e-12)))
        if self.model.truncate_dim is not None:
            vectors = graph.add("Slice", vectors, [0], [self.model.truncate_dim], [1])
        graph.output("sentence_embedding", vectors, ["batch", self.model.dim])

    def outputs_of_model(self, features: dict[str, Any]) -> dict[str, np.ndarray]:
        groups = {name: feature[:, None] for name, feature in features.items()}
        return {"sentence_embedding": to_numpy(self.model(groups, training=False))[:, 0]}

    def as_model_outputs(self, session: Any, features: dict[str, Any]) -> np.ndarray:
        batch, group, *rest = features["token_ids"].shape
        rows = {n: np.reshape(feature, (batch * group, *rest)) for n, feature in features.items()}
        return session(rows)["sentence_embedding"].reshape(batch, group, -1)


def _mixed(graph, states, model):
    """Returns the `layers.LayerMix` of the states of several layers, or their concatenation."""
    if model.layer_mix is None:
        return graph.add("Concat", *states, axis=2) if len(states) > 1 else states[0]
    weights = graph.array(model.layer_mix.kernel.path)
    parts = [graph.add("Mul", state, float(w)) for state, w in zip(states, weights / weights.sum())]
    return graph.add("Sum", *parts)
