"""Sentence embeddings: one vector for a text, near those of texts that mean the same."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.sentence_transformers import (
    read_sentence_settings,
    write_sentence_settings,
)
from keras_bert_impl.serving.vectors import VectorSignatures
from keras_bert_impl.tasks import embedding_losses as losses
from keras_bert_impl.tasks.embedding_network import embedding_network
from keras_bert_impl.tasks.grouped import tokenize_groups
from keras_bert_impl.tasks.inputs import from_columns, not_a_text, values
from keras_bert_impl.tasks.labels import label_values
from keras_bert_impl.tasks.long_texts import LongTextModel, check_long_texts
from keras_bert_impl.training.micro_batches import unpack
from keras_bert_impl.training.whole_batch import WholeBatchTrainer


@keras.saving.register_keras_serializable("keras_bert_impl")
class TextEmbedder(WholeBatchTrainer, LongTextModel):
    """Vectors of texts, pooled from the hidden states of the last layer or layers.

    What `fit`, `evaluate` and `predict` take is in `RawTextTrainer`, but an example is a tuple of
    texts, the same number in each, or x is a tuple of lists: the first texts, the second, ... A
    string tensor of a data set is `[batch, group]`, features are `[batch, group, length]`, where
    group counts the texts of an example.

    | loss | example | label |
    |---|---|---|
    | `"cosine"` | two texts | their cosine, from -1 to 1 |
    | `"cosent"` | two texts | a number: which pairs are nearer than which |
    | `"triplet"` | anchor, positive, negative | none |
    | `"multiple_negatives"` | anchor, positive, then any number of hard negatives | none |

    The second and the fourth compare the examples of the global batch with each other, whatever
    the devices and `accumulation_steps`; over several parts a step costs a forward pass more. With
    `"multiple_negatives"` the other examples' positives count as negatives: the same text twice in
    a batch teaches something false.

    The network returns float32 `[batch, group, dim]`. `predict` of examples returns that, of single
    texts `[texts, dim]`.

    Args:
        encoder: `Encoder`, whose pooler is not used.
        tokenizer: `Tokenizer`.
        pooling: `"cls"` (the first token), `"mean"` or `"max"` over the tokens. Default mean.
        num_layers: int. How many of the last layers to use. Default 1.
        layer_weights: list of `num_layers` floats: the layers' weighted mean is taken. None: they
            are concatenated.
        learn_layer_weights: bool. Whether these weights are trained, from 1 each if none are given.
        normalize: bool. Whether vectors are brought to length 1.
        loss: str, as in the table. Default `"cosine"`. `compile` may name another.
        scale: float. What cosines are multiplied by in `"cosent"` and `"multiple_negatives"`.
        margin: float. How much farther the negative shall be in `"triplet"`.
        max_length: int. Tokens of a row. Default 128.
        long_texts, head_tokens, doc_stride, max_windows: what becomes of texts that are longer than
            that, as of `LongTextModel`; the vector of a text is made of those of its windows before
            it is normalized. Default `"truncate"`.

    Source: Reimers and Gurevych 2019, "Sentence-BERT".

    Example:
        embedder = TextEmbedder.from_pretrained("path/to/model", loss="multiple_negatives")
        embedder.fit([("How old are you?", "What is your age?")], epochs=1)
        embedder.embed(["a text", "another"])  # float32 [2, dim]
    """

    settings = (
        "pooling",
        "num_layers",
        "layer_weights",
        "learn_layer_weights",
        "normalize",
        "loss",
        "scale",
        "margin",
        *LongTextModel.settings,
    )
    text_rank = 2
    most_columns = 8
    signature_class = VectorSignatures

    def __init__(
        self,
        encoder,
        tokenizer,
        pooling="mean",
        num_layers=1,
        layer_weights=None,
        learn_layer_weights=False,
        normalize=False,
        loss="cosine",
        scale=20.0,
        margin=5.0,
        max_length=None,
        long_texts=None,
        head_tokens=None,
        doc_stride=None,
        max_windows=None,
        name="text_embedder",
    ):
        losses.check_loss(loss)
        long_texts = check_long_texts(long_texts)
        inputs, outputs, mix = embedding_network(
            encoder, pooling, num_layers, layer_weights, learn_layer_weights, normalize, long_texts
        )
        super().__init__(
            encoder,
            tokenizer,
            inputs,
            outputs,
            max_length=max_length,
            name=name,
            long_texts=long_texts,
            head_tokens=head_tokens,
            doc_stride=doc_stride,
            max_windows=max_windows,
        )
        self.pooling = pooling
        self.num_layers = num_layers
        self.layer_mix = mix
        self.learn_layer_weights = learn_layer_weights
        self.normalize = normalize
        self.loss_name = loss  # Keras has `loss` for itself
        self.scale = scale
        self.margin = margin

    @property
    def dim(self):
        """int. Numbers in a vector."""
        return self.output_shape[-1]

    @property
    def layer_weights(self):
        """list of float, the weights of the last layers as they are now; None without any."""
        return None if self.layer_mix is None else self.layer_mix.kernel.numpy().tolist()

    def embed(self, texts, batch_size=None, verbose=0):
        """The vectors of texts.

        Args:
            texts: list, array or column of str; or one str, and the answer is its vector.
            batch_size: int, default 32.
            verbose: as for `predict`.

        Returns:
            float32 `[texts, dim]`.
        """
        examples = self.as_texts(texts)
        if examples and not isinstance(examples[0], (str, bytes)):
            raise InputError("embed() takes texts; predict() takes examples of several texts.")
        vectors = self.predict(examples, batch_size=batch_size, verbose=verbose)
        return vectors[0] if isinstance(texts, (str, bytes)) else vectors

    def similarities(self, pairs, batch_size=None, verbose=0):
        """The cosine of the two vectors of each pair of texts, float32 `[pairs]`.

        Args:
            pairs: list of (first, second), or a tuple of two lists.
        """
        vectors = self.predict(pairs, batch_size=batch_size, verbose=verbose)
        if vectors.ndim != 3 or vectors.shape[1] != 2:
            raise InputError("similarities are of pairs: give (first, second) tuples.")
        return np.asarray(losses.cosine_similarities(vectors[:, 0], vectors[:, 1]))

    # === Texts and labels ===

    def as_texts(self, x):
        """A list of str, or of tuples of str, all of one length."""
        x = from_columns(x, most=self.most_columns)
        if isinstance(x, (str, bytes)):
            x = [x]
        if isinstance(x, tuple):
            columns = [self.as_texts(column) for column in x]
            if len({len(column) for column in columns}) > 1:
                sizes = ", ".join(str(len(column)) for column in columns)
                raise InputError(f"the lists of texts differ in length: {sizes}.")
            x = list(zip(*columns))
        examples = [tuple(one) if isinstance(one, list) else one for one in values(x)]
        for number, example in enumerate(examples):
            for text in example if isinstance(example, tuple) else [example]:
                if not isinstance(text, (str, bytes)):
                    raise InputError(f"example {number}: a text {not_a_text(text)}")
            if _group(example) != _group(examples[0]):
                raise InputError(
                    f"example {number} has {_group(example)} text(s), those before it have "
                    f"{_group(examples[0])}."
                )
        return examples

    def rows(self, texts, labels=None, weights=None):
        examples = [(one,) if isinstance(one, (str, bytes)) else one for one in texts]
        tokenized = tokenize_groups(examples, self.tokenized)
        return tokenized, tuple(target for target in (labels, weights) if target is not None)

    def joined(self, outputs, texts, tokenized):
        return outputs if texts and isinstance(texts[0], tuple) else outputs[:, 0]

    def features_in_graph(self, texts):
        features = self.text_features(tf.reshape(texts, [-1]))
        group = texts.shape[1] or tf.shape(texts)[1]

        def grouped(feature):
            sizes = [size or tf.shape(feature)[axis] for axis, size in enumerate(feature.shape)]
            return tf.reshape(feature, [-1, group, *sizes[1:]])

        return {name: grouped(feature) for name, feature in features.items()}

    @property
    def needs_labels(self):
        """Whether the loss has labels."""
        return self.loss_name in losses.SCORED

    def encode_labels(self, labels, count):
        if not self.needs_labels:
            raise InputError(f"the loss {self.loss_name!r} has no labels; give examples alone.")
        labels = np.asarray(label_values(labels, count))
        if labels.dtype.kind not in "biuf" or labels.size != count or labels.shape[0] != count:
            raise InputError(
                f"labels must be a number for each of {count} examples. Received: shape "
                f"{labels.shape}, {labels.dtype}"
            )
        labels = labels.astype("float32").reshape(count)
        limit = 1 if self.loss_name == "cosine" else np.finfo("float32").max
        wrong = np.flatnonzero(~(np.abs(labels) <= limit))
        if wrong.size:
            what = "a cosine, from -1 to 1: scale it" if limit == 1 else "finite"
            raise InputError(f"example {wrong[0]}: the label {labels[wrong[0]]} must be {what}.")
        return labels

    def label_tensor(self, labels):
        if not self.needs_labels:
            raise InputError(f"the loss {self.loss_name!r} has no labels; give examples alone.")
        return tf.reshape(tf.cast(labels, tf.float32), [-1])

    # === Loss ===

    def compile(self, optimizer=None, loss=None, metrics=None, **kwargs):
        """Configures training; see `RawTextTrainer.compile`.

        Args:
            loss: str, one of the table in `TextEmbedder`. Default: that of the model.
            metrics: None or `[]`: a metric of Keras compares predictions with labels, but the
                outputs here are vectors.

        Raises:
            InputError: an unknown loss, or metrics.
        """
        if metrics or kwargs.get("weighted_metrics"):
            raise InputError(
                "a TextEmbedder takes no metrics in compile: write "
                "keras_bert_impl.evaluate(embedder, examples) for its scores."
            )
        if loss is not None:
            losses.check_loss(loss)
            self.loss_name = loss
        super().compile(optimizer, **kwargs)

    def default_loss(self):
        return None

    def default_metrics(self):
        return []

    @property
    def compares_examples(self):
        """Whether the loss is one of the whole batch."""
        return losses.compares_examples(self.loss_name)

    def train_step(self, data):
        """As of `ReplicatedTrainer`."""
        self._check_group(data)
        return super().train_step(data)

    def test_step(self, data):
        """As of `ReplicatedTrainer`."""
        self._check_group(data)
        return super().test_step(data)

    def _check_group(self, data):
        x, _, _ = unpack(data)
        losses.check_group(self.loss_name, x["token_ids"].shape[1])

    def batch_loss(self, y, y_pred):
        if self.loss_name == "cosent":
            return losses.cosent_loss(y_pred, y, self.scale)
        return losses.multiple_negatives_loss(y_pred, self.scale)

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        if self.compares_examples:
            return super().loss_share(x, y, y_pred, sample_weight, totals)
        if self.loss_name == "cosine":
            of_examples = losses.cosine_losses(y_pred, tf.reshape(y, [-1]))
        else:
            of_examples = losses.triplet_losses(y_pred, self.margin)
        if sample_weight is not None:
            of_examples *= tf.cast(tf.reshape(sample_weight, [-1]), tf.float32)
        return tf.reduce_sum(of_examples) / totals

    # === Files ===

    def _own_settings(self):
        return {
            **{name: getattr(self, name) for name in ("max_length", *self.settings)},
            "loss": self.loss_name,
        }

    @classmethod
    def saved_settings(cls, source, given):
        return super().saved_settings(source, given) | read_sentence_settings(source.task_path)

    def task_config(self):
        # Where `sentence-transformers` gets all layers from.
        return {} if self.layer_mix is None else {"output_hidden_states": True}

    def save_more(self, directory):
        write_sentence_settings(
            directory,
            self.pooling,
            self.normalize,
            self.num_layers,
            self.layer_weights,
            self.max_length,
            depth=self.config.num_layers,
            hidden_dim=self.config.hidden_dim,
        )


def _group(example):
    return 1 if isinstance(example, (str, bytes)) else len(example)
