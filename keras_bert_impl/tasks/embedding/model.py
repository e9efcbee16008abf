"""`TextEmbedder`: sentence embeddings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np
from keras import ops

from keras_bert_impl.checkpoints.interop import read_encoder_config
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.sentence_transformers import (
    SIMILARITIES,
    is_cross_encoder,
    read_projections,
    read_sentence_settings,
    write_sentence_settings,
)
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.tables.label_codec import LabelCodec, ScoreLabels
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.embedding import losses
from keras_bert_impl.tasks.embedding.head import (
    checked_projections,
    embedding_network,
    projection_layers,
    set_tensors,
    tensors_of_layers,
)
from keras_bert_impl.tasks.embedding.poolings import check_poolings
from keras_bert_impl.tasks.embedding.signature import TextEmbedderNetwork, VectorSignatures
from keras_bert_impl.tasks.embedding.text_vectors import TextVectors
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.steps.whole_batch import WholeBatchTrainer
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.first_guesses import first_guesses
from keras_bert_impl.utils.settings import (
    NonNegativeFloat,
    OneOf,
    PositiveFloat,
    PositiveInt,
    check,
)


@first_guesses("TextEmbedder")
@keras.saving.register_keras_serializable("keras_bert_impl")
class TextEmbedder(TextVectors, WholeBatchTrainer, TaskModel):
    """Sentence embeddings, pooled from the hidden states of the last layer or layers.

    See `RawTextTrainer` for the inputs of `fit`, `evaluate` and `predict`, with one difference: an
    example is a tuple of `group` texts. x may also be a tuple of lists: all first texts, all second
    texts, ... A string tensor in a dataset is `[batch, group]`, and features are `[batch, group,
    length]`.

    | loss | example | label |
    |---|---|---|
    | `"cosine"` | two texts | their cosine similarity, from -1 to 1 |
    | `"cosent"` | two texts | a number; higher for more similar texts |
    | `"triplet"` | anchor, positive, negative | none |
    | `"multiple_negatives"` | anchor, positive, then any number of hard negatives | none |

    `"cosent"` and `"multiple_negatives"` compare all examples of the batch. If a batch is split
    across replicas or `accumulation_steps`, each training step computes the forward pass twice.
    With `"multiple_negatives"`, the positives of other examples count as negatives, so duplicate
    texts in a batch are false negatives.

    The network returns float32 `[batch, group, dim]`. `predict` returns float32 `[examples, group,
    dim]` for tuples of texts, and `[texts, dim]` for single texts.

    Args:
        encoder: `Encoder`; its pooler is not used.
        pooling: `"cls"` (the first token), `"lasttoken"`, `"mean"` (the default) or `"max"`;
            `"weightedmean"` weights tokens by position; `"mean_sqrt_len_tokens"` divides the sum by
            the square root of the number of tokens. To concatenate poolings, join their names with
            `+`, such as `"cls+mean"`. The order must be `"cls"`, `"max"`, `"mean"`,
            `"mean_sqrt_len_tokens"`, `"weightedmean"`, `"lasttoken"`.
        num_layers: number of layers to use, counted from the last. Default 1.
        layer_weights: list of `num_layers` floats, for a weighted mean of the layers. None: the
            layers are concatenated.
        learn_layer_weights: whether to train the layer weights; their initial value is 1 by
            default.
        projections: list of dicts, layers that follow the pooling: `{"kind": "dense", "dim": 256,
            "activation": "tanh", "use_bias": True}`, with the activation `"tanh"`, `"linear"`,
            `"relu"` or `"gelu"`; or `{"kind": "layer_norm"}`. Default: none.
        normalize: whether to scale vectors to unit length.
        truncate_dim: number of leading dimensions to keep, after normalization. Default: all.
        do_lower_case: whether to convert texts to lower case before tokenization, in addition to
            the tokenizer's setting.
        prompts: dict of name -> prompt, which is prepended to texts, such as `{"query": "query:
            "}`.
        default_prompt_name: key of the prompt that is prepended to all texts, also in training.
            Default: none.
        similarity_fn_name: what `similarity` computes: `"cosine"` (the default), `"dot"`,
            `"euclidean"` or `"manhattan"`.
        loss: see the table. Default `"cosine"`. A loss that is passed to `compile` is used instead.
        scale: factor of the cosine similarities in `"cosent"` and `"multiple_negatives"`.
        margin: distance margin of `"triplet"`.
        max_length: maximum sequence length in tokens. Default 128.
        long_texts: how long texts are handled: a `LongTexts`, or only the name of the method.
            Windows are pooled before normalization. Default: truncate.

    Source: Reimers and Gurevych 2019, "Sentence-BERT".

    Example:
        embedder = TextEmbedder.from_pretrained("path/to/model", loss="multiple_negatives")
        embedder.fit([("How old are you?", "What is your age?")], epochs=1)
        embedder.encode(["a text", "another"])  # float32 [2, dim]
    """

    settings = (
        "pooling",
        "num_layers",
        "layer_weights",
        "learn_layer_weights",
        "projections",
        "normalize",
        "truncate_dim",
        "do_lower_case",
        "prompts",
        "default_prompt_name",
        "similarity_fn_name",
        "loss",
        "scale",
        "margin",
        "long_texts",
    )
    pipeline_tag = "sentence-similarity"
    example_call = ".encode(['a text'])"
    text_rank = 2
    most_columns = 8
    signature_class = VectorSignatures
    network = TextEmbedderNetwork

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        pooling: str = "mean",
        num_layers: PositiveInt = 1,
        layer_weights: Sequence[float] | None = None,
        learn_layer_weights: bool = False,
        projections: Sequence[dict[str, Any]] | None = None,
        normalize: bool = False,
        truncate_dim: PositiveInt | None = None,
        do_lower_case: bool = False,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        similarity_fn_name: str = "cosine",
        loss: str = "cosine",
        scale: PositiveFloat = 20.0,
        margin: NonNegativeFloat = 5.0,
        max_length: int | None = None,
        long_texts: LongTexts | str | dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        losses.check_loss(loss)
        long_texts = LongTexts().changed(long_texts)
        projections = checked_projections(projections)
        layers = projection_layers(projections)
        inputs, outputs, mix = embedding_network(
            encoder,
            pooling,
            num_layers,
            layer_weights,
            learn_layer_weights,
            normalize,
            long_texts,
            layers,
            truncate_dim,
        )
        prompts = _check_prompts(prompts, default_prompt_name)
        check("similarity_fn_name", similarity_fn_name, Annotated[str, OneOf(*SIMILARITIES)])
        super().__init__(
            encoder,
            tokenizer,
            inputs,
            outputs,
            max_length=max_length,
            long_texts=long_texts,
            name=name,
        )
        self.pooling = pooling
        self.num_layers = num_layers
        self.layer_mix = mix
        self.learn_layer_weights = check("learn_layer_weights", learn_layer_weights, bool)
        self.projections = projections
        self.projection_layers = layers
        self.normalize = check("normalize", normalize, bool)
        self.truncate_dim = truncate_dim
        self.do_lower_case = check("do_lower_case", do_lower_case, bool)
        self.prompts = prompts
        self.default_prompt_name = default_prompt_name
        self.similarity_fn_name = similarity_fn_name
        self.loss_name = loss  # Keras reserves `loss`
        self.scale = check("scale", scale, PositiveFloat)
        self.margin = check("margin", margin, NonNegativeFloat)

    @staticmethod
    def rows_of(text: Any) -> list[tuple[str, ...]]:
        return [(segment,) for segment in ([text] if isinstance(text, str) else text)]

    def segments_of_rows(self, example: Any) -> list[tuple]:
        prompt = self.prompts.get(self.default_prompt_name, "")
        texts = example if isinstance(example, tuple) else (example,)
        return [(prompt + text,) for text in texts]

    @property
    def dim(self) -> int:
        """Size of a vector."""
        return self.output_shape[-1]

    @property
    def layer_weights(self) -> list[float] | None:
        """Current layer weights; None if the layers are concatenated."""
        return None if self.layer_mix is None else np.asarray(self.layer_mix.kernel).tolist()

    # === Labels ===

    @property
    def needs_labels(self) -> bool:  # type: ignore[override]
        """Whether the loss needs labels."""
        return self.loss_name in losses.SCORED

    @property
    def label_codec(self) -> LabelCodec:
        if not self.needs_labels:
            return NoLabels(f"the loss {self.loss_name!r} does not take labels. Leave them out.")
        limit = 1.0 if self.loss_name == "cosine" else np.finfo("float32").max
        return ScoreLabels(float(limit))

    # === Loss ===

    def compile(  # type: ignore[override]
        self, optimizer: Any = None, loss: str | None = None, metrics: Any = None, **kwargs: Any
    ) -> None:
        """Configures training; see `RawTextTrainer.compile`.

        Args:
            loss: see the table in `TextEmbedder`. Default: the loss of the model.
            metrics: None or `[]`. Keras metrics are not supported, because they cannot compare
                vectors with labels.

        Raises:
            InputError: the loss is unknown, or metrics are passed.
        """
        if metrics or kwargs.get("weighted_metrics"):
            raise InputError(
                "TextEmbedder.compile does not take metrics. To compute scores, call "
                "keras_bert_impl.evaluate(embedder, examples)."
            )
        if loss is not None:
            losses.check_loss(loss)
            self.loss_name = loss
        super().compile(optimizer, **kwargs)

    def default_loss(self) -> None:
        return None

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return []

    @property
    def compares_examples(self) -> bool:
        """Whether the loss compares the examples of a batch."""
        return losses.compares_examples(self.loss_name)

    def loss_totals(self, x: Any, y: Any, sample_weight: Any) -> Any:
        losses.check_group(self.loss_name, x["token_ids"].shape[1])
        return super().loss_totals(x, y, sample_weight)

    def batch_loss(self, y: Any, y_pred: Any) -> Any:
        if self.loss_name == "cosent":
            return losses.cosent_loss(y_pred, y, self.scale)
        return losses.multiple_negatives_loss(y_pred, self.scale)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        if self.compares_examples:
            return super().loss_share(x, y, y_pred, sample_weight, totals)
        if self.loss_name == "cosine":
            example_losses = losses.cosine_losses(y_pred, ops.reshape(y, (-1,)))
        else:
            example_losses = losses.triplet_losses(y_pred, self.margin)
        if sample_weight is not None:
            example_losses *= ops.cast(ops.reshape(sample_weight, (-1,)), "float32")
        return ops.sum(example_losses) / totals

    # === Files ===

    def own_settings(self) -> dict[str, Any]:
        return super().own_settings() | {"loss": self.loss_name}

    @classmethod
    def saved_settings(cls, source: ModelSource, given: dict[str, Any]) -> dict[str, Any]:
        if is_cross_encoder(source.task_path):
            raise InputError(f"{source.path} is a cross-encoder. Load it with TextClassifier.")
        settings = read_sentence_settings(source.task_path)
        if settings and settings["max_length"] is None:
            settings["max_length"] = read_encoder_config(source, with_adapter=True).max_length
        if settings:
            check_poolings(settings["pooling"].split("+"), source.task_path)
        return super().saved_settings(source, given) | settings

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        tensors = read_projections(source.task_path)
        if tensors or self.projections:
            set_tensors(self.projection_layers, tensors, source.task_path)
        return super().pretrained_head(source)

    def task_config(self) -> dict[str, Any]:
        # `sentence-transformers` needs the states of all layers.
        return {} if self.layer_mix is None else {"output_hidden_states": True}

    def save_more(self, directory: Path) -> None:
        write_sentence_settings(
            directory,
            self.own_settings(),
            tensors_of_layers(self.projection_layers),
            depth=self.config.num_layers,
            hidden_dim=self.config.hidden_dim,
        )


class NoLabels(LabelCodec):
    """Codec for losses without labels."""

    def __init__(self, message: str) -> None:
        self.message = message

    def encode(self, labels: Any, count: int) -> None:
        raise InputError(self.message)

    def tensor(self, labels: Any) -> None:
        raise InputError(self.message)


def _check_prompts(prompts, default):
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, dict) or not all(
        isinstance(text, str) for part in prompts.items() for text in part
    ):
        raise InputError(f"prompts must be a dict of str to str. Received: {prompts!r:.80}")
    if default is not None and default not in prompts:
        raise InputError(
            f"default_prompt_name must be one of the prompts, {listed(prompts) or 'none'}. "
            f"Received: default_prompt_name={default!r:.60}"
        )
    return prompts
