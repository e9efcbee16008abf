"""The encoder: maps token ids to a vector for each token and one for the sequence."""

import dataclasses

import keras

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.first_guesses import first_guesses
from keras_bert_impl.interop import (
    encoder_tensors,
    huggingface_config,
    open_keras_hub_model,
    open_model,
    read_encoder_config,
    to_keras_hub,
    write_model_directory,
)
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.layers import (
    AttentionBias,
    Embeddings,
    LastPooling,
    LoRADense,
    MeanPooling,
    Pooler,
    TransformerBlock,
    VirtualTokens,
    is_added,
)
from keras_bert_impl.models import inputs
from keras_bert_impl.models.serialization import frozen, set_frozen
from keras_bert_impl.models.weights import (
    added_names,
    load_weights,
    tensors_of,
    values_deferred,
)


@first_guesses("Encoder")
@keras.saving.register_keras_serializable("keras_bert_impl")
class Encoder(keras.Model):
    """A BERT-style encoder, defined by its configuration alone.

    If the configuration has an adapter, only the adapter and the pooler are trainable.

    Args:
        config: `EncoderConfig`.
        dtype: Keras dtype policy, such as `"mixed_bfloat16"`. None uses the global policy.
        shared_embeddings: `Embeddings` of another encoder, whose tables are used; see the `shared`
            argument of `Embeddings`.
        trainable: bool. False freezes all weights.

    Call arguments:
        features: dict of int32 `[batch, length]` tensors. `token_ids` is required. Optional:
            `segment_ids` (default 0), `padding_mask` (1 for a real token; default all 1),
            `position_ids` (default 0, 1, 2, ...) and `example_ids` (for rows that pack several
            examples: the example's number, from 1, and 0 for padding; tokens attend only within
            their example).

    Returns:
        dict with `sequence_output` `[batch, length, hidden]`, in the variable dtype, and
        `pooled_output` `[batch, hidden]`.

    Raises:
        ValueError: an input has the wrong rank or dtype, is longer than the configuration allows,
            or contains an id without an embedding.

    Source: Devlin et al., "BERT", section 3.

    Example:
        >>> encoder = Encoder(EncoderConfig.named("bert_uncased_L-2_H-128_A-2"))
        >>> encoder({"token_ids": [[101, 7592, 102]]})["pooled_output"].shape
        TensorShape([1, 128])
    """

    def __init__(
        self,
        config,
        dtype=None,
        name="encoder",
        shared_embeddings=None,
        trainable=True,
        **kwargs,
    ):
        if not isinstance(config, EncoderConfig):
            line = (
                f"Encoder.from_pretrained({config!r})"
                if isinstance(config, str)
                else ("Encoder(EncoderConfig(...))")
            )
            raise InputError(f"config must be an EncoderConfig, not {config!r:.60}. Write {line}.")
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
            shared=shared_embeddings,
            dtype=dtype,
            name="embeddings",
        )
        virtual_tokens, num_virtual_tokens = None, 0
        if config.adapter is not None and config.adapter.kind == "prompt":
            num_virtual_tokens = config.adapter.size
            virtual_tokens = VirtualTokens(
                num_virtual_tokens,
                config.initializer_range,
                dtype=dtype.variable_dtype,
                name="virtual_tokens",
            )
        global_bias = local_bias = AttentionBias(
            None, config.causal, num_virtual_tokens, dtype=dtype, name="attention_bias"
        )
        if config.window is not None:
            local_bias = AttentionBias(
                config.window,
                config.causal,
                num_virtual_tokens,
                dtype=dtype,
                name="local_attention_bias",
            )
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
                window=config.window if config.is_local(index) else None,
                adapter=config.adapter,
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
                dtype=dtype.variable_dtype,
                name="final_layer_norm",
            )
        pooling = None
        if config.pooled_by != "cls":
            pooling_class = {"mean": MeanPooling, "last": LastPooling}[config.pooled_by]
            pooling = pooling_class(dtype=dtype, name=f"{config.pooled_by}_pooling")
        pooler = None
        if config.use_pooler:
            pooler = Pooler(config.initializer_range, dtype=dtype, name="pooler")

        # === Functional model ===
        features = inputs.symbols()
        states, _ = _connect(features, embeddings, virtual_tokens, biases, blocks, final_layer_norm)
        outputs = _outputs(states[-1], features["padding_mask"], pooling, pooler)
        super().__init__(inputs=features, outputs=outputs, name=name, **kwargs)
        self.dtype_policy = dtype  # a functional model takes no policy

        # === Config ===
        self.config = config
        self.embeddings = embeddings
        self.virtual_tokens = virtual_tokens
        self.attention_biases = biases
        self.blocks = blocks
        self.final_layer_norm = final_layer_norm
        self.pooling = pooling
        self.pooler = pooler
        if config.adapter is not None:
            for variable in self.weights:
                in_pooler = variable.path.startswith("pooler/")
                variable.trainable = in_pooler or is_added(variable.path)
        if not trainable:
            self.trainable = False  # Keras's constructor would set it before the layers exist

    # A functional model needs a value, if only None, for each optional input. Trainers go through
    # `__call__` (TensorFlow) or `call` (JAX), functional models through `compute_output_spec`.
    def __call__(self, features, *args, **kwargs):
        features = inputs.checked(features, self.config)
        if self.virtual_tokens is not None:
            given = [n for n in ("position_ids", "example_ids") if features[n] is not None]
            if given:
                raise InputError(f"an encoder with virtual tokens takes no {', '.join(given)}.")
        return super().__call__(features, *args, **kwargs)

    def call(self, features, training=None, mask=None):
        return super().call(inputs.with_all_names(features), training=training)

    def compute_output_spec(self, features, training=None, mask=None):
        shape = (*features["token_ids"].shape, self.config.hidden_dim)
        return {
            "sequence_output": keras.KerasTensor(shape, dtype=self.variable_dtype),
            "pooled_output": keras.KerasTensor((shape[0], shape[2]), dtype=self.compute_dtype),
        }

    @classmethod
    def from_pretrained(cls, name_or_path, dtype=None, **overrides):
        """Loads an encoder with published or saved weights.

        Args:
            name_or_path: str or `Path`. A directory or a model name; see `interop.open_model`.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `dropout=0.0`.

        Raises:
            InputError: a file or tensor is missing, damaged or has the wrong shape. The message
                names it.

        Example:
            >>> encoder = Encoder.from_pretrained("path/to/model", dropout=0.0)
            >>> encoder = Encoder.from_pretrained("hf://google-bert/bert-base-uncased")
        """
        return cls._from_source(open_model(name_or_path), dtype, overrides)

    @classmethod
    def from_preset(cls, preset, **kwargs):
        """Same as `from_pretrained`, under KerasHub's name, for a KerasHub preset."""
        return cls.from_pretrained(preset, **kwargs)

    @classmethod
    def _from_source(cls, source, dtype, overrides):
        config = read_encoder_config(source, with_adapter=True)
        with values_deferred():
            encoder = cls(dataclasses.replace(config, **overrides), dtype=dtype)
        names = added_names(encoder) if source.adapter else []
        load_weights(encoder, source, encoder_tensors(encoder.config) + names)
        return encoder

    @classmethod
    def from_keras_hub(cls, backbone, dtype=None, **overrides):
        """Creates an encoder with the weights of a KerasHub backbone.

        Args:
            backbone: a backbone from `keras_hub.models`, such as a `BertBackbone`.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `use_pooler=False`.

        Raises:
            InputError: the backbone is of an unsupported class or configuration.

        Example:
            >>> import keras_hub
            >>> backbone = keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased")
            >>> encoder = Encoder.from_keras_hub(backbone)
        """
        return cls._from_source(open_keras_hub_model(backbone), dtype, overrides)

    def to_keras_hub(self, dtype=None):
        """Returns a KerasHub backbone with this encoder's weights.

        Args:
            dtype: Keras dtype policy.

        Raises:
            InputError: KerasHub has no backbone for this configuration.
        """
        return to_keras_hub(*self.without_adapter(), dtype)

    def save_pretrained(self, directory):
        """Writes a model directory that `transformers` and `from_pretrained` load.

        Args:
            directory: str or `Path`. Files with the same names are replaced.
        """
        config, tensors = self.without_adapter()
        with replace_directory(directory) as temporary:
            write_model_directory(temporary, huggingface_config(config), tensors)

    def without_adapter(self, prefix=""):
        """Returns the configuration and tensors of the encoder with LoRA merged into its weights.

        An ordinary encoder with these has the same outputs.

        Args:
            prefix: str. Prepended to each tensor name.

        Returns:
            (`EncoderConfig` without an adapter, dict from tensor names as in a model directory to
            arrays).

        Raises:
            InputError: the encoder has an adapter other than LoRA.
        """
        config, merged = self.config, {}
        if config.adapter is not None:
            if config.adapter.kind != "lora":
                raise InputError(
                    f"the model has an adapter, {config.adapter.kind}, which an ordinary model "
                    "directory has no place for; write it with save_tuned."
                )
            config = dataclasses.replace(config, adapter=None)
            merged = {
                layer.kernel.path: layer.merged_kernel()
                for block in dict.fromkeys(self.blocks)
                for layer in block.dense_layers()
                if isinstance(layer, LoRADense)
            }
        return config, tensors_of(self, encoder_tensors(config), prefix, merged)

    def with_outputs(self, *names):
        """Returns a model that shares this encoder's weights and also returns intermediate tensors.

        Args:
            *names: str, the extra outputs. `"hidden_states"`: a tuple of the embeddings and each
                layer's output, `num_layers + 1` tensors `[batch, length, hidden]`.
                `"attention_scores"`: a tuple of each layer's attention weights after the softmax,
                float32 `[batch, heads, length, length]`. `"attention_logits"`: the same before the
                softmax, without the attention bias; not available for encoders with local
                attention, nor together with `"attention_scores"`.

        Returns:
            `keras.Model` whose output dict has these names in addition to the encoder's own.

        Example:
            outputs = encoder.with_outputs("attention_scores")(features)
        outputs["attention_scores"][0]  # of the first layer
        """
        attention = {"attention_scores", "attention_logits"}
        unknown = set(names) - attention - {"hidden_states"}
        if unknown or not names or attention <= set(names):
            raise ValueError(
                'names must be of "hidden_states", and "attention_scores" or "attention_logits". '
                f"Received: names={names}"
            )
        if "attention_logits" in names and self.config.window is not None:
            raise InputError("attention_logits are not to be had of an encoder with local layers.")
        return _DetailedEncoder(self, names)

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "frozen": frozen(self),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        dtype = keras.dtype_policies.deserialize(config.pop("dtype"))
        state = config.pop("frozen", None)
        encoder = cls(EncoderConfig(**config.pop("config")), dtype=dtype, **config)
        set_frozen(encoder, state)
        return encoder


