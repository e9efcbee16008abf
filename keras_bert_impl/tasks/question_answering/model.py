"""`QuestionAnswerer`: extractive question answering."""

import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.data.batches.blocks import in_blocks
from keras_bert_impl.data.batches.windows import TokenizedWindows, tokenize_windows
from keras_bert_impl.data.questions import check_answer
from keras_bert_impl.data.scores.squad import ExactMatch, SpanF1
from keras_bert_impl.data.tables.label_codec import LabelCodec
from keras_bert_impl.data.tables.user_input import is_one_text, values
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import span_head, with_global_mask
from keras_bert_impl.tasks.base.explaining import TargetScore
from keras_bert_impl.tasks.base.feature_rows import is_symbolic, task_inputs
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.base.user_data import completed_features
from keras_bert_impl.tasks.question_answering import MAX_LENGTH
from keras_bert_impl.tasks.question_answering.decode import Answer, best_answer, n_best_answers
from keras_bert_impl.tasks.question_answering.signature import (
    AnswerSignatures,
    QuestionAnswererNetwork,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.internals import knows_building
from keras_bert_impl.utils.settings import PositiveInt, Rate, check

_NO_LOGIT = -1e9  # results in probability 0; with -inf, padding rows would be NaN
# Networks with the same layers and one output tensor.
_NETWORKS: weakref.WeakKeyDictionary[Any, keras.Model] = weakref.WeakKeyDictionary()


@knows_building
@keras.saving.register_keras_serializable("keras_bert_impl")
class QuestionAnswerer(TaskModel):
    """Model for extractive question answering, with a start logit and an end logit for each token.

    The head is a linear layer on the last hidden states. In ModernBERT and BigBird, other layers
    come before the linear layer: a transform and a feed-forward network, respectively.

    Long contexts are split into overlapping windows.

    See `RawTextTrainer` for the inputs of `fit`, `evaluate` and `predict`. Texts are
    (question, context) tuples. Labels:

    - for texts: one answer per pair, a tuple (text, start), where start is a character offset in
      the context. None or [] means no answer. Lists of answers and dicts `{"text": [...],
      "answer_start": [...]}` are also accepted, and their first answer is used;
    - for features: int `[rows, 2]`, the positions of the first and the last token of the answer.

    The loss of a window is the mean of the start and end cross-entropies. If a window does not
    contain the whole answer, the `[CLS]` token is the target for start and end. The softmax
    excludes padding.

    Called on features, the model returns a dict of `start_logits` and `end_logits`, float32
    `[batch, length]`. `predict` returns a list of `Answer`s for each pair, best first. If the
    inputs are features, `predict` returns logits `[rows, 2, max_length]`, with 0 for padding.

    Args:
        encoder: `Encoder`; its pooler is not used.
        max_length: window length in tokens. Default 384, or the encoder's maximum if lower.
        doc_stride: tokens between the starts of consecutive windows. In `transformers`, `stride` is
            the overlap of two windows instead.
        max_question_length: questions are truncated to this number of tokens.
        max_answer_length: maximum answer length in tokens.
        num_best: maximum number of answers that `predict` returns per question.
        null_threshold: the answer "" (no answer) is predicted if its score minus the score of the
            best other answer is above this value. Default: "" is never predicted, as in SQuAD 1.1.
        head_dropout: dropout rate before the linear layer. Default: 0.1 for DistilBERT and BigBird,
            0 for other architectures, as published.

    Source: Devlin et al., "BERT", sections 4.2 and 4.3, and `run_squad.py` in the published code.

    Example:
        model = QuestionAnswerer.from_pretrained("path/to/model")
        model.fit([("Who came?", "Ann came.")], [("Ann", 0)], epochs=3)
        model.answer([("Who left?", "Bob left.")])  # such as ["Bob"]
    """

    head = "question_answerer"
    signature_class = AnswerSignatures
    network = QuestionAnswererNetwork
    has_attribution = True
    pipeline_tag = "question-answering"
    example_call = ".answer([('Who left?', 'Bob left.')])"
    has_several_rows = True
    text_columns = ("question", "context")
    splits_texts = True
    settings = (
        "doc_stride",
        "max_question_length",
        "max_answer_length",
        "num_best",
        "null_threshold",
        "head_dropout",
    )

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        doc_stride: PositiveInt = 128,
        max_question_length: PositiveInt = 64,
        max_answer_length: PositiveInt = 30,
        num_best: PositiveInt = 20,
        null_threshold: float | None = None,
        head_dropout: Rate | None = None,
        name: str | None = None,
    ) -> None:
        if head_dropout is None:
            head_dropout = 0.1 if encoder.config.architecture in ("distilbert", "big_bird") else 0.0
        head = span_head(encoder, head_dropout)
        inputs = task_inputs()
        rows = with_global_mask(encoder, inputs, "first", tokenizer)
        logits = head(encoder(rows)["sequence_output"])  # [batch, length, 2]
        outputs = keras.layers.Permute((2, 1), dtype="float32", name="logits")(logits)
        max_length = (
            min(MAX_LENGTH, encoder.config.max_length) if max_length is None else max_length
        )
        super().__init__(encoder, tokenizer, inputs, outputs, max_length=max_length, name=name)
        self.doc_stride = doc_stride
        self.max_question_length = max_question_length
        self.max_answer_length = max_answer_length
        self.num_best = num_best
        self.null_threshold = null_threshold
        self.head_dropout = head_dropout
        self._check_settings()

    def _check_settings(self):
        for name in ("doc_stride", "max_question_length", "max_answer_length", "num_best"):
            setattr(self, name, check(name, getattr(self, name), PositiveInt))
        room = self.max_length - self.max_question_length - 2 - self.tokenizer.num_separators
        if room < 1:
            raise InputError(
                f"max_length={self.max_length} leaves no room for a context after questions of "
                f"max_question_length={self.max_question_length} tokens."
            )
        self.null_threshold = check("null_threshold", self.null_threshold, float | None)

    @known_arguments("QuestionAnswerer.answer")
    def answer(
        self, pairs: Any, batch_size: int | None = None, verbose: int | str = 0
    ) -> str | list[str]:
        """Returns the text of the best answer to each question.

        The text is "" if the model predicts that there is no answer; see `null_threshold`.

        Args:
            pairs: list of (question, context) tuples. For a single tuple, a single str is returned.
        """

        def select_answers(pairs):
            predictions = self.predict(pairs, batch_size=batch_size, verbose=verbose)
            return [best_answer(answers, self.null_threshold).text for answers in predictions]

        texts = in_blocks(select_answers, self.as_texts(pairs))
        return texts[0] if is_one_text(pairs) else texts

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns a dict of logits. `inputs` are features or (question, context) pairs."""
        logits = self.logits(inputs, *args, **kwargs)
        if self.is_building:  # Keras calls metrics with one tensor to build them
            return logits
        return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}

    def logits(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the logits as one tensor, float32 `[batch, 2, length]`."""
        if not self.is_building and isinstance(inputs, dict) and is_symbolic(inputs):
            # Functional models need one tensor, but this model returns a dict.
            if self not in _NETWORKS:
                _NETWORKS[self] = keras.Model(self.input, self.output, name=self.name)
            return _NETWORKS[self](completed_features(self, inputs), *args, **kwargs)
        return super().__call__(inputs, *args, **kwargs)

    def attribution_target(self, row: Any, outputs: Any, target: Any) -> tuple[str, TargetScore]:
        if target is not None:
            raise InputError(
                "QuestionAnswerer does not support the argument target. Remove target=..."
            )
        is_context = [word >= 0 and row.words[word].segment == 1 for word in row.word_of]
        positions = np.flatnonzero(is_context)
        if not len(positions):
            raise InputError("the context has no words.")
        logits = (outputs[name] for name in ("start_logits", "end_logits"))
        starts, ends = (ops.convert_to_numpy(each)[0, positions] for each in logits)
        sums = starts[:, None] + ends[None]
        distance = np.arange(len(positions))[None] - np.arange(len(positions))[:, None]
        sums[(distance < 0) | (distance >= self.max_answer_length)] = -np.inf
        start, end = (
            positions[position] for position in np.unravel_index(sums.argmax(), sums.shape)
        )
        answer = row.words[row.word_of[start] : row.word_of[end] + 1]
        name = " ".join(word.text for word in answer)
        return name, lambda output: output["start_logits"][:, start] + output["end_logits"][:, end]

    # === Tokenization ===

    def checked_texts(self, x: Any) -> list[tuple[str, str]]:
        pairs = super().checked_texts(x)
        for position, pair in enumerate(pairs):
            if not isinstance(pair, tuple):
                raise InputError(
                    f"text {position} must be a (question, context) tuple. Write [(question, context)]. "
                    f"Received: {pair!r:.60}"
                )
        return [tuple(map(_decode_text, pair)) for pair in pairs]

    @property
    def label_codec(self) -> LabelCodec:
        return AnswerLabels(takes_none=self.null_threshold is not None)

    def rows(
        self, texts: list, labels: Any = None, weights: Any = None
    ) -> tuple[TokenizedWindows, tuple]:
        windows = tokenize_windows(
            texts,
            self.tokenizer,
            self.max_length,
            self.doc_stride,
            self.max_question_length,
            self.widths(),
        )
        targets: tuple = ()
        if labels is not None:
            characters = _locate_answers(texts, labels)
            targets = (answer_tokens(windows, characters),)
        if weights is not None:
            targets += (weights[windows.texts],)
        return windows, targets

    # === Predictions ===

    def _forward(self, x, training):
        return self.logits(x, training=training)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        y_pred = _mask_padding(x, y_pred)
        if sample_weight is not None:  # start and end have the same weight
            sample_weight = ops.repeat(ops.reshape(sample_weight, (-1, 1)), 2, axis=1)
        return super().loss_share(x, y, y_pred, sample_weight, totals)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        return super().compute_metrics(x, y, _mask_padding(x, y_pred), sample_weight)

    def scores(self, outputs: Any) -> Any:
        if isinstance(outputs, dict):
            outputs = ops.stack([outputs["start_logits"], outputs["end_logits"]], axis=1)
        length = outputs.shape[-1]
        if length is None:
            padding = ops.maximum(self.max_length - ops.shape(outputs)[-1], 0)
        else:
            padding = max(self.max_length - length, 0)
        return ops.pad(outputs, [[0, 0], [0, 0], [0, padding]])

    def joined(self, outputs: Any, texts: list, tokenized: TokenizedWindows) -> list[list[Answer]]:
        return n_best_answers(
            outputs,
            tokenized,
            [context for _, context in texts],
            self.num_best,
            self.max_answer_length,
            with_null=self.null_threshold is not None,
        )

    def named_metrics(self) -> dict[str, Callable[[], Any]]:
        return {"exact_match": ExactMatch, "f1": SpanF1}


