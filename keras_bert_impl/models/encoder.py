"""The encoder, which maps token ids to a vector for each token and a vector for the sequence."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import keras

from keras_bert_impl.checkpoints.cards import write_card
from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    huggingface_config,
    open_keras_hub_model,
    open_model,
    read_encoder_config,
    replace_model_directory,
    to_keras_hub,
    write_model_directory,
)
from keras_bert_impl.layers import Embeddings, LoRADense, is_added
from keras_bert_impl.layers.basic import ThreadValue
from keras_bert_impl.models.encoder_layers import (
    apply_layers,
    check_call,
    checked,
    create_layers,
    symbols,
    with_all_names,
)
from keras_bert_impl.models.weights import (
    added_names,
    deserialize_parts,
    frozen,
    load_weights,
    new_name,
    no_hdf5,
    set_frozen,
    tensors_of,
    values_deferred,
    values_of_encoder,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import first_guesses
from keras_bert_impl.utils.internals import checks_its_inputs, requirement

DType: TypeAlias = str | keras.DTypePolicy | None  # None: the global dtype policy
Features = Any  # dict of int32 `[batch, length]` tensors, or `token_ids` alone

# A head on the token vectors does not use the pooler, which is no mistake.
warnings.filterwarnings(
    "ignore",
    r"Gradients do not exist for variables "
    r"\['([^']*/)?pooler/dense/kernel', '([^']*/)?pooler/dense/bias'\]",
)
_run = ThreadValue(None)  # the function passed to `encoders_run_by`


@contextlib.contextmanager
def encoders_run_by(run: Callable) -> Iterator[None]:
    """Context manager that replaces the calls of encoders with `run(compute, features)`.

    `compute` is the original call.
    """
    with _run.set(run):
        yield


@first_guesses("Encoder")
@keras.saving.register_keras_serializable("keras_bert_impl")
@no_hdf5
@checks_its_inputs
class Encoder(keras.Model):
    """A BERT-style encoder.

    If the configuration has an adapter, only the adapter and the pooler are trainable.

    Args:
        config: shape and architecture.
        dtype: Keras dtype policy, such as `"mixed_bfloat16"`. None means the global policy.
        shared_embeddings: `Embeddings` layer of another encoder. If given, both encoders share the
            embedding tables.
        trainable: False freezes all weights.

    Call arguments:
        features: dict of int32 `[batch, length]` tensors. `token_ids` is required. Optional are
            `segment_ids` (default 0), `padding_mask` (1 for a real token; default 1) and
            `position_ids` (default 0, 1, 2, ...). Packed examples need `example_ids`: the 1-based
            index of each token's example, or 0 for padding. Longformer also has `global_mask`: 1
            for a global token; default: the first token of each example. The inputs of a
            `keras.Model` from `encoder.input` are `token_ids`, `segment_ids` and `padding_mask`.
            See also `with_outputs`.

    Returns:
        dict with `sequence_output` `[batch, length, hidden]`, in the variable dtype, and
        `pooled_output` `[batch, hidden]`.

    Raises:
        ValueError: An input has the wrong rank or dtype, is longer than the configuration allows,
            or contains an id outside the vocabulary.

    Source: Devlin et al., "BERT", section 3.

    Example:
        >>> encoder = Encoder(EncoderConfig.named("bert_uncased_L-2_H-128_A-2"))
        >>> encoder({"token_ids": [[101, 7592, 102]]})["pooled_output"].shape
        TensorShape([1, 128])
    """

    pipeline_tag = "feature-extraction"  # task name on the Hugging Face hub

    def __init__(
        self,
        config: EncoderConfig,
        dtype: DType = None,
        name: str | None = None,
        shared_embeddings: Embeddings | None = None,
        trainable: bool = True,
        **kwargs,
    ) -> None:
        if not isinstance(config, EncoderConfig):
            is_name = isinstance(config, str)
            line = f".from_pretrained({config!r})" if is_name else "(EncoderConfig(...))"
            raise InputError(
                f"config must be an EncoderConfig, not {config!r:.60}. Write Encoder{line}."
            )
        dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        name = name or new_name(type(self).__name__)

        # === Functional model ===
        with values_of_encoder():
            layers = create_layers(config, dtype, shared_embeddings)
            features = symbols()
            outputs, _, _ = apply_layers(layers, with_all_names(features))
            super().__init__(inputs=features, outputs=outputs, name=name, **kwargs)
        self.dtype_policy = dtype  # The constructor of a functional model does not accept a policy.

        # === Config ===
        self.config = config
        self.embeddings = layers.embeddings
        self.virtual_tokens = layers.virtual_tokens
        self.attention_biases = layers.attention_biases
        self.blocks = layers.blocks
        self.final_layer_norm = layers.final_layer_norm
        self.pooling = layers.pooling
        self.pooler = layers.pooler
        if config.adapter is not None:
            for variable in self.weights:
                in_pooler = variable.path.startswith("pooler/")
                variable.trainable = in_pooler or is_added(variable.path)
        if not trainable:
            self.trainable = False  # Keras's constructor sets `trainable` before the layers exist.

    # Training calls `__call__` (TensorFlow) or `call` (JAX), and functional models call
    # `compute_output_spec`.
    def __call__(self, features: Features, *args, **kwargs) -> dict[str, Any]:
        check_call(kwargs)
        features = checked(features, self.config)
        features = {name: value for name, value in features.items() if value is not None}
        if self.virtual_tokens is not None:
            unsupported = [name for name in ("position_ids", "example_ids") if name in features]
            if unsupported:
                raise InputError(
                    f"an encoder with virtual tokens does not support {', '.join(unsupported)}."
                )
        return super().__call__(features, *args, **kwargs)

    def call(
        self, features: Features, training: bool | None = None, mask: Any = None
    ) -> dict[str, Any]:
        if _run.value is not None:
            return _run.value(self._compute, features)
        features = with_all_names(features)
        if all(features[name] is None for name in features.keys() - self.input.keys()):
            # A functional model needs a value or None for each optional input.
            return super().call({name: features[name] for name in self.input}, training=training)
        features = {
            name: None if value is None else keras.ops.convert_to_tensor(value, "int32")
            for name, value in features.items()
        }
        return apply_layers(self, features, training=training)[0]

    def _compute(self, features, training=None):
        with _run.set(None):
            return self.call(features, training)

    def compute_output_spec(
        self, features: Features, training: bool | None = None, mask: Any = None
    ) -> dict[str, keras.KerasTensor]:
        shape = (*features["token_ids"].shape, self.config.hidden_dim)
        return {
            "sequence_output": keras.KerasTensor(shape, dtype=self.variable_dtype),
            "pooled_output": keras.KerasTensor((shape[0], shape[2]), dtype=self.compute_dtype),
        }

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        dtype: DType = None,
        base: str | Path | None = None,
        name: str | None = None,
        **overrides,
    ) -> "Encoder":
        """Loads an encoder with published or saved weights.

        Args:
            name_or_path: Model directory or name; see `interop.open_model`.
            dtype: Keras dtype policy.
            base: see `TaskModel.from_pretrained`.
            name: name of the layer; two encoders in one functional model need different names.
            **overrides: `EncoderConfig` fields to change, such as `dropout=0.0`.

        Raises:
            InputError: a file or tensor is missing, damaged or has the wrong shape.

        Example:
            >>> encoder = Encoder.from_pretrained("path/to/model", dropout=0.0)
            >>> encoder = Encoder.from_pretrained("hf://google-bert/bert-base-uncased")
        """
        return cls._load_from_source(
            open_model(name_or_path, base=base), dtype, overrides, name=name
        )

    @classmethod
    def _load_from_source(cls, source, dtype, overrides, **arguments):
        config = read_encoder_config(source, with_adapter=True)
        with values_deferred():
            encoder = cls(dataclasses.replace(config, **overrides), dtype=dtype, **arguments)
        names = added_names(encoder) if source.adapter else []
        load_weights(encoder, source, encoder_tensors(encoder.config) + names)
        return encoder

    @classmethod
    def from_keras_hub(cls, backbone: keras.Model, dtype: DType = None, **overrides) -> "Encoder":
        """Creates an encoder with the weights of a KerasHub backbone.

        Args:
            backbone: a backbone from `keras_hub.models`, such as a `BertBackbone`.
            dtype: Keras dtype policy.
            **overrides: `EncoderConfig` fields to change, such as `use_pooler=False`.

        Raises:
            InputError: the class or configuration of the backbone is not supported.

        Example:
            >>> import keras_hub
            >>> backbone = keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased")
            >>> encoder = Encoder.from_keras_hub(backbone)
        """
        return cls._load_from_source(open_keras_hub_model(backbone), dtype, overrides)

    def to_keras_hub(self, dtype: DType = None) -> keras.Model:
        """Returns a KerasHub backbone with this encoder's weights.

        Raises:
            InputError: KerasHub has no backbone for this configuration.
        """
        return to_keras_hub(*self.without_adapter(), dtype)

    def save_pretrained(self, directory: str | Path) -> None:
        """Writes a model directory that `transformers` and `from_pretrained` load.

        Existing files with the same names are replaced.
        """
        config, tensors = self.without_adapter()
        with replace_model_directory(directory) as temporary:
            write_model_directory(temporary, huggingface_config(config), tensors)
            write_card(self, temporary, directory)

    def without_adapter(self, prefix: str = "") -> tuple[EncoderConfig, dict]:
        """Returns the configuration and tensors of the encoder with LoRA merged into its weights.

        Merging does not change the outputs of the encoder.

        Args:
            prefix: string before each tensor name.

        Returns:
            (`EncoderConfig` without an adapter, dict from Hugging Face tensor names to arrays).

        Raises:
            InputError: The encoder has an adapter other than LoRA.
        """
        config, merged = self.config, {}
        if config.adapter is not None:
            if config.adapter.kind != "lora":
                raise InputError(
                    f"a model directory cannot contain a {config.adapter.kind} adapter. Save the "
                    "model with save_tuned."
                )
            config = dataclasses.replace(config, adapter=None)
            merged = {
                layer.kernel.path: layer.merged_kernel()
                for block in dict.fromkeys(self.blocks)
                for layer in block.dense_layers()
                if isinstance(layer, LoRADense)
            }
        return config, tensors_of(self, encoder_tensors(config), prefix, merged)

    def with_outputs(self, *names: str) -> keras.Model:
        """Returns a model with this encoder's weights that also returns intermediate tensors.

        Args:
            *names: the extra outputs. `"hidden_states"`: a tuple of the embeddings and each layer's
                output, `num_layers + 1` tensors `[batch, length, hidden]`. `"attention_scores"`: a
                tuple of each layer's attention weights after the softmax, float32 `[batch, heads,
                length, length]`. `"attention_logits"`: the values before the softmax, without the
                attention bias. Encoders with local attention do not support `"attention_logits"`.
                `"attention_scores"` and `"attention_logits"` cannot be combined.

        Returns:
            `keras.Model` that returns a dict with the encoder's outputs and the requested tensors.

        Example:
            outputs = encoder.with_outputs("attention_scores")(features)
            outputs["attention_scores"][0]  # weights of the first layer
        """
        attention = {"attention_scores", "attention_logits"}
        unknown = set(names) - attention - {"hidden_states"}
        if unknown or not names or attention <= set(names):
            raise ValueError(
                'names may be "hidden_states" and one of "attention_scores" and '
                f'"attention_logits". Received: names={names}'
            )
        local = self.config.window, self.config.block_size
        if "attention_logits" in names and local != (None, None):
            raise InputError(
                "attention_logits are not available for encoders with local attention."
            )
        return DetailedEncoder(self, names)

    def get_config(self) -> dict:
        return {
            **requirement(self),
            "config": self.config.to_dict(),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "frozen": frozen(self),
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> "Encoder":
        config = {name: value for name, value in config.items() if name != "requires"}
        dtype = keras.dtype_policies.deserialize(config.pop("dtype"))
        state = config.pop("frozen", None)
        encoder = cls(EncoderConfig(**config.pop("config")), dtype=dtype, **config)
        set_frozen(encoder, state)
        return encoder


@keras.saving.register_keras_serializable("keras_bert_impl")
class DetailedEncoder(keras.Model):
    """The model that `Encoder.with_outputs` returns."""

    def __init__(self, encoder: Encoder, names: tuple[str, ...], name: str | None = None) -> None:
        super().__init__(name=name or f"{encoder.name}_with_{'_and_'.join(names)}")
        self.encoder = encoder
        self.names = tuple(names)
        self.built = True  # Without this, Keras 3.12 reads the shapes of features that are None.

    # `call` is too late for this check, because Keras on JAX has already cast ids to int32.
    def __call__(self, features: Features, *args, **kwargs) -> dict[str, Any]:
        check_call(kwargs)
        features = checked(features, self.encoder.config)
        return super().__call__(features, *args, **kwargs)

    def call(self, features: Features, training: bool | None = None) -> dict[str, Any]:
        run = _run.value
        return self._compute(features) if run is None else run(self._compute, features)

    def _compute(self, features, training=None):  # Keras passes `training` to the layers.
        kind = "logits" if "attention_logits" in self.names else "attention_scores" in self.names
        features = with_all_names(features)
        outputs, states, scores = apply_layers(self.encoder, features, with_scores=kind)
        details = {name: tuple(scores) for name in self.names} | {"hidden_states": tuple(states)}
        return outputs | {name: details[name] for name in self.names}

    def get_config(self) -> dict:
        # Keras serializes the encoder only once, even if the outer model also contains it.
        return {"encoder": self.encoder, "names": self.names, "name": self.name}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> "DetailedEncoder":
        # `clone_model` passes an encoder that is not serialized.
        if isinstance(config["encoder"], Encoder):
            raise InputError(
                "clone_model cannot copy a model from with_outputs, because the model shares its "
                "weights with an encoder. Write copy.deepcopy(model)."
            )
        return cls(**deserialize_parts(config, "encoder", custom_objects=custom_objects))

    def compute_output_spec(
        self, features: Features, training: bool | None = None
    ) -> dict[str, Any]:
        # Without this method, Keras would trace all layers twice in a functional model.
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
