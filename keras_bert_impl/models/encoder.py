"""The encoder: token ids in, a vector for every token and one for the sequence out."""

import dataclasses

import keras
import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.files import replace_directory
from keras_bert_impl.interop import (
    ModelDirectory,
    encoder_tensors,
    huggingface_config,
    read_encoder_config,
    write_model_directory,
)
from keras_bert_impl.layers import (
    AttentionBias,
    Embeddings,
    MeanPooling,
    Pooler,
    TransformerBlock,
)
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
            max_length=config.max_length if config.rotary_base is None else 0,
            num_segments=config.num_segments,
            embedding_dim=config.embedding_dim,
            position_offset=config.position_offset,
            pad_token_id=config.pad_token_id,
            dropout=config.dropout,
            layer_norm_epsilon=config.layer_norm_epsilon,
            initializer_range=config.initializer_range,
            use_bias=config.use_bias,
            dtype=dtype,
            name="embeddings",
        )
        global_bias = local_bias = AttentionBias(dtype=dtype, name="attention_bias")
        if config.window is not None:
            local_bias = AttentionBias(config.window, dtype=dtype, name="local_attention_bias")
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
                attention_norm=index > 0 or not config.final_norm,
                use_bias=config.use_bias,
                gated=config.gated,
                rotary_base=config.rotary_base_of(index),
                dtype=dtype,
                name=f"layer_{index}",
            )
            for index in range(config.num_layer_groups or config.num_layers)
        ]
        blocks = [block for block in blocks for _ in range(config.num_layers // len(blocks))]
        biases = [
            local_bias if config.is_local(index) else global_bias
            for index in range(config.num_layers)
        ]
        final_layer_norm = None
        if config.final_norm:
            final_layer_norm = keras.layers.LayerNormalization(
                epsilon=config.layer_norm_epsilon,
                center=config.use_bias,
                dtype=dtype,
                name="final_layer_norm",
            )
        mean_pooling = None
        if config.pooling == "mean":
            mean_pooling = MeanPooling(dtype=dtype, name="mean_pooling")
        pooler = None
        if config.use_pooler:
            pooler = Pooler(config.initializer_range, dtype=dtype, name="pooler")

        # === Functional model ===
        inputs = _inputs()
        states, _ = _connect(inputs, embeddings, biases, blocks, final_layer_norm)
        outputs = _outputs(states[-1], inputs["padding_mask"], mean_pooling, pooler)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)
        self.dtype_policy = dtype  # a functional model takes no policy

        # === Config ===
        self.config = config
        self.embeddings = embeddings
        self.attention_biases = biases
        self.blocks = blocks
        self.final_layer_norm = final_layer_norm
        self.mean_pooling = mean_pooling
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
    def from_pretrained(cls, directory, dtype=None, **overrides):
        """An encoder with the weights of a model directory in the Hugging Face layout.

        Args:
            directory: str or `Path` with `config.json` and `model.safetensors`.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `dropout=0.0`.

        Raises:
            InputError: a file or tensor is missing, damaged or of another shape; names it.

        Example:
            >>> encoder = Encoder.from_pretrained("path/to/model", dropout=0.0)
        """
        source = ModelDirectory(directory)
        config = read_encoder_config(source)
        with values_deferred():
            encoder = cls(dataclasses.replace(config, **overrides), dtype=dtype)
        load_weights(encoder, source, encoder_tensors(encoder.config))
        return encoder

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
        inputs = encoder._checked(features)
        states, scores = _connect(
            inputs,
            encoder.embeddings,
            encoder.attention_biases,
            encoder.blocks,
            encoder.final_layer_norm,
            with_scores="attention_scores" in self.names,
        )
        details = {"hidden_states": tuple(states), "attention_scores": tuple(scores)}
        outputs = _outputs(
            states[-1], inputs["padding_mask"], encoder.mean_pooling, encoder.pooler
        )
        return outputs | {name: details[name] for name in self.names}


def _inputs():
    return {
        name: keras.Input((None,), dtype="int32", name=name, optional=name != "token_ids")
        for name in FEATURES
    }


def _connect(inputs, embeddings, attention_biases, blocks, final_layer_norm, with_scores=False):
    """Applies the layers; returns all hidden states and, if asked for, all attention weights."""
    token_ids, position_ids = inputs["token_ids"], inputs["position_ids"]
    made = {
        layer: layer(token_ids, inputs["padding_mask"], inputs["example_ids"])
        for layer in dict.fromkeys(attention_biases)
    }
    states = [embeddings(token_ids, inputs["segment_ids"], position_ids)]
    scores = []
    for block, layer in zip(blocks, attention_biases):
        bias = made[layer]
        state = block(states[-1], bias, position_ids, return_attention_scores=with_scores)
        if with_scores:
            state, block_scores = state
            scores.append(block_scores)
        states.append(state)
    if final_layer_norm is not None:
        states[-1] = final_layer_norm(states[-1])
    return states, scores


def _outputs(sequence, padding_mask, mean_pooling, pooler):
    pooled = mean_pooling(sequence, padding_mask) if mean_pooling else sequence[:, 0]
    return {"sequence_output": sequence, "pooled_output": pooler(pooled) if pooler else pooled}


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
