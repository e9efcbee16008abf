"""`TaskModel`: an encoder with a head and a tokenizer, saved in one model directory."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import keras

from keras_bert_impl.checkpoints.cards import in_transformers, write_card
from keras_bert_impl.checkpoints.config import ADAPTER_RATES, HEAD_RATES, Adapter, EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    OWN_SETTINGS,
    encoder_tensors,
    head_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    replace_model_directory,
    tensor_prefix,
    write_model_directory,
)
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource, write_json
from keras_bert_impl.data.batches.words import common_words
from keras_bert_impl.layers.adapters import ADDED
from keras_bert_impl.models.encoder import Encoder
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
)
from keras_bert_impl.serving.graphs.formats import SAVED_MODEL, export_model
from keras_bert_impl.serving.graphs.networks import Network
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.tasks.base.explaining import Explained
from keras_bert_impl.tasks.base.kept_settings import (
    TOKENIZER_ASSET,
    TokenizerOfFile,
    checked_length,
    facts_of,
    kept_settings,
    within_positions,
)
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.tasks.base.options import MAX_LENGTH
from keras_bert_impl.tasks.base.raw_text import RawTextTrainer, quantized_error
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import check_constructor, first_guesses
from keras_bert_impl.utils.internals import is_of_package, is_writing_file, requirement
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.reading import read_json
from keras_bert_impl.utils.settings import DType, check

_log = logging.getLogger(__name__)
MODEL_CLASS = "model_class"  # key in the settings of this package in `config.json`


@first_guesses("TaskModel")
@no_hdf5
class TaskModel(Explained, RawTextTrainer, keras.Model):
    """An encoder with a task head. The inputs are raw strings; see `RawTextTrainer`.

    Subclasses create the head, and define labels and scores. To load and save files, subclasses set
    `head` and `settings`, and override `pretrained_arguments`, `task_config` and `save_more`.

    Args:
        inputs: return value of `task_inputs()`.
        outputs: outputs of the head for `encoder(inputs)`.
        max_length: texts are truncated to this number of tokens. Default: 128, or the encoder's
            maximum if it is lower.
        long_texts: how long texts are handled, see `LongTexts`. Default: truncate.

    Raises:
        InputError: the tokenizer has more tokens than the encoder, or `max_length` is invalid.
    """

    head: str | None = None  # see `interop.head_tensors`; None without a head
    signature_class: type[Signatures] | None = None
    network: type[Network] | None = None
    settings: tuple[str, ...] = ()  # saved arguments, in addition to `max_length`
    signature_settings: tuple[str, ...] = ()  # arguments of `signatures`
    has_class_logits = False  # whether outputs are class logits, which distillation requires

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        inputs: dict[str, Any],
        outputs: Any,
        max_length: int | None = None,
        long_texts: LongTexts | str | dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        if tokenizer.vocabulary_size > encoder.config.vocabulary_size:
            raise InputError(
                f"the tokenizer has {tokenizer.vocabulary_size} tokens, but the encoder has "
                f"embeddings for {encoder.config.vocabulary_size}. Load both from the same model."
            )
        name = name or new_name(type(self).__name__)
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.encoder = encoder
        has_pairs = encoder.config.has_pair_segments
        self.tokenizer = tokenizer if has_pairs else tokenizer.with_one_segment()
        default = min(MAX_LENGTH, self.config.max_length)
        self.max_length = default if max_length is None else max_length
        self.long_texts = self.long_texts.changed(long_texts)

    @property
    def config(self) -> EncoderConfig:
        """The encoder's `EncoderConfig`."""
        return self.encoder.config

    @property
    def max_length(self) -> int:
        """Maximum sequence length; longer texts are truncated."""
        return self._max_length

    @max_length.setter
    def max_length(self, value: int) -> None:
        self._max_length = checked_length(value, self.config.max_length)

    @property
    def splits_texts(self) -> bool:
        """Whether long texts are split into windows instead of truncated."""
        return self.long_texts.has_windows

    @property
    def default_learning_rate(self) -> float:
        """Peak learning rate of the default optimizer."""
        adapter = self.config.adapter
        return 3e-5 if adapter is None else ADAPTER_RATES[adapter.kind]

    @property
    def default_rates(self) -> list[tuple[str, float]]:
        """Learning rate factors for some weights; see `AdamW`."""
        kind = getattr(self.config.adapter, "kind", None)
        if kind not in HEAD_RATES:
            return []
        return [(ADDED, 1.0), ("", HEAD_RATES[kind] / ADAPTER_RATES[kind])]

    def get_config(self) -> dict[str, Any]:
        if self.is_quantized:
            raise quantized_error("saved")
        # In a file, the vocabulary is an asset, because Keras prints the config in its messages.
        is_asset = is_writing_file() and is_of_package(type(self))
        is_asset = is_asset and is_of_package(type(self.tokenizer))
        serialize = keras.saving.serialize_keras_object
        return {
            **requirement(self),
            "encoder": serialize(self.encoder),
            "tokenizer": facts_of(self.tokenizer) if is_asset else serialize(self.tokenizer),
            "name": self.name,
            "frozen": frozen(self),
            **self.own_settings(),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> "TaskModel":
        config = {name: value for name, value in config.items() if name != "requires"}
        state = config.pop("frozen", None)
        parts = ["encoder"]
        if "class_name" in config["tokenizer"]:
            parts.append("tokenizer")
        else:
            config["tokenizer"] = TokenizerOfFile(config["tokenizer"])
        model = cls(**deserialize_parts(config, *parts, custom_objects=custom_objects))
        set_frozen(model, state)
        return model

    def save_assets(self, directory: str) -> None:
        """Writes the tokenizer into a `.keras` file; Keras calls this."""
        config = keras.saving.serialize_keras_object(self.tokenizer)
        write_json(Path(directory) / TOKENIZER_ASSET, config)

    def load_assets(self, directory: str) -> None:
        """Reads the tokenizer from a `.keras` file; Keras calls this after `from_config`."""
        if isinstance(self.tokenizer, TokenizerOfFile):
            config = read_json(Path(directory) / TOKENIZER_ASSET)
            self.tokenizer.become(keras.saving.deserialize_keras_object(config))

    def own_settings(self) -> dict[str, Any]:
        """Returns the constructor arguments that are saved with the model."""
        settings = {name: getattr(self, name) for name in ("max_length", *self.settings)}
        if "long_texts" in settings:
            settings |= {"long_texts": dataclasses.asdict(self.long_texts)}
        return settings

    # === Serving ===

    def signatures(self) -> Signatures:
        """Returns the serving signatures of the exported model."""
        return self.signature_class(self, self.encoder, self.tokenizer, self.max_length)

    def export(
        self,
        filepath: str | Path,
        format: str = SAVED_MODEL,
        verbose: Any = None,
        ids_only: bool = False,
        custom_ops: bool = True,
        **settings: Any,
    ) -> None:
        """Exports the model in a format that runs without this package.

        On the JAX backend, a separate process with the TensorFlow backend writes the files.

        Args:
            filepath: the directory to write.
            format: `"tf_saved_model"` or `"mediapipe"`, which take raw strings, or `"onnx"`,
                `"litert"` or `"openvino"`, which take token ids; see `docs/runtimes.md`.
            verbose: accepted for compatibility with Keras's `export`; nothing is printed.
            ids_only: whether a SavedModel takes token ids only and does not need `tensorflow_text`.
            custom_ops: whether a SavedModel may use operations of `tensorflow_text`. If False, the
                SavedModel requires only TensorFlow; the outputs do not change.
            **settings: arguments of `serving.onnx.export_onnx` or the function for another format,
                such as `precision="int8"`; for a SavedModel, see `signatures`.

        Raises:
            InputError: the format is unknown or does not support a setting.
        """
        if self.is_quantized and keras.backend.backend() != "tensorflow":
            raise quantized_error("exported on this backend")
        export_model(self, filepath, format, ids_only, custom_ops, settings)

    # === Files ===

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        dtype: Any = None,
        dropout: float | None = None,
        max_length: int | None = None,
        adapter: Adapter | None = None,
        base: str | Path | None = None,
        **kwargs: Any,
    ) -> "TaskModel":
        """Loads a task model from a directory with files in the Hugging Face format.

        If the directory does not contain a head for this task, the head is newly initialized.

        Args:
            name_or_path: a directory or a name; see `interop.open_model`.
            dtype: Keras dtype policy, such as `"mixed_bfloat16"`; None for the global one.
            dropout: dropout rate of the encoder, its attention and the head.
                Default: the saved rates.
            max_length: see the class. Default: the saved value, or 128.
            adapter: `Adapter` to add to a model without an adapter.
            base: for a directory written by `save_tuned`: directory or name of the original model.
                Default: the location during fine-tuning.
            **kwargs: arguments of the class: `num_classes`, `labels`, `problem_type`.

        Raises:
            InputError: a file or tensor is missing, damaged or has the wrong shape.
        """
        if isinstance(dtype, str):
            check("dtype", dtype, DType)
        check_constructor(cls, kwargs)
        source = open_model(name_or_path, base=base)
        config = read_encoder_config(source, with_adapter=True, head=cls.head)
        config = dataclasses.replace(config, use_pooler=cls.uses_pooler(config))
        if adapter is not None:
            if config.adapter is not None:
                raise InputError(f"{name_or_path} already has an adapter, {config.adapter.kind}.")
            config = dataclasses.replace(config, adapter=adapter)
        if max_length is not None:
            kwargs["max_length"] = max_length
        settings = within_positions(cls.saved_settings(source, kwargs), config, name_or_path)
        if "long_texts" in kwargs:
            saved = LongTexts().changed(settings.get("long_texts"))
            kwargs["long_texts"] = saved.changed(kwargs["long_texts"])
        arguments = cls.pretrained_arguments(source, config, settings | kwargs)
        config = cls.encoder_config(config, arguments)
        if dropout is not None:
            config = dataclasses.replace(config, dropout=dropout, attention_dropout=dropout)
            if cls.head is not None:
                arguments["head_dropout"] = dropout
        tokenizer = Tokenizer.from_pretrained(source.path)
        with values_deferred():
            model = cls(Encoder(config, dtype), tokenizer, **arguments)
        names = encoder_tensors(config) + model.pretrained_head(source)
        load_weights(model, source, names + (added_names(model) if source.adapter else []))
        model.order_classes(source)
        if adapter is not None and adapter.kind == "prompt":
            words = common_words(tokenizer)  # words are better initial values than noise
            if words:
                model.encoder.virtual_tokens.begin_as(model.encoder.embeddings, words)
        return model

    def order_classes(self, source: ModelSource) -> None:
        """Reorders the classes of a loaded head to the order of the model's labels."""

    @classmethod
    def encoder_config(cls, config: EncoderConfig, arguments: dict[str, Any]) -> EncoderConfig:
        """Returns the `EncoderConfig` for these constructor arguments."""
        return config

    @staticmethod
    def uses_pooler(config: EncoderConfig) -> bool:
        """Whether the head uses the encoder's pooler."""
        return False

    @classmethod
    def saved_settings(cls, source: ModelSource, given: dict[str, Any]) -> dict[str, Any]:
        """Reads the saved constructor arguments; ignores settings of other classes.

        Args:
            source: the model directory.
            given: arguments that the user passes.
        """
        saved_by = source.config.mapping(OWN_SETTINGS).get(MODEL_CLASS)
        is_same = saved_by is None or saved_by in [base.__name__ for base in cls.__mro__]
        names = ("max_length", *(cls.settings if is_same else ()))
        return kept_settings(source.config, cls, names)

    @classmethod
    def pretrained_arguments(
        cls, source: ModelSource, config: EncoderConfig, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns `arguments`, with defaults from the model directory `source`."""
        return dict(arguments)

    def head_names(self) -> list[TensorName]:
        """Returns the tensor names of the head and pooling layers."""
        if self.head is None:
            return self.pooling_names()
        return head_tensors(self.config, self.head) + self.pooling_names()

    def pooling_names(self) -> list[TensorName]:
        """Returns the tensor names of the pooling layers."""
        return self.long_texts.tensors()

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        """Returns the names of the head tensors to load from the model directory `source`."""
        return self.head_names()

    def task_config(self) -> dict[str, Any]:
        """Returns the task's entries of `config.json`."""
        return {"sep_token_id": self.tokenizer.sep_id} if self.config.max_global_tokens else {}

    def file_config(self) -> dict[str, Any]:
        """Returns the contents of `config.json`."""
        return huggingface_config(
            dataclasses.replace(self.config, adapter=None),
            self.head,
            **self.task_config(),
            **{OWN_SETTINGS: {MODEL_CLASS: type(self).__name__, **self.own_settings()}},
        )

    def save_pretrained(self, directory: str | Path) -> None:
        """Saves the model, tokenizer and head to a directory that `transformers` can also load.

        LoRA weights are merged into the model. Logs a warning about settings that `transformers`
        does not support.

        Args:
            directory: directory to write; existing files with the same names are replaced.

        Raises:
            InputError: the encoder has an adapter other than LoRA; use `save_tuned`.
        """
        if self.is_quantized:
            raise quantized_error("saved")
        _, tensors = self.encoder.without_adapter(tensor_prefix(self.config) if self.head else "")
        tensors |= tensors_of(self, self.head_names())
        with replace_model_directory(directory) as temporary:
            write_model_directory(temporary, self.file_config(), tensors)
            self.tokenizer.save_pretrained(temporary, self.config)
            self.save_more(temporary)
            write_card(self, temporary, directory)
        if self.only_here():
            _log.warning("%s: %s", directory, in_transformers(self.only_here()))

    def only_here(self) -> list[str]:
        """Returns the settings that `transformers` does not support."""
        windows = self.long_texts.has_windows
        return [f"long_texts={self.long_texts.way!r}"] if windows else []

    def save_more(self, directory: Path) -> None:
        """Writes task-specific files into a model directory."""

    def save_settings(self, directory: Path) -> None:
        """Writes the task's settings into `config.json`."""
        path = directory / "config.json"
        config = read_json(path)
        config[OWN_SETTINGS] |= self.own_settings()
        with replace_file(path) as temporary:
            write_json(temporary, config)
