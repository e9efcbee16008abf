"""What all task models share: an encoder with a head, and a tokenizer, in one model directory."""

import dataclasses

import keras

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_directory
from keras_bert_impl.interop import (
    encoder_tensors,
    head_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    tensor_prefix,
    write_model_directory,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.serialization import deserialize_parts
from keras_bert_impl.models.weights import load_weights, tensors_of, values_deferred
from keras_bert_impl.tasks.raw_text import FEATURES, RawTextTrainer
from keras_bert_impl.tokenizers import Tokenizer

_OWN_SETTINGS = "keras_bert_impl"  # a key of config.json that other libraries pass over


class TaskModel(RawTextTrainer, keras.Model):
    """An encoder with a head, trained and asked with raw strings; see `RawTextTrainer`.

    A subclass makes the head, says what labels and scores are, and for files which head it is and
    what settings it has: `head`, `settings`, `pretrained_arguments`, `task_config`, `save_more`.

    Args:
        encoder: `Encoder`.
        tokenizer: `Tokenizer`.
        inputs: what `task_inputs()` returned.
        outputs: what the head makes of `encoder(inputs)`.
        max_length: int. Texts are cut to so many tokens. Default 128, or what the encoder allows
            if that is less.

    Raises:
        InputError: encoder, tokenizer and `max_length` do not fit together.
    """

    head = None  # its name, as of `interop.head_tensors`; None for an encoder alone
    settings = ()  # names of attributes, also arguments, that files keep beside `max_length`

    def __init__(self, encoder, tokenizer, inputs, outputs, max_length=None, name=None):
        limit = encoder.config.max_length
        max_length = min(128, limit) if max_length is None else max_length
        if not 3 <= max_length <= limit:
            raise InputError(
                f"max_length must be from 3 to {limit}, the positions of the encoder. "
                f"Received: max_length={max_length}"
            )
        if tokenizer.vocabulary_size > encoder.config.vocabulary_size:
            raise InputError(
                f"the tokenizer has {tokenizer.vocabulary_size} tokens, the encoder embeddings "
                f"for {encoder.config.vocabulary_size}: they do not belong together."
            )
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.max_length = max_length

    @property
    def config(self):
        """The encoder's `EncoderConfig`."""
        return self.encoder.config

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "name": self.name,
            **self._own_settings(),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(
            **deserialize_parts(config, "encoder", "tokenizer", custom_objects=custom_objects)
        )

    def _own_settings(self):
        return {name: getattr(self, name) for name in ("max_length", *self.settings)}

    # === Files ===

    @classmethod
    def from_pretrained(cls, name_or_path, dtype=None, dropout=None, max_length=None, **kwargs):
        """A task model with the weights of a model directory in the Hugging Face layout.

        A directory without a head of this kind, a pretrained encoder, gets a new one.

        Args:
            name_or_path: str or `Path`: a directory or a name; see `interop.open_model`.
            dtype: Keras dtype policy, such as `"mixed_bfloat16"`; None for the global one.
            dropout: float. Replaces every rate: in the encoder, on attention, before the head.
                Default: those of the directory.
            max_length: int. Default: that of the directory, or 128.
            **kwargs: as of the class: `num_classes`, `labels`, `problem_type`.

        Raises:
            InputError: a file or tensor is missing, damaged or of another shape; names it.
        """
        source = open_model(name_or_path)
        config = read_encoder_config(source)
        config = dataclasses.replace(config, use_pooler=cls.uses_pooler(config))
        if max_length is not None:
            kwargs["max_length"] = max_length
        kept = cls.saved_settings(source)
        arguments = cls.pretrained_arguments(source, config, kept | kwargs)
        if dropout is not None:
            config = dataclasses.replace(config, dropout=dropout, attention_dropout=dropout)
            if cls.head is not None:
                arguments["head_dropout"] = dropout
        tokenizer = Tokenizer.from_pretrained(source.path)
        with values_deferred():
            model = cls(Encoder(config, dtype), tokenizer, **arguments)
        load_weights(model, source, encoder_tensors(config) + model.pretrained_head(source))
        return model

    @staticmethod
    def uses_pooler(config):
        """Whether the head is on the pooler of an encoder of `config`."""
        return False

    @classmethod
    def saved_settings(cls, source):
        """Arguments of the class that a `ModelSource` keeps of the model that was saved there."""
        own = source.config.get(_OWN_SETTINGS) or {}
        return {name: own[name] for name in ("max_length", *cls.settings) if name in own}

    @classmethod
    def pretrained_arguments(cls, source, config, arguments):
        """Arguments of the class: those given, and for the rest those in a `ModelSource`."""
        return dict(arguments)

    def head_names(self):
        """List of `TensorName` of the head."""
        return [] if self.head is None else head_tensors(self.config, self.head)

    def pretrained_head(self, source):
        """Those of the head's tensors to read from a `ModelSource`."""
        return self.head_names()

    def task_config(self):
        """What the task adds to `config.json`."""
        return {}

    def save_pretrained(self, directory):
        """Writes a model directory, with tokenizer and head, that `transformers` loads too.

        Args:
            directory: str or `Path`; files of the same names are replaced.
        """
        config = huggingface_config(
            self.config,
            self.head,
            **self.task_config(),
            **{_OWN_SETTINGS: self._own_settings()},
        )
        prefix = "" if self.head is None else tensor_prefix(self.config)
        tensors = tensors_of(self, encoder_tensors(self.config), prefix=prefix)
        tensors |= tensors_of(self, self.head_names())
        with replace_directory(directory) as temporary:
            write_model_directory(temporary, config, tensors)
            self.tokenizer.save_pretrained(temporary)
            self.save_more(temporary)

    def save_more(self, directory):
        """Writes files that only this task has into a model directory.

        Args:
            directory: `Path`.
        """


def task_inputs():
    """dict of the inputs of a task model's network, int32 `[batch, length]` each."""
    return {name: keras.Input((None,), dtype="int32", name=name) for name in FEATURES}
