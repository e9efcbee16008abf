"""Fills in masked words."""

import dataclasses

import keras
import numpy as np

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop import (
    encoder_tensors,
    head_tensors,
    open_model,
    read_encoder_config,
    tied_tensors,
)
from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.models.serialization import deserialize_parts
from keras_bert_impl.models.weights import check_tied, load_weights, values_deferred
from keras_bert_impl.tokenizers import Tokenizer


@dataclasses.dataclass(frozen=True)
class Filling:
    """A word piece for a mask.

    Attributes:
        token: str, the piece as it stands in the vocabulary.
        score: float, its probability.
    """

    token: str
    score: float


@keras.saving.register_keras_serializable("keras_bert_impl")
class MaskedLM(keras.Model):
    """An encoder with the head of the masked language model.

    Args:
        encoder: `Encoder`.
        tokenizer: `Tokenizer`.

    Call arguments:
        features: dict of int32 `token_ids`, `segment_ids`, `padding_mask` `[batch, length]` and
            `masked_positions` `[batch, predictions]`.

    Returns:
        float32 logits `[batch, predictions, vocabulary]`.

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        MaskedLM.from_pretrained("run/model").fill(["Paris is the [MASK] of France."], top_k=3)
    """

    def __init__(self, encoder, tokenizer, name="masked_lm_model"):
        names = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        sequence = encoder({name: inputs[name] for name in names[:3]})["sequence_output"]
        gather = GatherPositions(dtype=encoder.dtype_policy, name="gather")
        logits = masked_lm_head(encoder)(gather(sequence, inputs["masked_positions"]))
        super().__init__(inputs=inputs, outputs=logits, name=name)
        self.encoder = encoder
        self.tokenizer = tokenizer

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(
            **deserialize_parts(config, "encoder", "tokenizer", custom_objects=custom_objects)
        )

    @classmethod
    def from_pretrained(cls, name_or_path, dtype=None):
        """Loads a model directory that has a masked language model's head, and its tokenizer.

        Args:
            name_or_path: str or `Path`: a directory or a name; see `interop.open_model`.
            dtype: Keras dtype policy.

        Raises:
            InputError: a file or tensor is missing or damaged; names it.
        """
        source = open_model(name_or_path)
        config = read_encoder_config(source)
        # A head with new weights would fill in noise.
        head = head_tensors(config, "masked_lm")
        head = [dataclasses.replace(name, optional=False) for name in head]
        tokenizer = Tokenizer.from_pretrained(source.path)
        with values_deferred():
            encoder = Encoder(dataclasses.replace(config, use_pooler=False), dtype=dtype)
            model = cls(encoder, tokenizer)
        check_tied(source, tied_tensors(config))
        load_weights(model, source, encoder_tensors(encoder.config) + head)
        return model

    def fill(self, texts, top_k=5):
        """The likeliest pieces for every mask.

        Args:
            texts: list of str, each with one or more of the tokenizer's mask tokens (`[MASK]`,
                or `<mask>`).
            top_k: int. Pieces for a mask.

        Returns:
            list (a text) of lists (a mask) of `top_k` `Filling`s, likeliest first.

        Raises:
            InputError: a text without a mask within the model's length.
        """
        if isinstance(texts, str) or not texts:
            raise InputError(f"fill takes a list of texts. Received: {texts!r:.60}")
        limit = self.encoder.config.max_length
        features = {name: np.asarray(value) for name, value in self._features(texts, limit).items()}
        rows, columns = np.nonzero(features["token_ids"] == self.tokenizer.mask_id)
        per_text = [columns[rows == row] for row in range(len(texts))]
        mask = self.tokenizer.id_to_token(self.tokenizer.mask_id)
        for row, positions in enumerate(per_text):
            if not len(positions):
                raise InputError(
                    f"text {row} has no {mask} within its first {limit} tokens: {texts[row]!r:.60}"
                )
        slots = max(map(len, per_text))
        features["masked_positions"] = np.stack(
            [np.pad(positions, (0, slots - len(positions))) for positions in per_text]
        ).astype("int32")
        scores = keras.ops.convert_to_numpy(keras.ops.softmax(self(features, training=False)))
        return [
            [self._best(scores[row, slot], top_k) for slot in range(len(positions))]
            for row, positions in enumerate(per_text)
        ]

    def _features(self, texts, limit):
        features = self.tokenizer(texts)
        return {name: value[:, :limit] for name, value in features.items()}

    def _best(self, scores, top_k):
        ids = np.argsort(-scores, kind="stable")[:top_k]
        return [Filling(self.tokenizer.id_to_token(int(i)), float(scores[i])) for i in ids]
