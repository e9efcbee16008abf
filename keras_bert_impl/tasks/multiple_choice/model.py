"""`MultipleChoice`: selects the most likely of several endings."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    classifier_dropout,
    classifier_dropout_key,
    head_tensors,
)
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.batches.windows import GroupedTexts, merged, tokenize_groups
from keras_bert_impl.data.scores.decisions import check_scores
from keras_bert_impl.data.tables.label_codec import ChoiceLabels
from keras_bert_impl.data.tables.labels import (
    class_indices,
    tensors_to_read,
)
from keras_bert_impl.data.tables.user_input import from_columns, not_a_text, values
from keras_bert_impl.layers import ChoiceLogits
from keras_bert_impl.layers.pooling import is_row
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import (
    check_sees_all,
    choice_head,
    choice_needs_pooler,
    with_global_mask,
)
from keras_bert_impl.serving.graphs import networks
from keras_bert_impl.serving.graphs.networks import Network
from keras_bert_impl.serving.graphs.signatures import FEATURES, Signatures
from keras_bert_impl.tasks.base import user_data
from keras_bert_impl.tasks.base.fitting import joined
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Rate


class MultipleChoiceNetwork(Network):
    """Network with output `logits` `[batch, choices]`."""

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("choices", "windows") if self.model.long_texts.has_windows else ("choices",)

    def write(self, graph: Any) -> None:
        features = networks.add_inputs(graph, self.config, self.groups)
        texts = networks.merge_groups(graph, features, self.rank)

        def pool_rows(rows):
            return networks.pooled_vectors(graph, self.config, rows, self.config.use_pooler)

        vectors = networks.text_vectors(graph, texts, self.model, pool_rows)
        logits = networks.add_logits(graph, vectors, self.model.head_layer)  # [batch * choices, 1]
        mask = features["attention_mask"]
        logits = graph.add("Reshape", logits, graph.add("Shape", mask, end=2))
        within = list(range(2, self.rank))
        mask = graph.cast(mask, "float32")
        is_choice = graph.cast(graph.add("ReduceMax", mask, axes=within, keepdims=0), "bool")
        logits = graph.add("Where", is_choice, logits, networks.NO_ROW)
        graph.output("logits", logits, ["batch", "choices"])


class ChoiceSignatures(Signatures):
    strings = {"prompt": 1, "endings": 2}
    answers_whole_rows = True

    def __init__(self, model: Any, *parts: Any) -> None:
        super().__init__(model, *parts)
        self.features_rank = len(model.input["token_ids"].shape)

    def reference(self, prompt: list[str], endings: list[list[str]]) -> list[dict[str, Any]]:  # type: ignore[override]
        examples = [
            (context, [e for e in several if e]) for context, several in zip(prompt, endings)
        ]
        return [
            {"scores": scores, "choice": scores.argmax()}
            for scores in self.model.predict(examples, verbose=0)
        ]

    def tokenize(self, prompt: tf.Tensor, endings: tf.Tensor) -> dict[str, tf.Tensor]:
        choices = tf.shape(endings)[1]
        some = tf.debugging.assert_positive(choices, "endings must have at least one column.")
        with tf.control_dependencies([some]):
            prompts = tf.repeat(prompt, choices)
        rows = self.model.text_features((prompts, tf.reshape(endings, [-1])))
        shape = tf.concat([tf.shape(endings), tf.shape(rows["token_ids"])[1:]], axis=0)
        is_ending = tf.not_equal(endings, "")[(..., *[tf.newaxis] * (self.features_rank - 2))]
        nothing = {"token_ids": self.tokenizer.pad_id}

        def shape_endings(name, row):
            row = tf.where(is_ending, tf.reshape(row, shape), nothing.get(name, 0))
            return tf.ensure_shape(row, [None] * self.features_rank)

        return {name: shape_endings(name, row) for name, row in rows.items()}

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        model = self.model
        is_choice = is_row(features["padding_mask"])  # [batch, choices]
        scores = model.scores(model({n: features[n] for n in FEATURES}, training=False))
        scores = tf.where(is_choice, scores, 0.0)
        best = tf.argmax(scores, axis=-1, output_type=tf.int32)
        return {
            "choice": tf.where(tf.reduce_any(is_choice, axis=-1), best, -1),
            "score": tf.reduce_max(scores, axis=-1),
            "scores": scores,
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class MultipleChoice(TaskModel):
    """Model for multiple choice. Predicts the probability of each ending of a prompt.

    Each prompt is encoded together with each of its endings as a text pair. The head depends on the
    architecture of the encoder. For BERT, the head is a linear layer on the pooled output.

    See `RawTextTrainer` for the inputs of `fit`, `evaluate` and `predict`. Texts are (prompt,
    endings) tuples, where `endings` is a list of two or more endings. The number of endings may
    differ between prompts. Labels are the 0-based indices of the correct endings. Features are
    int32 `[batch, choices, length]`. Choices are padded with rows whose `padding_mask` is all 0. If
    `long_texts` splits prompts into windows, features are int32 `[batch, choices, windows,
    length]`, and each window contains a part of the prompt and the whole ending.

    The loss is the mean cross-entropy over the examples of the batch.

    The network returns logits, float32 `[batch, choices]`. The logits of padding are -1e9.

    Args:
        encoder: `Encoder`. A BERT, ALBERT or RoBERTa encoder must have a pooler.
        head_dropout: dropout rate before the linear layer. Default: the dropout rate of the
            encoder.
        max_length: maximum number of tokens in a prompt with an ending. If there are more tokens,
            the longer segment is truncated. Default: 128.
        long_texts: how long prompts are handled: a `LongTexts`, or only the name of the method.
            Default: truncate.

    Source: Devlin et al., "BERT", section 4.4.

    Example:
        model = MultipleChoice.from_pretrained("path/to/model")
        model.fit([("It rains. She", ["takes an umbrella.", "swims home."])], [0], epochs=3)
        model.choose([("He is tired. He", ["dances.", "goes to bed.", "is a fish."])])  # such as [1]
    """

    head = "multiple_choice"
    signature_class = ChoiceSignatures
    network = MultipleChoiceNetwork
    settings = ("long_texts",)
    pipeline_tag = "multiple-choice"
    example_call = ".predict([('It rains.', ['Take a coat.', 'Swim.'])])"
    has_several_rows = True
    text_columns = ("prompt", "endings")
    long_part = "first"

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        head_dropout: Rate | None = None,
        max_length: int | None = None,
        long_texts: LongTexts | str | dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        check_sees_all(encoder.config)
        long_texts = LongTexts().changed(long_texts)
        head = choice_head(encoder, head_dropout)
        inputs = long_texts.inputs(groups=1)

        def pool_rows(rows):
            return encoder(with_global_mask(encoder, rows, "second", tokenizer))["pooled_output"]

        vectors = long_texts.vectors(pool_rows, merged(inputs), encoder)
        logits = head(vectors)  # [batch * choices, 1]
        # All logits are float32.
        outputs = ChoiceLogits(dtype="float32", name="choices")(logits, inputs["padding_mask"])
        super().__init__(
            encoder,
            tokenizer,
            inputs,
            outputs,
            max_length=max_length,
            long_texts=long_texts,
            name=name,
        )
        self.head_layer = head

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "head_dropout": self.head_layer.dropout.rate}

    # === Predictions ===

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: int | str = "auto",
        steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns the probability of each ending.

        Args:
            x: (prompt, endings) tuples, or features; see `MultipleChoice`.
            Other arguments: see `RawTextTrainer.predict`. The batch size is a number of examples.

        Returns:
            A list with one float32 array `[endings]` per example. If `x` contains features, an
            array `[batch, choices]`, with 0 for padding.
        """
        batch_size, steps = user_data.checked_sizes(batch_size, steps)
        kwargs |= {"batch_size": batch_size, "verbose": verbose}
        if user_data.gives_batches(x):
            batches = user_data.text_batches(x, steps)
            return joined(self.predict(texts, **kwargs) for texts in batches)
        x = from_columns(x, self.text_columns)
        if isinstance(x, (dict, tf.data.Dataset)):
            return super().predict(x, steps=steps, **kwargs)
        examples = user_data.first_batches(self.checked_texts(x), batch_size, steps)
        counts = np.array([len(endings) for _, endings in examples])
        probabilities = [None] * len(examples)
        # Keras concatenates the batches, which requires padding to the largest number of
        # endings.
        for count in np.unique(counts):
            numbers = np.flatnonzero(counts == count)
            rows = super().predict([examples[i] for i in numbers], **kwargs)
            for number, row in zip(numbers, rows):
                probabilities[number] = row
        return probabilities

    def choose(
        self, examples: Any, batch_size: int | None = None, verbose: int | str = 0
    ) -> int | list[int]:
        """Returns the 0-based index of the most likely ending of each example.

        Args:
            examples: list of (prompt, endings) tuples. For a single tuple, a single int is
                returned.
        """
        if isinstance(examples, str):
            raise InputError("examples must be (prompt, endings). Write choose((prompt, endings)).")
        if isinstance(examples, dict) and isinstance(examples.get(self.text_columns[0]), str):
            examples = tuple(examples[name] for name in self.text_columns)
        scores = self.predict(examples, batch_size=batch_size, verbose=verbose)
        check_scores(scores, "example")
        numbers = [int(row.argmax()) for row in scores]
        is_one = isinstance(examples, tuple) and isinstance(examples[0], str)
        return numbers[0] if is_one else numbers

    def scores(self, outputs: Any) -> Any:
        return ops.softmax(outputs)

    # === Tokenization ===

    def checked_texts(self, x: Any) -> list[tuple[Any, list]]:
        if isinstance(x, tuple) and len(x) == 2:
            prompt, endings = x
            if not isinstance(prompt, str):
                prompts, endings = values(prompt), values(endings)
                if len(prompts) != len(endings):
                    raise InputError(
                        f"{len(prompts)} prompts, but {len(endings)} lists of endings."
                    )
                x = list(zip(prompts, endings))
            else:
                x = [x]
        return [_check_example(example, position) for position, example in enumerate(values(x))]

    def as_example(self, text: Any) -> Any:
        if isinstance(text, tuple) and isinstance(text[1], str):
            return text[0], [text[1]]  # a pair is a prompt with one ending
        return super().as_example(text)

    def segments_of_rows(self, example: Any) -> list[tuple]:
        return [(example[0], ending) for ending in example[1]]

    label_codec = ChoiceLabels()

    def rows(
        self, texts: list, labels: Any = None, weights: Any = None
    ) -> tuple[GroupedTexts, tuple]:
        if labels is not None:
            counts = np.array([len(endings) for _, endings in texts])
            numbers = class_indices(labels)
            for position in np.flatnonzero(numbers >= counts):
                raise InputError(
                    f"example {position} has {counts[position]} endings, but its 0-based label "
                    f"is {numbers[position]}."
                )
        pairs = [[(prompt, ending) for ending in endings] for prompt, endings in texts]
        tokenized = tokenize_groups(pairs, self.tokenized)
        return tokenized, tuple(target for target in (labels, weights) if target is not None)

    def completed(
        self, batches: tf.data.Dataset, first_batch: tf.Variable | None = None
    ) -> tf.data.Dataset:
        if len(batches.element_spec) < 2 or batches.element_spec[1].shape.rank != 2:
            return batches

        @tf.autograph.experimental.do_not_convert
        def pad_labels(x, y, *weights):
            # One-hot labels are as wide as the largest number of endings in the dataset.
            y = tf.pad(y, [[0, 0], [0, self._count_choices(x)]])[:, : self._count_choices(x)]
            return x, y, *weights

        return batches.map(pad_labels, tf.data.AUTOTUNE, deterministic=True)

    def _count_choices(self, features):
        return tf.shape(features["padding_mask"])[1]

    # === Files ===

    @staticmethod
    def uses_pooler(config: EncoderConfig) -> bool:
        return choice_needs_pooler(config)

    @classmethod
    def pretrained_arguments(
        cls, source: ModelSource, config: EncoderConfig, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        return {"head_dropout": classifier_dropout(source, config), **arguments}

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        names = head_tensors(self.config, self.head)
        return tensors_to_read(source, names, 1) + self.pooling_names()

    def task_config(self) -> dict[str, Any]:
        rate = {classifier_dropout_key(self.config): self.head_layer.dropout.rate}
        return super().task_config() | rate


def _check_example(example, position):
    if not isinstance(example, (tuple, list)) or len(example) != 2:
        raise InputError(
            f"example {position} must be a (prompt, endings) tuple. Received: {example!r:.60}"
        )
    prompt, endings = example
    if not isinstance(endings, (tuple, list, np.ndarray)) or len(endings) < 2:
        raise InputError(
            f"example {position} must have a list of two or more endings. Received: {endings!r:.60}"
        )
    for text in (prompt, *endings):
        if not isinstance(text, (str, bytes)):
            raise InputError(f"example {position}: a text {not_a_text(text)}")
    return prompt, list(endings)
