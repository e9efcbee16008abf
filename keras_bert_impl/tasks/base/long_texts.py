"""Task models for texts longer than a row."""

from keras_bert_impl.interop.layouts.names import dense, kernel, optional
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers import PoolWindows
from keras_bert_impl.settings import PositiveInt, check
from keras_bert_impl.tasks.base.options import LONG_TEXTS, OF_WINDOWS
from keras_bert_impl.tasks.base.task_model import TaskModel, task_inputs
from keras_bert_impl.tasks.inputs import batching, text_windows
from keras_bert_impl.tasks.inputs.grouped import merged

# The values of `long_texts` for which a setting is valid.
_WAYS = {"head_tokens": ("head_tail",), "doc_stride": OF_WINDOWS, "max_windows": OF_WINDOWS}
_ATTENTION_TENSORS = optional(
    dense("pool_windows/dense", "window_attention.dense")
    + [kernel("pool_windows/score", "window_attention.score")]
)


class LongTextModel(TaskModel):
    """Task model that computes one vector per text, including texts longer than a row.

    `long_texts` decides how texts of more than `max_length` tokens are handled:

    - `"truncate"`: they are truncated;
    - `"head_tail"`: their middle is left out;
    - `"mean"`, `"max"`, `"attention"`: they are split into windows that start `doc_stride` tokens
      apart. The vector of a text is the mean of its windows' vectors, their elementwise maximum,
      or a mean with learned weights. All windows of a text belong to one example, features have
      one more dimension, `[..., windows, length]`, and each example has one loss. For texts of one
      window, the model is the same as with `"truncate"`. `transformers` loads the saved model
      without the pooling, as a model of single windows.

    For a pair, `"head_tail"` and windows apply to `long_part`, and the other text is truncated to
    half of the row.

    Args:
        encoder, tokenizer, inputs, outputs, max_length, name: see `TaskModel`.
        long_texts: str. See above; checked by `check_long_texts`.
        head_tokens: int. For `"head_tail"`: number of tokens kept from the beginning of a long
            text; the others are from its end. Default: 128 of 510, or the same share.
        doc_stride: int. For windows, in tokens. Default: half of `max_length`.
        max_windows: int. Maximum number of windows per text, which limits memory; the rest of the
            text is left out. Default 8.

    Attributes:
        long_part: `"first"` or `"second"`, a class attribute: the text of a pair that may be long.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.
    """

    settings = ("long_texts", *_WAYS)
    long_part = "second"

    def __init__(
        self, *args, long_texts, head_tokens=None, doc_stride=None, max_windows=None, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.long_texts = long_texts
        self.head_tokens = head_tokens
        self.doc_stride = doc_stride
        self.max_windows = max_windows
        for name in _WAYS:
            self._check(name)

    def _check(self, name):
        value = getattr(self, name)
        if value is None:
            return
        setattr(self, name, check(name, value, PositiveInt))
        if self.long_texts not in _WAYS[name]:
            raise InputError(
                f"{name} is a setting of long_texts={', '.join(_WAYS[name])}. "
                f"Received: long_texts={self.long_texts!r}, {name}={value}"
            )

    @property
    def has_windows(self):
        """bool. Whether long texts are split into windows."""
        return self.long_texts in OF_WINDOWS

    # === From texts to rows ===

    def pack(self, texts):
        if self.long_texts == "head_tail":
            return text_windows.pack_head_and_tail(
                self.tokenizer, texts, self.max_length, self.head_tokens, self.long_part
            )
        return super().pack(texts)

    def tokenized(self, texts):
        """Tokenizes texts or pairs to `TokenizedTexts`, or to `GroupedTexts` with windows."""
        if self.has_windows:
            return text_windows.tokenize_documents(texts, **self._window_settings())
        return batching.tokenize_texts(
            texts, self.tokenizer, self.max_length, self.widths(), self.pack
        )

    def rows(self, texts, labels=None, weights=None):
        targets = tuple(target for target in (labels, weights) if target is not None)
        return self.tokenized(texts), targets

    def text_features(self, texts):
        """Computes the features of a batch of texts, in any graph.

        Args:
            texts: string tensor `[batch]`, or a tuple of two for pairs.

        Returns:
            dict of int32 `[batch, length]`, or with windows `[batch, windows, length]`.
        """
        if self.has_windows:
            return text_windows.window_features(texts, **self._window_settings())
        return super().features_in_graph(texts)

    def features_in_graph(self, texts):
        return self.text_features(texts)

    def _window_settings(self):
        return {
            "tokenizer": self.tokenizer,
            "max_length": self.max_length,
            "stride": self.doc_stride or self.max_length // 2,
            "max_windows": self.max_windows or 8,
            "long_part": self.long_part,
            "widths": self.widths(),
            "window_counts": self._window_counts(),
        }

    def _window_counts(self):
        """Returns the window counts that batches are padded to, like `widths` for tokens."""
        most = self.max_windows or 8
        if len(self.widths()) == 1:
            return [most]
        if self.compiled and self.jit_compile:
            return batching.doublings(most, first=1)
        return [*range(1, most + 1)]

    # === Files ===

    @classmethod
    def saved_settings(cls, source, given):
        # Settings kept for one value of `long_texts` do not apply to another.
        kept = super().saved_settings(source, given)
        way = given.get("long_texts") or kept.get("long_texts")
        return {name: kept[name] for name in kept if way in _WAYS.get(name, [way])}

    def head_names(self):
        return super().head_names() + self.pooling_names()

    def pooling_names(self):
        """List of `TensorName` of the layer that pools windows."""
        return _ATTENTION_TENSORS if self.long_texts == "attention" else []


def check_long_texts(long_texts):
    """Checks the setting that a user gave; returns `"truncate"` for None.

    Raises:
        InputError: the value is not one of `LONG_TEXTS`.
    """
    if long_texts is not None and long_texts not in LONG_TEXTS:
        raise InputError(
            f"long_texts must be one of {', '.join(LONG_TEXTS)}. "
            f"Received: long_texts={long_texts!r}"
        )
    return long_texts or "truncate"


def text_inputs(long_texts, groups=0):
    """Same as `task_inputs`, with dimensions for groups and windows before the length."""
    return task_inputs(rank=2 + groups + (long_texts in OF_WINDOWS))


def vectors_of_texts(vectors_of_rows, features, long_texts, encoder, dtype=None):
    """Builds the network from the features of texts to one vector per text.

    Args:
        vectors_of_rows: function of features `[rows, length]` to `[rows, dim]`.
        features: dict of symbolic tensors, `[texts, length]`, or with windows
            `[texts, windows, length]`.
        long_texts: str.
        encoder: `Encoder`.
        dtype: dtype of the layer that pools windows. Default: the encoder's policy.

    Returns:
        `[texts, dim]`.
    """
    if long_texts not in OF_WINDOWS:
        return vectors_of_rows(features)
    scale, dtype = encoder.config.initializer_range, dtype or encoder.dtype_policy
    pool = PoolWindows(long_texts, scale, dtype=dtype, name="pool_windows")
    return pool(vectors_of_rows(merged(features)), features["padding_mask"])
