"""`TokenClassifier`: word labels such as entities and parts of speech."""

from typing import Annotated, Any

import keras
import numpy as np
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import has_head, head_tensors
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.batches.windows import TokenizedWindows
from keras_bert_impl.data.batches.words import Words
from keras_bert_impl.data.tables.labels import class_indices, label_names
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import token_head, with_global_mask
from keras_bert_impl.tasks.base.explaining import TargetScore, label_number, log_odds
from keras_bert_impl.tasks.base.feature_rows import task_inputs
from keras_bert_impl.tasks.tagging.signature import TokenClassifierNetwork
from keras_bert_impl.tasks.tagging.word_scores import (
    WordScores,
    ragged_targets,
    token_targets,
    word_scores,
)
from keras_bert_impl.tasks.tagging.word_tagger import WordTagger
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, PositiveInt, Rate, check

AGGREGATIONS = ("first", "mean", "max")


@keras.saving.register_keras_serializable("keras_bert_impl")
class TokenClassifier(WordTagger):
    """Token classifier: predicts a label for each word with a linear layer on the encoder.

    The inputs of `fit`, `evaluate` and `predict` are texts or features:

    - Texts are lists of words or str. A str is split by `words.find_words`. Each text has a list of
      labels with a label name or a class index for each word. A negative class index means that the
      word has no label.
    - Features are a dict or a `tf.data.Dataset`. Labels are int32 `[batch, length]`, negative for
      tokens without a label.

    By default, the label of a word is trained and predicted on the first subword. Texts longer than
    `max_length` are split into overlapping windows. If a word is in several windows, the window
    with the most context is used. The loss is the mean over all labeled tokens of a batch. For
    words without subwords, such as control characters, the model predicts `"O"`, or the first label
    if there is no `"O"`.

    The network returns logits, float32 `[batch, length, num_classes]`. If the inputs are features,
    `predict` returns probabilities `[rows, max_length, num_classes]`, with 0 for padding.

    If `crf` is True, a conditional random field (CRF) over the first subwords of the words is
    added. The loss is the negative log-likelihood of the labels, per word. In training, the
    CRF is applied to each window, so transitions between windows are not learned. In prediction,
    the CRF is applied to all words of a text. If the inputs are features, `predict` returns logits
    instead of probabilities. The CRF weights are initialized to 0 and have a separate learning
    rate, `TuningSettings.crf_rate`. In checkpoints, the CRF weights are named `crf.transitions`,
    `crf.start` and `crf.end`. `transformers` ignores these weights.

    Args:
        encoder, tokenizer: see `TaskModel`.
        max_length: window length in tokens, see `TaskModel`.
        num_classes: number of labels.
        labels: label names. Replaces `num_classes`.
        head_dropout: dropout rate before the linear layer. Default: the dropout rate of the
            encoder.
        doc_stride: tokens between the starts of consecutive windows. Default: half of `max_length`.
        label_all_tokens: whether to train all subwords of a word with the label of the word.
            Default: False, which trains only the first subword.
        aggregation: how the predictions for the subwords of a word are combined. `"first"` (the
            default) uses the first subword, `"mean"` uses the mean of the probabilities, and
            `"max"` uses the subword with the highest probability.
        crf: whether to add a conditional random field (CRF). Default: False.

    Source: Devlin et al., "BERT", section 5.3.

    Example:
        tagger = TokenClassifier.from_pretrained("path/to/model", labels=["O", "B-PER", "I-PER"])
        tagger.fit([["Ada", "Lovelace", "wrote"]], [["B-PER", "I-PER", "O"]], epochs=3)
        tagger.tag([["Ada", "wrote"]])  # such as [["B-PER", "O"]]
        tagger.entities(["Ada wrote."])  # such as [[Entity("PER", "Ada", 0, 3, 0.9)]]
    """

    head = "token_classifier"
    network = TokenClassifierNetwork
    has_class_logits = True
    has_attribution = True
    settings = ("doc_stride", "label_all_tokens", "aggregation", "crf")

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        num_classes: int | None = None,
        labels: list[str] | None = None,
        head_dropout: Rate | None = None,
        max_length: int | None = None,
        doc_stride: PositiveInt | None = None,
        label_all_tokens: bool | None = None,
        aggregation: str | None = None,
        crf: bool | None = None,
        name: str | None = None,
    ):
        labels = label_names(num_classes, labels)
        head = token_head(encoder, len(labels), head_dropout)
        inputs = task_inputs()
        outputs = head(self.token_vectors(encoder, inputs))  # [batch, length, num_classes]
        super().__init__(
            encoder,
            tokenizer,
            inputs,
            outputs,
            head_layer=head,
            labels=labels,
            doc_stride=doc_stride,
            crf=crf,
            max_length=max_length,
            name=name,
        )
        self.label_all_tokens = bool(check("label_all_tokens", label_all_tokens, bool | None))
        self.aggregation = aggregation or "first"
        check("aggregation", self.aggregation, Annotated[str, OneOf(*AGGREGATIONS)])
        if self.crf and (self.label_all_tokens or self.aggregation != "first"):
            raise InputError(
                "crf uses the first subword of each word: it requires label_all_tokens=False and "
                "aggregation='first'."
            )

    @staticmethod
    def token_vectors(encoder: Encoder, inputs: dict[str, Any]) -> Any:
        """Returns the vectors of the tokens, the input of the head, `[batch, length, dim]`."""
        return encoder(with_global_mask(encoder, inputs, None))["sequence_output"]

    # === Conversion between words and rows ===

    def rows(
        self,
        texts: list[Words],
        labels: list[np.ndarray] | None = None,
        weights: np.ndarray | None = None,
    ) -> tuple[TokenizedWindows, tuple]:
        tokenized = self.windows(texts)
        if labels is None:
            return tokenized, ()
        self.check_lengths(texts, labels)
        weights = np.ones(len(texts), "float32") if weights is None else weights
        numbers = [class_indices(row) for row in labels]
        targets = token_targets(numbers, weights, texts, tokenized, self.label_all_tokens)
        return tokenized, ragged_targets(labels, *targets, tokenized.row_splits, self.num_classes)

    def joined(
        self, outputs: np.ndarray, texts: list[Words], tokenized: TokenizedWindows
    ) -> list[WordScores]:
        return word_scores(outputs, texts, tokenized, self.aggregation, self.unknown_label)

    def scores(self, outputs: Any) -> Any:
        scores = outputs if self.crf else ops.softmax(outputs)
        # Keras concatenates the batches, so all are padded to max_length.
        length = outputs.shape[1] or ops.shape(outputs)[1]
        return ops.pad(scores, [[0, 0], [0, self.max_length - length], [0, 0]])

    def attribution_target(self, row: Any, outputs: Any, target: Any) -> tuple[str, TargetScore]:
        word, label = target if isinstance(target, tuple) else (target, None)
        firsts = [int(np.argmax(row.word_of == number)) for number in range(len(row.words))]
        scores = ops.convert_to_numpy(ops.softmax(outputs[0]))[firsts]  # [words, labels]
        if word is None:  # select the most likely word of an entity
            marked = scores.copy()
            marked[:, self.unknown_label] = -1
            place = int(marked.max(axis=1).argmax())
        elif word in row.numbers:
            place = row.numbers.index(word)
        else:
            raise InputError(
                "target must be the 0-based index of a word, or a tuple (index, label). The word "
                f"must be within max_length. Received: target={target!r:.60}"
            )
        number = label_number(self.labels, label)
        number = int(scores[place].argmax()) if number is None else number
        name = f"{row.words[place].text}/{self.labels[number]}"
        return name, lambda logits: log_odds(logits[:, firsts[place]], number)

    # === Files ===

    @classmethod
    def last_tensor(cls, source: ModelSource, config: EncoderConfig) -> str | None:
        with_head = has_head(source, config, cls.head)
        return head_tensors(config, cls.head)[-1].tensor if with_head else None

    def classifier_names(self) -> list[TensorName]:
        return head_tensors(self.config, self.head)

    def only_here(self) -> list[str]:
        is_new = self.config.causal and self.config.architecture == "modernbert"
        return (["taggers on a causal ModernBERT"] if is_new else []) + super().only_here()