class AnswerLabels(LabelCodec):
    """Converts labels: (text, start) tuples or None for texts, int `[rows, 2]` for features."""

    def __init__(self, takes_none: bool) -> None:
        self.takes_none = takes_none

    def encode(self, labels: Any, count: int) -> list | np.ndarray:
        are_positions = isinstance(labels, np.ndarray) or tf.is_tensor(labels)
        labels = labels if are_positions else values(labels)
        if len(labels) != count:
            raise InputError(f"{count} rows or texts, but {len(labels)} labels.")
        if not are_positions:
            return [self._convert_label(label, position) for position, label in enumerate(labels)]
        labels = np.asarray(labels)
        if labels.shape != (count, 2) or labels.dtype.kind not in "iu" or (labels < 0).any():
            raise InputError(
                "answer positions must be non-negative integers [rows, 2]. Received: shape "
                f"{labels.shape}, {labels.dtype}"
            )
        return labels.astype("int32")

    def tensor(self, labels: Any) -> Any:
        return labels

    def _convert_label(self, label, position):
        if isinstance(label, dict) and isinstance(label.get("text"), list):
            label = list(zip(label["text"], label.get("answer_start", [])))  # flat SQuAD rows
        if isinstance(label, list):
            label = label[0] if label else None
        if label is None:
            if not self.takes_none:
                raise InputError(
                    f"question {position} has no answer. Create the model with null_threshold=0.0, "
                    "to allow questions without an answer."
                )
            return None
        is_answer = isinstance(label, tuple) and len(label) == 2 and isinstance(label[0], str)
        if not is_answer or not isinstance(label[1], (int, np.integer)):
            raise InputError(
                f"the label of question {position} must be a (text, start) tuple, a list of such "
                f"tuples, or None. Received: {label!r:.60}"
            )
        return label


