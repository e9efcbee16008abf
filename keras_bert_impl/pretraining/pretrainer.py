"""The model that is pre-trained: an encoder with BERT's two objectives on it."""

import dataclasses

import keras
from keras import ops

from keras_bert_impl.files import replace_directory
from keras_bert_impl.interop import (
    encoder_tensors,
    head_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    tensor_prefix,
    tied_tensors,
    write_model_directory,
)
from keras_bert_impl.layers import ClassificationHead, GatherPositions
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.models.serialization import deserialize_parts
from keras_bert_impl.models.weights import check_tied, load_weights, tensors_of, values_deferred
from keras_bert_impl.training.trainer import ReplicatedTrainer


@keras.saving.register_keras_serializable("keras_bert_impl")
class BertPretrainer(ReplicatedTrainer, keras.Model):
    """Masked language model and next sentence prediction over one encoder.

    The loss is the mean cross-entropy over the masked tokens of the global batch, plus the mean
    over its examples for the next sentence. Packed rows predict at every `[CLS]`.

    Args:
        encoder: `Encoder`.
        next_sentence: bool. Whether there is a next sentence objective.

    Raises:
        ValueError: `next_sentence` for a kind of encoder whose files have no place for its head.

    Call arguments:
        features: dict of int32 tensors as `pretraining_dataset` makes them: `token_ids`,
            `segment_ids`, `position_ids`, `example_ids` `[batch, length]`, `masked_positions`
            `[batch, predictions]` and, with `next_sentence`, `cls_positions`
            `[batch, examples]`.

    Returns:
        dict of float32 logits: `masked_lm` `[batch, predictions, vocabulary]` and
        `next_sentence` `[batch, examples, 2]`.

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        pretrainer = BertPretrainer(Encoder(config))
        pretrainer.compile(AdamW(1e-4))
        pretrainer.fit(pretraining_dataset("records", batch_size=32), steps_per_epoch=100)
    """

    def __init__(self, encoder, next_sentence=True, name="pretrainer", **kwargs):
        config, dtype = encoder.config, encoder.dtype_policy

        # === Layers ===
        gather = GatherPositions(dtype=dtype, name="gather")
        masked_lm = masked_lm_head(encoder)

        # === Functional model ===
        names = ["token_ids", "segment_ids", "position_ids", "example_ids", "masked_positions"]
        names += ["cls_positions"] if next_sentence else []
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        sequence = encoder({name: inputs[name] for name in names[:4]})["sequence_output"]
        outputs = {"masked_lm": masked_lm(gather(sequence, inputs["masked_positions"]))}
        if next_sentence:
            first = gather(sequence, inputs["cls_positions"])  # [batch, examples, hidden]
            head = ClassificationHead(
                2,
                dropout=0.0,
                initializer_range=config.initializer_range,
                dtype=dtype,
                name="next_sentence",
            )
            outputs["next_sentence"] = head(encoder.pooler(first) if encoder.pooler else first)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)

        # === Config ===
        self.encoder = encoder
        self.next_sentence = next_sentence
        self._head_tensors()  # what could not be saved is found before it is trained

    def compile(self, optimizer, weighted_metrics=None, **kwargs):
        """As Keras's, with the two losses built in, and accuracies and losses as metrics."""
        if weighted_metrics is None:
            weighted_metrics = {
                name: [
                    keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="loss"),
                    keras.metrics.MeanMetricWrapper(_label_is_highest, name="accuracy"),
                ]
                for name in self.output_names
            }
        super().compile(optimizer, weighted_metrics=weighted_metrics, **kwargs)

    def loss_totals(self, x, y, sample_weight):
        return {name: ops.sum(weight) for name, weight in sample_weight.items()}

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        share = 0.0
        for name, logits in y_pred.items():
            losses = ops.sparse_categorical_crossentropy(y[name], logits, from_logits=True)
            share += ops.sum(losses * sample_weight[name]) / ops.maximum(totals[name], 1.0)
        return share

    # Without the pooler where nothing learns from it, of which an optimizer would warn. Both names,
    # because Keras hands one of them to the optimizer before training and the other after.
    @property
    def trainable_variables(self):
        return self._without_unused(super().trainable_variables)

    @property
    def trainable_weights(self):
        return self._without_unused(super().trainable_weights)

    def _without_unused(self, variables):
        if self.next_sentence or not self.encoder.pooler:
            return variables
        unused = {id(variable) for variable in self.encoder.pooler.variables}
        return [variable for variable in variables if id(variable) not in unused]

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "next_sentence": self.next_sentence,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize_parts(config, "encoder", custom_objects=custom_objects))

    @classmethod
    def from_pretrained(cls, name_or_path, next_sentence=True, dtype=None, **overrides):
        """A pre-trainer with the weights of a model directory, to go on pre-training.

        Args:
            name_or_path: str or `Path`: a directory or a name; see `interop.open_model`.
                Heads that the checkpoint lacks are newly made.
            next_sentence: bool.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `dropout=0.0`.

        Raises:
            InputError: a file or tensor is missing, damaged or of another shape; names it.
        """
        source = open_model(name_or_path)
        config = read_encoder_config(source)
        with values_deferred():
            encoder = Encoder(dataclasses.replace(config, **overrides), dtype)
            pretrainer = cls(encoder, next_sentence)
        check_tied(source, tied_tensors(config))
        load_weights(pretrainer, source, pretrainer._tensors())
        return pretrainer

    def save_pretrained(self, directory, tokenizer=None):
        """Writes a model directory with the heads; `transformers` and `from_pretrained` load it.

        Args:
            directory: str or `Path`; files of the same names are replaced.
            tokenizer: `Tokenizer` to write beside the weights, or None.
        """
        config = self.encoder.config
        head = "pretraining" if self.next_sentence else "masked_lm"
        tensors = tensors_of(self, encoder_tensors(config), prefix=tensor_prefix(config))
        tensors |= tensors_of(self, self._head_tensors())
        with replace_directory(directory) as temporary:
            write_model_directory(temporary, huggingface_config(config, head), tensors)
            if tokenizer is not None:
                tokenizer.save_pretrained(temporary)

    def _tensors(self):
        return encoder_tensors(self.encoder.config) + self._head_tensors()

    def _head_tensors(self):
        heads = ["masked_lm"] + (["next_sentence"] if self.next_sentence else [])
        return [name for head in heads for name in head_tensors(self.encoder.config, head)]


def _label_is_highest(labels, logits):
    """1.0 where no logit is above the label's.

    Unless logits tie, what an argmax would say; on CPUs an argmax over a vocabulary takes longer
    than the loss.
    """
    own = ops.take_along_axis(logits, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]
    return ops.cast(own >= ops.max(logits, axis=-1), "float32")
