"""Serving signatures of text embedders and of plain encoders."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.signatures import Signatures
from keras_bert_impl.tokenizers import Tokenizer


class VectorSignatures(Signatures):
    """Signatures with output `vectors`, float32 `[batch, dim]`, same as `TextEmbedder.encode`."""

    answers_whole_rows = True

    def __init__(self, model: Any, *parts: Any) -> None:
        super().__init__(model, *parts)
        self.features_rank = len(model.input["token_ids"].shape) - 1  # for single texts

    def reference(self, text: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        return [{"vectors": vector} for vector in self.model.encode(text)]

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.model.text_features(text)

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        groups = {name: feature[:, tf.newaxis] for name, feature in features.items()}
        return {"vectors": self.model(groups, training=False)[:, 0]}

    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.answers_of_strings(text)


class EncoderSignatures(Signatures):
    """Signatures for encoder outputs of texts.

    Outputs: `sequence_output`, float32 `[batch, length, hidden]`, padded to the longest of the
    batch; `pooled_output`, float32 `[batch, hidden]`; and `num_tokens`, int32 `[batch]`. The
    signature `embed` returns the mean of `sequence_output` over the tokens.

    Args:
        max_length: texts are truncated to this many tokens. Default: the encoder's maximum.
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