class _DetailedEncoder(keras.Model):
    """Runs an encoder's layers and returns their intermediate outputs.

    Not a functional model: in one, a layer has the same number of outputs in every call.
    """

    def __init__(self, encoder, names):
        super().__init__(name=f"{encoder.name}_with_{'_and_'.join(names)}")
        self.encoder = encoder
        self.names = names
        self.built = True  # Keras 3.12 would look for shapes in features that are None

    # Not in `call`: on JAX, Keras casts ids to int32 before.
    def __call__(self, features, *args, **kwargs):
        features = inputs.checked(features, self.encoder.config)
        return super().__call__(features, *args, **kwargs)

    def call(self, features, training=None):  # Keras passes `training` on to the layers
        encoder = self.encoder
        features = inputs.with_all_names(features)
        states, scores = _connect(
            features,
            encoder.embeddings,
            encoder.virtual_tokens,
            encoder.attention_biases,
            encoder.blocks,
            encoder.final_layer_norm,
            with_scores=_scores_of(self.names),
        )
        details = {
            "hidden_states": tuple(states),
            "attention_scores": tuple(scores),
            "attention_logits": tuple(scores),
        }
        outputs = _outputs(states[-1], features["padding_mask"], encoder.pooling, encoder.pooler)
        return outputs | {name: details[name] for name in self.names}

    def compute_output_spec(self, features, training=None):
        # Without this, Keras would trace all layers twice in a functional model.
        outputs, config = self.encoder.compute_output_spec(features), self.encoder.config
        state = outputs["sequence_output"]
        batch, length, _ = state.shape
        weights = batch, config.num_heads, length, length
        details = {
            "hidden_states": [(state.shape, state.dtype)] * (config.num_layers + 1),
            "attention_scores": [(weights, "float32")] * config.num_layers,
            "attention_logits": [(weights, "float32")] * config.num_layers,
        }
        return outputs | {
            name: tuple(keras.KerasTensor(shape, dtype) for shape, dtype in details[name])
            for name in self.names
        }


