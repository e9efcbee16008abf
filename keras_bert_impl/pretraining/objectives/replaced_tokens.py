"""Replaced token detection: a generator fills the masks; the encoder detects the replacements."""

import dataclasses
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    GENERATOR,
    encoder_tensors,
    has_key,
    head_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    tensor_prefix,
    write_model_directory,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import replaced_token_head
from keras_bert_impl.models.weights import load_weights, tensors_of
from keras_bert_impl.pretraining.objectives.base import (
    ENCODER_FEATURES,
    PretrainingObjective,
    Tensor,
    Tensors,
    masked_logits,
)
from keras_bert_impl.training.runs.reports import encoder_flops, vocabulary_flops
from keras_bert_impl.utils.errors import InputError

DRAW_LIMIT = 1 << 24  # exclusive limit of random numbers; float32 represents all smaller integers
_BLOCK = 256  # number of tokens per block of the two-level cumulative sum


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class ReplacedTokens(PretrainingObjective):
    """Replaced token detection: predicts whether each token is original or from a generator.

    Source: Clark et al. 2020, "ELECTRA", sections 2 and 3.2.
    """

    name = head = "replaced_token"
    needs_both_sides = True
    features = ("masked_positions", "replacement_draws")

    def __init__(self, weight: float = 50.0, generator: EncoderConfig | None = None) -> None:
        super().__init__(weight)
        self.generator = generator

    def factors(self) -> dict[str, float]:
        return {"masked_lm": 1.0, self.name: self.weight}

    def prepare(self, encoder: Encoder, inputs: Tensors) -> tuple[Tensors, Tensors]:
        config = self._choose_config(encoder.config)
        # Variable paths must differ from the paths in the encoder.
        with keras.name_scope(GENERATOR):
            generator = Encoder(
                config, encoder.dtype_policy, name=GENERATOR, shared_embeddings=encoder.embeddings
            )
            features = {name: inputs[name] for name in ENCODER_FEATURES}
            logits = masked_logits(generator, generator(features)["sequence_output"], inputs)
        sample = SampleTokens(name="sample_tokens")
        token_ids, sampled_ids = sample(
            inputs["token_ids"], inputs["masked_positions"], logits, inputs["replacement_draws"]
        )
        outputs = {"masked_lm": logits, "sampled_ids": sampled_ids}
        return inputs | {"token_ids": token_ids}, outputs

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        logits = replaced_token_head(encoder)(encoded["sequence_output"])  # [batch, length, 1]
        return {self.name: ops.squeeze(logits, axis=-1)}

    def weights(self, features: Tensors, weights: Tensors) -> Tensors:
        is_real = ops.cast(ops.not_equal(features["example_ids"], 0), "float32")
        return {"masked_lm": weights["masked_lm"], self.name: is_real}

    def labels(self, features: Tensors, labels: Tensors, outputs: Tensors) -> Tensors:
        # Unused slots have position 0, which is never replaced.
        positions, ids = features["masked_positions"], labels["masked_lm"]
        is_replaced = ops.logical_and(positions > 0, ops.not_equal(outputs["sampled_ids"], ids))
        nothing = ops.zeros_like(features["token_ids"])
        written = write(nothing, positions, ops.cast(is_replaced, nothing.dtype))
        return {"masked_lm": ids, self.name: written}

    def losses(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        if output != self.name:
            return super().losses(output, labels, logits)
        return ops.softplus(logits) - logits * ops.cast(labels, logits.dtype)

    def hits(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        if output != self.name:
            return super().hits(output, labels, logits)
        return ops.cast(ops.equal(logits > 0, ops.cast(labels, "bool")), "float32")

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        generator = self._choose_config(config)
        filled = encoder_flops(generator, length) + predictions * vocabulary_flops(generator)
        return filled + 2 * config.hidden_dim * (config.hidden_dim + 1)

    # === Model directories ===

    def of_directory(self, path: Path, **overrides: Any) -> "ReplacedTokens":
        if self.generator is not None or not (path / GENERATOR).is_dir():
            return self
        config = read_encoder_config(open_model(path / GENERATOR))
        return ReplacedTokens(self.weight, dataclasses.replace(config, **overrides))

    def load(self, pretrainer: keras.Model, path: Path) -> None:
        if (path / GENERATOR).is_dir():
            config = self._choose_config(pretrainer.encoder.config)
            source = open_model(path / GENERATOR)
            # This configuration determines the tensor names in the generator's files.
            read_encoder_config(source)
            load_weights(pretrainer, source, _list_generator_tensors(config))

    def save(self, pretrainer: keras.Model, directory: Path) -> None:
        config = self._choose_config(pretrainer.encoder.config)
        tensors = tensors_of(pretrainer, _list_generator_tensors(config))
        heads = {name.tensor for name in head_tensors(config, "masked_lm")}
        prefix = tensor_prefix(config)
        tensors = {name if name in heads else prefix + name: t for name, t in tensors.items()}
        (directory / GENERATOR).mkdir()
        write_model_directory(
            directory / GENERATOR, huggingface_config(config, "masked_lm"), tensors
        )

    def _choose_config(self, encoder):
        width = encoder.embedding_dim or encoder.hidden_dim
        if self.generator is None:
            return _default_generator(encoder, width)
        generator = dataclasses.replace(self.generator, use_pooler=False)
        shapes = [
            (c.vocabulary_size, c.embedding_dim or c.hidden_dim, c.num_segments, c.max_length)
            for c in (generator, encoder)
        ]
        if shapes[0] != shapes[1]:
            raise InputError(
                "the generator must have the encoder's vocabulary_size, embedding width, "
                f"num_segments and max_length, {shapes[1]}. Received: {shapes[0]}"
            )
        return generator

    def get_config(self) -> dict[str, Any]:
        generator = self.generator and self.generator.to_dict()
        return {"weight": self.weight, "generator": generator}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ReplacedTokens":
        generator = config["generator"] and EncoderConfig(**config["generator"])
        return cls(config["weight"], generator)


def _default_generator(encoder, embedding_dim):
    # The default has a quarter of the encoder's width. If the architecture has no separate
    # embedding width, the default has a quarter of the layers.
    if not has_key(encoder, "embedding_dim"):
        num_layers = max(1, encoder.num_layers // 4)
        return dataclasses.replace(encoder, num_layers=num_layers, use_pooler=False)
    num_heads = max(1, encoder.num_heads // 4)
    hidden_dim = max(1, encoder.hidden_dim // 4 // num_heads) * num_heads
    return dataclasses.replace(
        encoder,
        hidden_dim=hidden_dim,
        num_heads=num_heads,
        intermediate_dim=max(1, encoder.intermediate_dim // 4),
        embedding_dim=None if embedding_dim == hidden_dim else embedding_dim,
        use_pooler=False,
    )


def _list_generator_tensors(config):
    """Returns the tensor names of the generator, including the embeddings of the encoder."""

    def move_to_folder(name):
        is_shared = name.variable.startswith("embeddings/") and "/projection/" not in name.variable
        variable = name.variable if is_shared else f"{GENERATOR}/{name.variable}"
        return dataclasses.replace(name, variable=variable)

    return [*map(move_to_folder, encoder_tensors(config) + head_tensors(config, "masked_lm"))]


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SampleTokens(keras.layers.Layer):
    """Replaces masked tokens with tokens sampled from logits, without gradients.

    Returns:
        (token_ids, samples): the ids after the replacement, int32 `[batch, length]`; the sampled
        ids, int32 `[batch, predictions]`.
    """

    def call(
        self, token_ids: Tensor, positions: Tensor, logits: Tensor, draws: Tensor
    ) -> tuple[Tensor, Tensor]:
        probabilities = ops.softmax(ops.cast(ops.stop_gradient(logits), "float32"), axis=-1)
        samples = _sample_token_ids(probabilities, ops.cast(draws, "float32") / DRAW_LIMIT)
        first = ops.broadcast_to(token_ids[:, :1], ops.shape(positions))
        return write(token_ids, positions, ops.where(positions > 0, samples, first)), samples

    def compute_output_spec(
        self, token_ids: Tensor, positions: Tensor, logits: Tensor, draws: Tensor
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        return (
            keras.KerasTensor(token_ids.shape, dtype=token_ids.dtype),
            keras.KerasTensor(positions.shape, dtype=token_ids.dtype),
        )


def _sample_token_ids(probabilities, uniform):
    """Samples token ids by inverse transform sampling. `uniform` are random numbers in [0, 1)."""
    vocabulary_size = probabilities.shape[-1]
    num_blocks = -(-vocabulary_size // _BLOCK)
    padding = num_blocks * _BLOCK - vocabulary_size
    blocks = ops.pad(probabilities, [(0, 0), (0, 0), (0, padding)])
    blocks = ops.reshape(blocks, (-1, num_blocks, _BLOCK))  # [places, blocks, words]

    sums = ops.cumsum(ops.sum(blocks, axis=-1), axis=-1)  # [places, blocks]
    limits = ops.reshape(uniform, (-1, 1)) * sums[:, -1:]  # the total is 1, except for rounding
    block = _count_up_to(limits, sums)
    before = ops.take_along_axis(sums, ops.maximum(block - 1, 0), axis=-1)
    before = ops.where(block > 0, before, 0.0)
    first_block = num_blocks * ops.arange(ops.shape(blocks)[0], dtype="int32")
    words = ops.take(ops.reshape(blocks, (-1, _BLOCK)), first_block + block[:, 0], axis=0)
    word = _count_up_to(limits, before + ops.cumsum(words, axis=-1))
    samples = ops.minimum(block * _BLOCK + word, vocabulary_size - 1)
    return ops.reshape(samples, ops.shape(uniform))


def _count_up_to(limits, sums):
    count = ops.sum(ops.cast(sums <= limits, "int32"), axis=-1, keepdims=True)
    return ops.minimum(count, sums.shape[-1] - 1)


def write(ids: Tensor, positions: Tensor, values: Tensor) -> Tensor:
    """Returns a copy of `ids` `[batch, length]` with `values` at `positions`."""
    batch, predictions = ops.shape(positions)[0], ops.shape(positions)[1]
    rows = ops.broadcast_to(ops.arange(batch, dtype="int32")[:, None], (batch, predictions))
    places = ops.reshape(ops.stack([rows, positions], axis=-1), (-1, 2))
    return ops.scatter_update(ids, places, ops.reshape(values, (-1,)))
