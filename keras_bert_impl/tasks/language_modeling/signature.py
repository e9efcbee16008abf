"""Serving signatures of masked language models: predicted tokens for masks."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import with_global_mask
from keras_bert_impl.serving.graphs import layers, networks
from keras_bert_impl.serving.graphs.chunks import in_chunks
from keras_bert_impl.serving.graphs.networks import Network
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.text_words import padded


class MaskedLMNetwork(Network):
    """Network with output `logits` `[batch, length, vocabulary]`."""

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
        positions = np.tile(np.arange(length, dtype="int32"), (batch, 1))
        return super().outputs_of_model(features | {"masked_positions": positions})


class FillingSignatures(Signatures):
    def __init__(
        self, model: Any, encoder: Encoder, tokenizer: Tokenizer, max_length: int, top_k: int
    ) -> None:
        super().__init__(model, encoder, tokenizer, max_length)
        self.top_k = min(top_k, self.tokenizer.vocabulary_size)
        self.head = model.get_layer("masked_lm")
        self.states = tf.function(self._compute_states, autograph=False)
        self.best = tf.function(self._select_best, autograph=False)

    def reference(self, text: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        return [
            {
                "num_masks": len(masks),
                "tokens": [[filling.token for filling in fillings] for fillings in masks],
                "scores": [[filling.score for filling in fillings] for fillings in masks],
            }
            for masks in self.model.fill(text, self.top_k)
        ]

    def as_example(self, text: str) -> str:
        mask = self.tokenizer.id_to_token(self.tokenizer.mask_id)
        return f"{text} {mask}"

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.cut(text)

    def answers_of_strings(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.answers_of_ids(self.tokenize(text))

    def answers_of_ids(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # Two steps limit memory: each mask has a score for each vocabulary entry.
        states = self.in_chunks(self.states, features)
        width = tf.constant(self.tokenizer.vocabulary_size // self.config.hidden_dim + 1)
        best = in_chunks(self.best, states, tokens=width)
        is_mask = tf.equal(features["token_ids"], self.tokenizer.mask_id)
        counts = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
        return {"num_masks": counts, **padded(best, counts)}

    def _compute_states(self, features):
        rows = with_global_mask(self.encoder, features, None)
        states = self.encoder(rows, training=False)["sequence_output"]
        is_mask = tf.equal(features["token_ids"], self.tokenizer.mask_id)
        return {"states": tf.boolean_mask(states, is_mask)}

    def _select_best(self, rows):
        logits = self.head(rows["states"][tf.newaxis])[0]  # [masks, vocabulary]
        scores = tf.nn.softmax(logits)[:, : self.tokenizer.vocabulary_size]
        scores, ids = tf.math.top_k(scores, self.top_k)
        return {
            "tokens": tf.gather(list(self.tokenizer.vocabulary), ids),
            "token_ids": ids,
            "scores": scores,
        }