def _scores_of(names):
    """Maps output names to the blocks' `return_attention_scores` argument."""
    return "logits" if "attention_logits" in names else "attention_scores" in names


def _connect(
    features,
    embeddings,
    virtual_tokens,
    attention_biases,
    blocks,
    final_layer_norm,
    with_scores=False,
):
    """Applies the layers; returns all hidden states and, if requested, all attention scores."""
    token_ids, position_ids = features["token_ids"], features["position_ids"]
    made = {
        layer: layer(token_ids, features["padding_mask"], features["example_ids"])
        for layer in dict.fromkeys(attention_biases)
    }
    states = [embeddings(token_ids, features["segment_ids"], position_ids)]
    num_virtual_tokens = 0
    if virtual_tokens is not None:
        states[0] = virtual_tokens(states[0])
        num_virtual_tokens, position_ids = virtual_tokens.num_tokens, None
    scores = []
    for block, layer in zip(blocks, attention_biases):
        bias = made[layer]
        state = block(states[-1], bias, position_ids, return_attention_scores=with_scores)
        if with_scores:
            state, block_scores = state
            scores.append(block_scores[:, :, num_virtual_tokens:, num_virtual_tokens:])
        states.append(state)
    if final_layer_norm is not None:
        states[-1] = final_layer_norm(states[-1])
    if virtual_tokens is not None:
        states = [state[:, num_virtual_tokens:] for state in states]
    return states, scores


def _outputs(sequence, padding_mask, pooling, pooler):
    pooled = pooling(sequence, padding_mask) if pooling else sequence[:, 0]
    return {"sequence_output": sequence, "pooled_output": pooler(pooled) if pooler else pooled}
