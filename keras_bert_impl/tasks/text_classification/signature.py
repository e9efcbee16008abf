"""Serving signatures of text classifiers: labels and their scores."""

from typing import Any

import tensorflow as tf

from keras_bert_impl.data.scores.decisions import ranked
from keras_bert_impl.models.heads import needs_pooler
from keras_bert_impl.serving.graphs import networks
from keras_bert_impl.serving.graphs.networks import Network
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.tasks.text_classification.poolings import pooling_named


class TextClassifierNetwork(Network):
    """Network with the output `logits` `[batch, classes]`. The inputs may contain windows."""

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("windows",) if self.model.long_texts.has_windows else ()

    def write(self, graph: Any) -> None:
        features = networks.add_inputs(graph, self.config, self.groups)

        def pool_rows(rows):
            if self.model.pooling is None:
                return networks.pooled_vectors(graph, self.config, rows, needs_pooler(self.config))
            states = networks.hidden_states(graph, self.config, rows)[-1]
            pooling = pooling_named(self.model.pooling)
            return pooling.write(graph, self.config, states, rows["attention_mask"])

        vectors = networks.text_vectors(graph, features, self.model, pool_rows)
        logits = networks.add_logits(graph, vectors, self.model.head_layer)
        graph.output("logits", logits, ["batch", self.model.num_classes])


class NextSentenceNetwork(Network):
    """Network with output `logits` `[batch, 2]`."""

    def write(self, graph: Any) -> None:
        vectors = networks.pooled_vectors(
            graph, self.config, networks.add_inputs(graph, self.config), use_pooler=True
        )
        logits = networks.add_logits(graph, vectors, self.model.get_layer(self.model.head))
        graph.output("logits", logits, ["batch", 2])


class ClassSignatures(Signatures):
    answers_whole_rows = True

    def __init__(self, model: Any, *parts: Any) -> None:
        super().__init__(model, *parts)
        self.features_rank = len(model.input["token_ids"].shape)

    def more(self) -> dict[str, tuple]:
        if not self.takes_pairs():
            return {}
        return {"pairs": (self.answers_of_strings, {"first": 1, "second": 1})}

    def reference(self, text: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        return [{"scores": row} for row in self.model.predict(text, verbose=0)]

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        model = self.model
        scores = model.scores(model(features, training=False))  # [batch, num_classes]
        names = tf.constant(model.labels)
        if model.problem_type == "regression":
            return {"scores": scores}
        if model.problem_type == "multi_label_classification":
            return {"labels": tf.where(scores >= model.bounds, names, ""), "scores": scores}
        ranks = scores if model.bounds is None else ranked(scores, model.bounds, tf.where)
        label_id = tf.argmax(ranks, axis=-1, output_type=tf.int32)
        return {
            "label": tf.gather(names, label_id),
            "label_id": label_id,
            "score": tf.gather(scores, label_id, batch_dims=1),
            "scores": scores,
        }


class NextSentenceSignatures(Signatures):
    strings = {"first": 1, "second": 1}
    answers_whole_rows = True

    def reference(self, first: list[str], second: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        pairs = list(zip(first, second))
        return [{"score": score} for score in self.model.predict(pairs, verbose=0)]

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"score": self.model.scores(self.model(features, training=False))}
