"""The encoder: token ids in, a vector for every token and one for the sequence out."""

import dataclasses

import keras
import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.files import replace_directory
from keras_bert_impl.interop import (
    encoder_tensors,
    huggingface_config,
    open_keras_hub_model,
    open_model,
    read_encoder_config,
    to_keras_hub,
    write_model_directory,
)
from keras_bert_impl.layers import AttentionBias, Embeddings, Pooler, TransformerBlock
from keras_bert_impl.models.weights import load_weights, tensors_of, values_deferred

FEATURES = ("token_ids", "segment_ids", "padding_mask", "position_ids", "example_ids")


@keras.saving.register_keras_serializable("keras_bert_impl")
class Encoder(keras.Model):
    """An encoder: BERT or one of its kin, by its configuration alone.

    Args:
        config: `EncoderConfig`.
        dtype: Keras dtype policy, such as `"mixed_bfloat16"`; None for the global one.

    Call arguments:
        features: dict of int32 `[batch, length]` tensors: `token_ids`; optionally `segment_ids`
            (default 0), `padding_mask` (1 for a real token; default all real), `position_ids`
            (default 0, 1, 2, ...) and `example_ids` (for rows that pack several examples: the
            number of the example, from 1, and 0 for padding; attention stays inside an example).

    Returns:
        dict with `sequence_output` `[batch, length, hidden]` and `pooled_output`
        `[batch, hidden]`.

    Raises:
        ValueError: an input of a wrong rank or dtype, longer than the configuration allows, or
            with an id that has no embedding.

    Source: Devlin et al., "BERT", section 3.

    Example:
        >>> encoder = Encoder(EncoderConfig.named("bert_uncased_L-2_H-128_A-2"))
        >>> encoder({"token_ids": [[101, 7592, 102]]})["pooled_output"].shape
        TensorShape([1, 128])
    """

    def __init__(self, config, dtype=None, name="encoder", **kwargs):
        dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        # === Layers ===
        embeddings = Embeddings(
            vocabulary_size=config.vocabulary_size,
            hidden_dim=config.hidden_dim,
            max_length=config.max_length,
            num_segments=config.num_segments,
            embedding_dim=config.embedding_dim,
            position_offset=config.position_offset,
            pad_token_id=config.pad_token_id,
            dropout=config.dropout,
            layer_norm_epsilon=config.layer_norm_epsilon,
            initializer_range=config.initializer_range,
            dtype=dtype,
            name="embeddings",
        )
        attention_bias = AttentionBias(dtype=dtype, name="attention_bias")
        blocks = [
            TransformerBlock(
                num_heads=config.num_heads,
                intermediate_dim=config.intermediate_dim,
                activation=config.activation,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                layer_norm_epsilon=config.layer_norm_epsilon,
                initializer_range=config.initializer_range,
                pre_norm=config.pre_norm,
                dtype=dtype,
                name=f"layer_{index}",
            )
            for index in range(config.num_layer_groups or config.num_layers)
        ]
        blocks = [block for block in blocks for _ in range(config.num_layers // len(blocks))]
        pooler = None
        if config.use_pooler:
            pooler = Pooler(config.initializer_range, dtype=dtype, name="pooler")

        # === Functional model ===
        inputs = _inputs()
        states, _ = _connect(inputs, embeddings, attention_bias, blocks)
        outputs = _outputs(states[-1], pooler)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.dtype_policy = dtype  # a functional model takes no policy

        # === Config ===
        self.config = config
        self.embeddings = embeddings
        self.attention_bias = attention_bias
        self.blocks = blocks
        self.pooler = pooler

    # A functional model wants a value, if only None, for each optional input. Trainers reach it
    # by `__call__` (TensorFlow) and by `call` (JAX), functional models by `compute_output_spec`.
    def __call__(self, features, *args, **kwargs):
        return super().__call__(self._checked(features), *args, **kwargs)

    def call(self, features, training=None, mask=None):
        return super().call(_with_all_inputs(features), training=training)

    def compute_output_spec(self, features, training=None, mask=None):
        shape = (*features["token_ids"].shape, self.config.hidden_dim)
        return {
            "sequence_output": keras.KerasTensor(shape, dtype=self.compute_dtype),
            "pooled_output": keras.KerasTensor((shape[0], shape[2]), dtype=self.compute_dtype),
        }

    @classmethod
    def from_pretrained(cls, name_or_path, dtype=None, **overrides):
        """An encoder with published or saved weights.

        Args:
            name_or_path: str or `Path`: a directory or a name; see `interop.open_model`.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `dropout=0.0`.

        Raises:
            InputError: a file or tensor is missing, damaged or of another shape; names it.

        Example:
            >>> encoder = Encoder.from_pretrained("path/to/model", dropout=0.0)
            >>> encoder = Encoder.from_pretrained("hf://google-bert/bert-base-uncased")
        """
        return cls._from_source(open_model(name_or_path), dtype, overrides)

    @classmethod
    def _from_source(cls, source, dtype, overrides):
        config = read_encoder_config(source)
        with values_deferred():
            encoder = cls(dataclasses.replace(config, **overrides), dtype=dtype)
        load_weights(encoder, source, encoder_tensors(encoder.config))
        return encoder

    @classmethod
    def from_keras_hub(cls, backbone, dtype=None, **overrides):
        """An encoder with the weights of a backbone of KerasHub.

        Args:
            backbone: one of `keras_hub.models`, such as a `BertBackbone`.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `use_pooler=False`.

        Raises:
            InputError: another model, or one that our encoder does not compute.

        Example:
            >>> backbone = keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased")
            >>> encoder = Encoder.from_keras_hub(backbone)
        """
        return cls._from_source(open_keras_hub_model(backbone), dtype, overrides)

    def to_keras_hub(self, dtype=None):
        """A backbone of KerasHub with this encoder's weights.

        Args:
            dtype: Keras dtype policy.

        Raises:
            InputError: KerasHub has no backbone of this configuration.
        """
        return to_keras_hub(self.config, tensors_of(self, encoder_tensors(self.config)), dtype)

    def save_pretrained(self, directory):
        """Writes a model directory that `transformers` and `from_pretrained` load.

        Args:
            directory: str or `Path`; files of the same names are replaced.
        """
        with replace_directory(directory) as temporary:
            write_model_directory(
                temporary,
                huggingface_config(self.config),
                tensors_of(self, encoder_tensors(self.config)),
            )

    def with_outputs(self, *names):
        """A model that shares this encoder's weights and returns more of what happens inside.

        Args:
            *names: `"hidden_states"`: a tuple of the embeddings and every layer's output,
                `num_layers + 1` tensors `[batch, length, hidden]`; `"attention_scores"`: a tuple
                of every layer's weights after the softmax, float32
                `[batch, heads, length, length]`.

        Returns:
            A `keras.Model` whose output dict holds these names besides the encoder's own.

        Example:
            >>> encoder.with_outputs("attention_scores")(features)["attention_scores"][0]
        """
        unknown = sorted(set(names) - {"hidden_states", "attention_scores"})
        if unknown or not names:
            raise ValueError(
                f'names must be of "hidden_states", "attention_scores". Received: names={names}'
            )
        return _DetailedEncoder(self, names)

    def _checked(self, features):
        """Refuses what the embeddings have no row for."""
        limits = {
            "token_ids": self.config.vocabulary_size,
            # Without segment embeddings it does not matter what stands there.
            "segment_ids": self.config.num_segments or None,
            "position_ids": self.config.max_length,
        }
        checked = _with_all_inputs(features)
        for name, value in checked.items():
            if value is not None:
                checked[name] = _check_ids(name, value, limits.get(name))
        _check_equal_shapes(checked)
        length = checked["token_ids"].shape[1]
        if checked["position_ids"] is None and length and length > self.config.max_length:
            raise ValueError(
                f"token_ids may be up to max_length={self.config.max_length} long. "
                f"Received: length={length}"
            )
        return checked

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        dtype = keras.dtype_policies.deserialize(config.pop("dtype"))
        return cls(EncoderConfig(**config.pop("config")), dtype=dtype, **config)


class _DetailedEncoder(keras.Model):
    """Runs an encoder's layers and keeps what they return on the way.

    Not a functional model: there, a layer has the same number of outputs wherever it is called.
    """

    def __init__(self, encoder, names):
        super().__init__(name=f"{encoder.name}_with_{'_and_'.join(names)}")
        self.encoder = encoder
        self.names = names
        self.built = True  # Keras 3.12 would look for shapes in features that are None

    def call(self, features):
        encoder = self.encoder
        with_scores = "attention_scores" in self.names
        states, scores = _connect(
            encoder._checked(features),
            encoder.embeddings,
            encoder.attention_bias,
            encoder.blocks,
            with_scores,
        )
        details = {"hidden_states": tuple(states), "attention_scores": tuple(scores)}
        outputs = _outputs(states[-1], encoder.pooler)
        return outputs | {name: details[name] for name in self.names}


def _inputs():
    return {
        name: keras.Input((None,), dtype="int32", name=name, optional=name != "token_ids")
        for name in FEATURES
    }


def _connect(inputs, embeddings, attention_bias, blocks, with_scores=False):
    """Applies the layers; returns all hidden states and, if asked for, all attention weights."""
    bias = attention_bias(inputs["token_ids"], inputs["padding_mask"], inputs["example_ids"])
    states = [embeddings(inputs["token_ids"], inputs["segment_ids"], inputs["position_ids"])]
    scores = []
    for block in blocks:
        state = block(states[-1], bias, return_attention_scores=with_scores)
        if with_scores:
            state, block_scores = state
            scores.append(block_scores)
        states.append(state)
    return states, scores


def _outputs(sequence, pooler):
    first = sequence[:, 0]  # [batch, hidden]
    return {"sequence_output": sequence, "pooled_output": pooler(first) if pooler else first}


def _with_all_inputs(features):
    if not isinstance(features, dict):
        features = {"token_ids": features}
    if features.get("token_ids") is None or not set(features) <= set(FEATURES):
        raise ValueError(
            f"features must have token_ids and may have {', '.join(FEATURES[1:])}. "
            f"Received: {sorted(features)}"
        )
    return {name: features.get(name) for name in FEATURES}


def _check_ids(name, value, limit):
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    if len(value.shape) != 2:
        raise ValueError(f"{name} must be [batch, length]. Received: shape={tuple(value.shape)}")
    dtype = keras.backend.standardize_dtype(value.dtype)
    if "int" not in dtype and dtype != "bool":
        raise ValueError(f"{name} must be integers. Received: dtype={dtype}")
    known = _values(value) if limit else None
    if known is not None and known.size and not 0 <= known.min() <= known.max() < limit:
        worst = known.max() if known.max() >= limit else known.min()
        raise ValueError(f"{name} must be in [0, {limit}). Received: {worst}")
    return value


def _check_equal_shapes(features):
    expected = tuple(features["token_ids"].shape)
    for name, value in features.items():
        received = expected if value is None else tuple(value.shape)
        if any(None not in pair and pair[0] != pair[1] for pair in zip(received, expected)):
            raise ValueError(
                f"{name} must have the shape of token_ids, {expected}. Received: shape={received}"
            )


def _values(tensor):
    """The numbers in a tensor, or None while a graph is being traced."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return np.asarray(tensor)
    except (NotImplementedError, TypeError):  # a symbolic tensor of TensorFlow, a tracer of JAX
        return None
