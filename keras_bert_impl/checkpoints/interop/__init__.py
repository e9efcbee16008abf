"""Reads and writes models in the formats of other libraries, as dicts and NumPy arrays.

If a file cannot be read, an `InputError` names the file and what is missing, damaged or
unsupported.
"""

from keras_bert_impl.checkpoints.interop.google import write_google_checkpoint
from keras_bert_impl.checkpoints.interop.huggingface import (
    all_tensors,
    classifier_dropout,
    classifier_dropout_key,
    encoder_config,
    encoder_tensors,
    has_class,
    has_head,
    has_key,
    head_tensors,
    huggingface_config,
    read_encoder_config,
    tensor_prefix,
    tied_tensors,
)
from keras_bert_impl.checkpoints.interop.keras_hub.models import (
    to_keras_hub,
    write_keras_hub_preset,
)
from keras_bert_impl.checkpoints.interop.opening import (
    GENERATOR,
    OWN_SETTINGS,
    fingerprint,
    open_keras_hub_model,
    open_model,
    replace_model_directory,
    write_tuned,
)
from keras_bert_impl.checkpoints.interop.source import ModelSource, Tensors, write_model_directory
