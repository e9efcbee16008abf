"""`LongTexts`: how a task model handles texts longer than `max_length` tokens."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import tensorflow as tf

from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName, dense, kernel, optional
from keras_bert_impl.data.batches import batching, windows
from keras_bert_impl.data.batches.batching import TokenizedTexts
from keras_bert_impl.data.batches.windows import GroupedTexts, merged
from keras_bert_impl.layers import PoolWindows
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks.base.feature_rows import task_inputs
from keras_bert_impl.tasks.base.options import LONG_TEXTS, OF_WINDOWS
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import OneOf, PositiveInt, check

# Values of `way` that support each field.
_WAYS = {"head_tokens": ("head_tail",), "doc_stride": OF_WINDOWS, "max_windows": OF_WINDOWS}
_ATTENTION_TENSORS = optional(
    dense("pool_windows/dense", "window_attention.dense")
    + [kernel("pool_windows/score", "window_attention.score")]
)


@known_arguments("LongTexts")
@dataclasses.dataclass(frozen=True)
class LongTexts:
    """Configures how a task model handles texts of more than `max_length` tokens.

    `way` is one of

    - `"truncate"`: only the first tokens are used;
    - `"head_tail"`: the first and last tokens are used;
    - `"mean"`, `"max"`, `"attention"`: texts are split into windows that start `doc_stride` tokens
      apart. The vector of a text is the mean of the window vectors, the elementwise maximum, or a
      weighted mean with learned weights. All windows of a text belong to one example. Features
      have the shape `[..., windows, length]`. If a text has only one window, the result is the
      same as with `"truncate"`. `transformers` can load a saved model, but does not split texts
      into windows.

    For a text pair, `"head_tail"` and windows apply only to the second text. The first text is
    truncated to half of `max_length`. In multiple choice, they apply only to the prompt, and the
    ending is truncated.

    Args:
        way: `"truncate"`, `"head_tail"`, `"mean"`, `"max"` or `"attention"`.
        head_tokens: for `"head_tail"`, number of tokens from the start of a long text. All others
            are from the end of the text. Default: a quarter of the tokens, such as 128 of 510.
        doc_stride: number of tokens between the starts of consecutive windows. Default: half of
            `max_length`.
        max_windows: maximum number of windows per text, which limits memory. The rest of the text
            is ignored. Default: 8.

    Raises:
        InputError: `way` is unknown, or an argument is not supported for this `way`.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.

    Example:
        long_texts = LongTexts("mean", max_windows=6)
        TextClassifier.from_pretrained("path/to/model", num_classes=2, long_texts=long_texts)
    """

    way: str = "truncate"
    head_tokens: int | None = None
    doc_stride: int | None = None
    max_windows: int | None = None

    def __post_init__(self):
        check("long_texts", self.way, Annotated[str, OneOf(*LONG_TEXTS)])
        for name, ways in _WAYS.items():
            value = check(name, getattr(self, name), PositiveInt | None)
            if value is not None and self.way not in ways:
                raise InputError(
                    f"{name} can only be used with long_texts={', '.join(ways)}. Received: "
                    f"long_texts={self.way!r}, {name}={value}"
                )
            object.__setattr__(self, name, value)

    @property
    def has_windows(self) -> bool:
        """Whether long texts are split into windows."""
        return self.way in OF_WINDOWS

    def changed(self, given: "LongTexts | str | dict[str, Any] | None") -> "LongTexts":
        """Returns a copy with some fields changed.

        Fields that the new `way` does not support are set to None.

        Args:
            given: `LongTexts`, a `way`, or a dict of fields. None returns `self`.
        """
        if given is None or isinstance(given, LongTexts):
            return given or self
        fields = given if isinstance(given, dict) else {"way": given}
        unknown = fields.keys() - LongTexts.__dataclass_fields__
        if unknown:
            raise InputError(f"long_texts has no fields {listed(unknown)}.")
        way = fields.get("way") or self.way
        inherited = {name: getattr(self, name) for name, ways in _WAYS.items() if way in ways}
        return LongTexts(
            **{"way": way, **inherited} | {n: v for n, v in fields.items() if v is not None}
        )

    # === Tokenization ===

    def pack(self, model: Any, texts: Any) -> dict[str, tf.Tensor]:
        """Tokenizes texts without windows. Returns features `[texts, length]`.

        Can be called in eager mode and in TensorFlow graphs.
        """
        if self.way != "head_tail":
            return model.tokenizer(texts, length=model.max_length)
        return windows.pack_head_and_tail(
            model.tokenizer, texts, model.max_length, self.head_tokens, model.long_part
        )

    def tokenize(self, model: Any, texts: list) -> TokenizedTexts | GroupedTexts:
        """Tokenizes texts or pairs. If texts are split into windows, returns `GroupedTexts`."""
        if self.has_windows:
            return self._configure_windows(model).tokenize(texts)
        return batching.tokenize_texts(
            texts, model.tokenizer, model.max_length, model.widths(), model.pack
        )

    def features(self, model: Any, texts: Any) -> dict[str, tf.Tensor]:
        """Tokenizes a batch of texts in eager mode or in a TensorFlow graph. Returns features."""
        if self.has_windows:
            return self._configure_windows(model).features(texts)
        features = model.pack(texts)
        longest = tf.reduce_max(tf.reduce_sum(features["padding_mask"], axis=1))
        width = batching.least_of(model.widths(), longest)
        return {name: feature[:, :width] for name, feature in features.items()}

    def _configure_windows(self, model):
        widths, most = model.widths(), self.max_windows or 8
        # Batches are padded to these numbers of windows; `widths` are the sequence lengths.
        counts = [*range(1, most + 1)]
        if len(widths) == 1:
            counts = [most]
        elif model.compiled and model.jit_compile:
            counts = batching.doublings(most, first=1)
        return windows.DocumentWindows(
            model.tokenizer,
            model.max_length,
            stride=self.doc_stride or model.max_length // 2,
            max_windows=most,
            long_part=model.long_part,
            widths=widths,
            counts=counts,
        )

    # === The network ===

    def inputs(self, groups: int = 0) -> dict[str, Any]:
        """Returns the inputs of the network. `groups` is 1 if an example consists of several texts."""
        return task_inputs(rank=2 + groups + self.has_windows)

    def vectors(
        self,
        vectors_of_rows: Callable[[dict], Any],
        features: dict[str, Any],
        encoder: Encoder,
        dtype: Any = None,
    ) -> Any:
        """Builds the layers from text features to one vector per text, `[texts, dim]`.

        Args:
            vectors_of_rows: function from features `[rows, length]` to vectors `[rows, dim]`.
            features: symbolic tensors, `[texts, length]`, or with windows
                `[texts, windows, length]`.
            encoder: the encoder that `vectors_of_rows` uses.
            dtype: dtype of the layer that pools windows. Default: the encoder's policy.
        """
        if not self.has_windows:
            return vectors_of_rows(features)
        scale, dtype = encoder.config.initializer_range, dtype or encoder.dtype_policy
        pool = PoolWindows(self.way, scale, dtype=dtype, name="pool_windows")
        return pool(vectors_of_rows(merged(features)), features["padding_mask"])

    def tensors(self) -> list[TensorName]:
        """Returns the tensor names of the layer that pools windows."""
        return _ATTENTION_TENSORS if self.way == "attention" else []
