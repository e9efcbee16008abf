"""Exported networks and serving signatures of text embedders and encoders."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.graphs import layers, networks
from keras_bert_impl.serving.graphs.networks import Network, to_numpy
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.tasks.embedding.poolings import poolings_of
from keras_bert_impl.tokenizers import Tokenizer


class TextEmbedderNetwork(Network):
    """Network with output `sentence_embedding` `[batch, dim]`, for single texts."""

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("windows",) if self.model.long_texts.has_windows else ()

    def write(self, graph: Any) -> None:
        poolings = poolings_of(self.model.pooling)

        def pool_rows(rows):
            states = networks.hidden_states(graph, self.config, rows)[-self.model.num_layers :]
            states = _mix_states(graph, states, self.model)
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
            networks.text_vectors(graph, features, self.model, pool_rows, pooled)
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
        batch, group, *sizes = features["token_ids"].shape
        rows = {n: np.reshape(feature, (batch * group, *sizes)) for n, feature in features.items()}
        return session(rows)["sentence_embedding"].reshape(batch, group, -1)


def _mix_states(graph, states, model):
    """Returns the weighted mean, or the concatenation, of the states of several layers."""
    if model.layer_mix is None:
        return graph.add("Concat", *states, axis=2) if len(states) > 1 else states[0]
    weights = graph.array(model.layer_mix.kernel.path)
    parts = [graph.add("Mul", state, float(w)) for state, w in zip(states, weights / weights.sum())]
    return graph.add("Sum", *parts)


class VectorSignatures(Signatures):
    """Serving signatures with output `vectors`, float32 `[batch, dim]`."""

    answers_whole_rows = True

    def __init__(self, model: Any, *parts: Any) -> None:
        super().__init__(model, *parts)
        self.features_rank = len(model.input["token_ids"].shape) - 1  # without the group dimension

    def reference(self, text: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        return [{"vectors": vector} for vector in self.model.encode(text)]

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.model.text_features(text)

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        groups = {name: feature[:, tf.newaxis] for name, feature in features.items()}
        return {"vectors": self.model(groups, training=False)[:, 0]}

    @property
    def tokenization(self) -> tuple:
        model = self.model
        prompt = model.prompts.get(model.default_prompt_name, "")
        return *super().tokenization, model.do_lower_case, prompt

    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.answers_of_strings(text)


class EncoderSignatures(Signatures):
    """Serving signatures that return the encoder outputs for texts.

    The outputs are `sequence_output`, float32 `[batch, length, hidden]`, padded to the longest text
    of the batch; `pooled_output`, float32 `[batch, hidden]`; and `num_tokens`, int32 `[batch]`. The
    signature `embed` returns the mean of `sequence_output` over the tokens.

    Args:
        max_length: texts are truncated to this number of tokens. Default: the encoder's maximum.
    """

    def __init__(
        self, encoder: Encoder, tokenizer: Tokenizer, max_length: int | None = None
    ) -> None:
        super().__init__(encoder, encoder, tokenizer, max_length or encoder.config.max_length)

    def more(self) -> dict[str, tuple]:
        if not self.takes_pairs():
            return {}
        return {"pairs": (self.answers_of_strings, {"first": 1, "second": 1})}

    def reference(self, text: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        features = self.tokenizer(text, length=self.max_length)
        outputs = self.encoder(features, training=False)
        counts = np.sum(features["padding_mask"], axis=1)
        return [
            {"num_tokens": count, "pooled_output": pooled, "sequence_output": states[:count]}
            for count, pooled, states in zip(
                counts, outputs["pooled_output"].numpy(), outputs["sequence_output"].numpy()
            )
        ]

    def tokenize(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.cut(texts[0] if len(texts) == 1 else texts)

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        outputs = self.encoder(features, training=False)
        num_tokens = tf.reduce_sum(features["padding_mask"], axis=1)
        outputs = {name: tf.cast(output, tf.float32) for name, output in outputs.items()}
        return {"num_tokens": num_tokens, **outputs}
