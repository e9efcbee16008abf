"""Serving signatures of taggers: entities and word labels."""

from typing import Any

import tensorflow as tf
from keras import ops

from keras_bert_impl.serving.graphs import networks
from keras_bert_impl.serving.graphs.chunks import in_chunks
from keras_bert_impl.serving.graphs.networks import Network
from keras_bert_impl.serving.graphs.signatures import FEATURES, Signatures
from keras_bert_impl.tasks.tagging.decode import (
    LabelParts,
    find_units,
    over_sequences,
    scores_of_words,
)
from keras_bert_impl.tokenizers.text_words import (
    TextReader,
    TextWords,
    WordTokens,
    counts_of,
    find_tokens,
    find_words,
    first_tokens,
    padded,
    window_features,
)
from keras_bert_impl.tokenizers.windows import Windows, pack_windows


class TokenClassifierNetwork(Network):
    """Network with the output `logits` `[batch, length, labels]`, without the CRF."""

    def write(self, graph: Any) -> None:
        states = networks.hidden_states(
            graph, self.config, networks.add_inputs(graph, self.config)
        )[-1]
        logits = networks.add_logits(graph, states, self.model.head_layer)
        graph.output("logits", logits, ["batch", "length", self.model.num_classes])


class TaggerSignatures(Signatures):
    """Serving signatures for entities and word labels of texts, which are split into words."""

    def __init__(self, model: Any, *parts: Any):
        super().__init__(model, *parts)
        self.read = TextReader()
        self.parts = LabelParts(model.labels) if model.has_entities else None
        self.of_tokens = tf.function(self._compute_token_outputs, autograph=False)

    # `text` is the only input of these signatures.
    def reference(self, text: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        if self.parts is None:
            labels, scores = self.model.tag(text), self.model.predict(text, verbose=0)
            return [
                {"num_words": len(row), "labels": row, "scores": row_scores}
                for row, row_scores in zip(labels, scores)
            ]
        return [
            {
                "num_entities": len(entities),
                "types": [entity.type for entity in entities],
                "texts": [entity.text for entity in entities],
                "starts": [entity.start for entity in entities],
                "ends": [entity.end for entity in entities],
                "scores": [entity.score for entity in entities],
            }
            for entities in self.model.entities(text)
        ]

    # === Strings ===

    def answers_of_strings(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.words(text) if self.parts is None else self.entities(text)

    def more(self) -> dict[str, tuple]:
        return {"words": (self.words, self.strings)}

    def entities(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        texts = self.read(text)
        words, units, labels, probabilities = self._predict_words(text, texts)
        spans = self.parts.entities(words, units, labels, probabilities)
        counts = counts_of(spans.texts, tf.size(text))
        flat = {
            "types": tf.gather(self.parts.types, spans.types),
            "texts": texts.strings(spans.starts, spans.ends),
            "starts": texts.in_texts(spans.starts, spans.texts),
            "ends": texts.in_texts(spans.ends, spans.texts),
            "scores": spans.scores,
        }
        return {"num_entities": counts, **padded(flat, counts)}

    def words(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        texts = self.read(text)
        words, _, labels, probabilities = self._predict_words(text, texts)
        flat = {
            "labels": tf.gather(self.model.labels, labels),
            "label_ids": labels,
            "starts": texts.in_texts(words.starts, words.texts),
            "ends": texts.in_texts(words.ends, words.texts),
            "scores": probabilities,
        }
        return {"num_words": tf.cast(words.counts, tf.int32), **padded(flat, words.counts)}

    def _predict_words(self, text, texts):
        """Returns words, units, labels (int32 [words]) and probabilities ([words, num_labels])."""
        words = find_words(texts)
        windows = self._pack_windows(text)
        tokens = find_tokens(texts, words, windows.token_starts, windows.token_ends)
        scores, tokens = self.word_scores(windows, words, tokens)
        units = find_units(tokens)
        if not self.model.crf:
            return words, units, tf.argmax(scores, axis=-1, output_type=tf.int32), scores
        unknown = tf.constant(self.model.unknown_label)
        certain = tf.one_hot(unknown, self.model.num_classes)
        sequences = scores, units, words.texts, tf.size(text, tf.int64)
        labels = over_sequences(self.model.crf_layer.decode, *sequences, unknown)
        return words, units, labels, over_sequences(self.model.crf_layer, *sequences, certain)

    def _pack_windows(self, text):
        return pack_windows(self.tokenizer, text, self.max_length, self.model.doc_stride)

    def word_scores(
        self, windows: Windows, words: TextWords, tokens: WordTokens
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the label scores of each word.

        Returns:
            Scores, float32 [words, num_labels]: probabilities, or logits if there is a CRF. Token
            index of each word, int32 [words], which is -1 for words without a token.
        """
        needed = tf.ones_like(windows.token_starts.values, tf.bool)
        scores = self.token_outputs(windows, needed)["scores"]  # [tokens, num_labels]
        aggregation, unknown = self.model.aggregation, self.model.unknown_label
        return scores_of_words(scores, tokens, aggregation, unknown), tokens.firsts

    def token_outputs(self, windows: Windows, needed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Computes the network outputs of tokens, each from the window with the most context.

        Args:
            needed: bool [tokens], True for tokens whose outputs are returned.

        Returns:
            Tensors [needed tokens, ...].
        """
        numbers = tf.gather(windows.token_starts.row_splits, windows.texts)[:, tf.newaxis]
        numbers += tf.cast(windows.tokens(), tf.int64)  # [windows, length]
        is_selected = windows.has_most_context()
        needed = tf.concat([needed, [False]], axis=0)  # there may be no tokens
        is_selected &= tf.gather(needed, tf.where(is_selected, numbers, 0))
        rows = {**windows.features, "chosen": is_selected}
        outputs, order = self.in_order_of_length(self.of_tokens, rows)
        numbers = tf.boolean_mask(tf.gather(numbers, order), tf.gather(is_selected, order))
        order = tf.argsort(numbers)
        return {name: tf.gather(values, order) for name, values in outputs.items()}

    def _compute_token_outputs(self, rows):
        features = {name: rows[name] for name in FEATURES}
        logits = self.model(features, training=False)
        scores = logits if self.model.crf else ops.softmax(logits)
        return {"scores": tf.boolean_mask(scores, rows["chosen"])}

    # === Ids ===

    def features(self) -> tuple[str, ...]:
        # The CRF needs the first token of each word, and token ids do not mark it.
        return (*FEATURES, "word_mask") if self.model.crf else FEATURES

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        windows = self._pack_windows(text)
        texts = self.read(text)
        words = find_words(texts)
        tokens = find_tokens(texts, words, windows.token_starts, windows.token_ends)
        firsts = tokens.firsts if "word_mask" in self.features() else None
        return window_features(windows, self.tokenizer.pad_id, firsts)

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        logits = self.model({name: features[name] for name in FEATURES}, training=False)
        if not self.model.crf:
            return self.of_labels(ops.softmax(logits))
        return self.of_sequences(logits, features["word_mask"])

    def of_sequences(self, logits: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of the CRF for logits `[rows, length, labels]`."""
        labels = self.model.crf_layer.decode(logits, mask)
        return self.of_labels(self.model.crf_layer(logits, mask), labels)

    def of_labels(
        self, scores: tf.Tensor, label_ids: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        if label_ids is None:
            label_ids = tf.argmax(scores, axis=-1, output_type=tf.int32)
        names = tf.gather(self.model.labels, label_ids)
        return {"labels": names, "label_ids": label_ids, "scores": scores}


class FeatureTaggerSignatures(TaggerSignatures):
    """Serving signatures of `FeatureTagger`. The network inputs are hidden states of words."""

    def __init__(self, model: Any, *parts: Any):
        super().__init__(model, *parts)
        self.of_words = tf.function(self._score_words, autograph=False)

    def word_scores(
        self, windows: Windows, words: TextWords, tokens: WordTokens
    ) -> tuple[tf.Tensor, tf.Tensor]:
        firsts = tokens.firsts
        needed = first_tokens(firsts, tf.size(windows.token_starts.values))
        states = self.token_outputs(windows, needed)["states"]  # [needed tokens, layers, hidden]
        nothing = tf.zeros([1, *states.shape[1:]])
        ranks = tf.concat([tf.cumsum(tf.cast(needed, tf.int32)) - 1, [-1]], axis=0)
        ranks = tf.gather(ranks, tf.maximum(firsts, 0))  # indices into the needed tokens
        ranks = tf.where(firsts >= 0, ranks, tf.shape(states)[0])
        states = tf.gather(tf.concat([states, nothing], axis=0), ranks)  # [words, layers, hidden]
        rows, is_word = _pad_states(tf.RaggedTensor.from_row_lengths(states, words.counts))
        scores = in_chunks(self.of_words, rows, tokens=tf.shape(is_word)[1])["scores"]
        return tf.boolean_mask(scores, is_word), tf.range(tf.size(firsts))

    def _compute_token_outputs(self, rows):
        states = self.model.states({name: rows[name] for name in FEATURES})
        return {"states": tf.boolean_mask(states, rows["chosen"])}

    def _score_words(self, rows):
        return {"scores": self.model.scores(self.model(rows, training=False))}

    # === Ids ===

    def features(self) -> tuple[str, ...]:
        return (*FEATURES, "word_mask")

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        mask = tf.not_equal(features["word_mask"], 0)  # [rows, length]
        states = self.model.states({name: features[name] for name in FEATURES})
        rows, is_word = _pad_states(tf.ragged.boolean_mask(states, mask))
        scores = tf.boolean_mask(self._score_words(rows)["scores"], is_word)
        shape = tf.concat([tf.shape(mask), [self.model.num_classes]], axis=0)
        scores = tf.scatter_nd(tf.where(mask), scores, tf.cast(shape, tf.int64))
        return self.of_sequences(scores, mask) if self.model.crf else self.of_labels(scores)


def _pad_states(states):
    """Pads ragged hidden states `[texts, (words), layers, hidden]` to the longest text.

    Returns:
        Dict of the network inputs `states` and `mask`, and bool [texts, words], True for words and
        False for padding.
    """
    counts = states.row_lengths()
    longest = tf.maximum(states.bounding_shape(axis=1), 1)
    # Recurrent layers on a GPU need at least one step: a text without words gets one word of zeros.
    mask = tf.sequence_mask(tf.maximum(counts, 1), longest, tf.int32)
    dense = states.to_tensor(shape=tf.stack([-1, longest, *states.shape[2:]]))
    dense = tf.ensure_shape(dense, [None, None, *states.shape[2:]])
    return {"mask": mask, "states": dense}, tf.sequence_mask(counts, longest)
