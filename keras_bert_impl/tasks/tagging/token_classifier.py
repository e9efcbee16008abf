"""`TokenClassifier`: word labels such as entities and parts of speech."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.interop import classifier_dropout, has_head, head_tensors
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.heads import token_head
from keras_bert_impl.settings import check
from keras_bert_impl.tasks.data.labels import label_names, tensors_to_read, with_labels
from keras_bert_impl.tasks.inputs.feature_rows import task_inputs
from keras_bert_impl.tasks.inputs.windows import tokenize_windows
from keras_bert_impl.tasks.tagging.network import TokenClassifierNetwork
from keras_bert_impl.tasks.tagging.word_scores import token_targets, word_scores
from keras_bert_impl.tasks.tagging.word_tagger import CRF_TENSORS, WordTagger

AGGREGATIONS = ("first", "mean", "max")


@keras.saving.register_keras_serializable("keras_bert_impl")
class TokenClassifier(WordTagger):
    """Token classifier: a linear layer on each token, fine-tuned on labeled words.

    `fit`, `evaluate` and `predict` take either

    - texts as lists of words, or as str that `words.find_words` splits, and for each text a list
      with one label per word: names, or numbers, of which negative ones mean no label; or
    - features, as a dict or in a `tf.data.Dataset`, with labels int32 `[batch, length]`, one per
      token, negative for none.

    Labels are trained and predicted at the first subword of each word. Texts longer than
    `max_length` are split into overlapping windows; each word is trained and predicted only in the
    window where it has the most context, so it counts once. The loss is the mean over the labeled
    tokens of the global batch. A word without subwords, such as only control characters, is
    predicted as `"O"`, or as the first label if there is no `"O"`.

    The network returns logits, float32 `[batch, length, num_classes]`. For features, `predict`
    returns probabilities `[rows, max_length, num_classes]`, padded with 0.

    `crf` adds a conditional random field over the first subwords of the words; the loss is then the
    negative log likelihood of the labels, per word. In training, a sequence is the words assigned
    to one window, so no transition is learned across windows; predictions are for the sequence of
    all words of a text. Checkpoints store its scores as `crf.transitions`, `crf.start` and
    `crf.end`, which `transformers` ignores. For features, `predict` then returns the logits. CRF
    weights are initialized to 0 and have a separate learning rate, `crf_rate` of `TuningSettings`.

    Args:
        encoder: `Encoder`.
        tokenizer: `Tokenizer`.
        num_classes: int. Number of labels.
        labels: list of str. Label names, instead of `num_classes`.
        head_dropout: float. Dropout rate before the linear layer. Default: the encoder's.
        max_length: int. Window length in tokens, special tokens included. Default 128.
        doc_stride: int. Tokens between the starts of consecutive windows. Default: half of
            `max_length`.
        label_all_pieces: bool. Whether to train all subwords of a word with its label.
        aggregation: str. How the scores of a word's subwords are combined: `"first"`, those of the
            first subword; `"mean"`, the mean of the probabilities; `"max"`, those of the subword
            with the highest probability. Default `"first"`.
        crf: bool. Whether to add a conditional random field.

    Source: Devlin et al., "BERT", section 5.3.

    Example:
        tagger = TokenClassifier.from_pretrained("path/to/model", labels=["O", "B-PER", "I-PER"])
        tagger.fit([["Ada", "Lovelace", "wrote"]], [["B-PER", "I-PER", "O"]], epochs=3)
        tagger.tag([["Ada", "wrote"]])  # such as [["B-PER", "O"]]
        tagger.entities(["Ada wrote."])  # such as [[Entity("PER", "Ada", 0, 3, 0.9)]]
    """

    head = "token_classifier"
    network = TokenClassifierNetwork
    settings = ("doc_stride", "label_all_pieces", "aggregation", "crf")

    def __init__(
        self,
        encoder,
        tokenizer,
        num_classes=None,
        labels=None,
        head_dropout=None,
        max_length=None,
        doc_stride=None,
        label_all_pieces=None,
        aggregation=None,
        crf=None,
        name="token_classifier_model",
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
        self.label_all_pieces = bool(check("label_all_pieces", label_all_pieces, bool | None))
        self.aggregation = aggregation or "first"
        self._check()

    @staticmethod
    def token_vectors(encoder, inputs):
        """Returns the vectors to classify, `[batch, length, dim]`; subclasses may add layers."""
        return encoder(inputs)["sequence_output"]

    def _check(self):
        if self.aggregation not in AGGREGATIONS:
            raise InputError(
                f"aggregation must be one of {', '.join(AGGREGATIONS)}. "
                f"Received: aggregation={self.aggregation!r}"
            )
        if self.crf and (self.label_all_pieces or self.aggregation != "first"):
            raise InputError(
                "a CRF is over the first pieces of words: label_all_pieces must be off and "
                "aggregation 'first'."
            )

    # === From words to rows, and back ===

    def rows(self, texts, labels=None, weights=None):
        tokenized = tokenize_windows(
            [words.text for words in texts],
            self.tokenizer,
            self.max_length,
            self.doc_stride,
            widths=self.widths(),
        )
        if labels is None:
            return tokenized, ()
        self.check_lengths(texts, labels)
        weights = np.ones(len(texts), "float32") if weights is None else weights
        targets = token_targets(labels, weights, texts, tokenized, self.label_all_pieces)
        splits = tokenized.row_splits
        return tokenized, tuple(tf.RaggedTensor.from_row_splits(t, splits) for t in targets)

    def joined(self, outputs, texts, tokenized):
        return word_scores(outputs, texts, tokenized, self.aggregation, self.unknown_label)

    def scores(self, outputs):
        scores = outputs if self.crf else ops.softmax(outputs)
        # Padded to max_length so that batches of different lengths can be concatenated.
        length = outputs.shape[1] or ops.shape(outputs)[1]
        return ops.pad(scores, [[0, 0], [0, self.max_length - length], [0, 0]])

    # === Files ===

    @classmethod
    def pretrained_arguments(cls, source, config, arguments):
        with_head = has_head(source, config, cls.head)
        last = head_tensors(config, cls.head)[-1].tensor if with_head else None
        arguments = with_labels(source, arguments, last, "an encoder without a token classifier")
        arguments.setdefault("head_dropout", classifier_dropout(source, config))
        return arguments

    def head_names(self):
        names = head_tensors(self.config, self.head)
        return names + CRF_TENSORS if self.crf else names

    def pretrained_head(self, source):
        names = head_tensors(self.config, self.head)
        return self.head_names() if tensors_to_read(source, names, self.num_classes) else []