def _mask_padding(x, logits):
    """Masks the logits of padding."""
    is_token = ops.not_equal(x["padding_mask"], 0)[:, None, :]
    return ops.where(is_token, logits, _NO_LOGIT)


def _decode_text(text):
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _locate_answers(pairs, labels):
    """Returns the start and end of each answer, int64 [questions, 2]; -1 if there is no answer."""
    if isinstance(labels, np.ndarray):
        raise InputError("labels of texts must be (text, start) answers, not token positions.")
    spans = np.full((len(labels), 2), -1)
    for number, ((_, context), label) in enumerate(zip(pairs, labels)):
        if label is not None:
            text, start = label
            try:
                check_answer(text, start, context)
            except InputError as error:
                raise InputError(f"question {number}: {error}") from error
            spans[number] = start, start + len(text)
    return spans


def answer_tokens(windows: TokenizedWindows, characters: np.ndarray) -> np.ndarray:
    """Returns the positions of the first and last token of the answer in each window.

    Args:
        characters: int64 [questions, 2], start and end of the answer in the context; -1 if there is
            no answer.

    Returns:
        int32 [rows, 2]. If a window does not contain the whole answer, both positions are 0, the
        position of `[CLS]`.
    """
    spans = np.full(characters.shape, -1)  # [questions, 2], token numbers
    for number in np.flatnonzero(characters[:, 0] >= 0):
        token_range = slice(*windows.text_splits[number : number + 2])
        start, end = characters[number]
        spans[number, 0] = np.searchsorted(windows.token_ends[token_range], start, side="right")
        spans[number, 1] = np.searchsorted(windows.token_starts[token_range], end) - 1
    rows, columns = windows.columns()
    is_context = windows.tokens >= 0
    rows, columns, tokens = rows[is_context], columns[is_context], windows.tokens[is_context]
    positions = np.zeros((windows.num_texts, 2), "int32")
    for side in range(2):
        is_wanted = tokens == spans[windows.texts[rows], side]
        positions[rows[is_wanted], side] = columns[is_wanted]
    # Position 0 is `[CLS]`, not a token of the context.
    is_whole = (positions > 0).all(axis=1) & (positions[:, 0] <= positions[:, 1])
    return np.where(is_whole[:, None], positions, 0)
