"""Selects the trained weights and their learning rates, and saves only the trained weights."""

import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.cards import write_card
from keras_bert_impl.checkpoints.interop import (
    adapterhub,
    encoder_tensors,
    open_model,
    read_encoder_config,
    tensor_prefix,
    write_tuned,
)
from keras_bert_impl.checkpoints.interop.opening import (
    Tuned,
    replace_model_directory,
    write_adapterhub,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import added_names, tensors_of
from keras_bert_impl.training.tuning.settings import BIAS, HEAD, TuningSettings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import expanded, local_path


def choose_weights(model: keras.Model, settings: TuningSettings) -> None:
    """Freezes and reinitializes layers according to the settings.

    `model` must be a `TaskModel`. If the settings name an adapter, the model must have this
    adapter. Raises `InputError` if the encoder has fewer layers than the settings require, or no
    biases.
    """
    encoder = model.encoder
    num_layers = len(layers_of(encoder)) - 1
    for name in ("frozen_layers", "reinitialized_layers"):
        if (getattr(settings, name) or 0) > num_layers:
            raise InputError(
                f"{name} must be at most {num_layers}, the number of layers (layers with shared "
                f"weights count once). Received: {getattr(settings, name)}"
            )
    if settings.reinitialized_layers:
        reinitialize(encoder, settings.reinitialized_layers)
    if settings.tuning == BIAS:
        train_biases(encoder)
    elif settings.tuning == HEAD:
        freeze(encoder, num_layers)
    elif settings.frozen_layers is not None:
        freeze(encoder, settings.frozen_layers)


def layers_of(encoder: Encoder) -> list[list[keras.layers.Layer]]:
    """Returns the layers of an encoder from bottom to top, without the pooler."""
    blocks = [[block] for block in dict.fromkeys(encoder.blocks)]
    if encoder.final_layer_norm is not None:
        blocks[-1].append(encoder.final_layer_norm)
    embeddings = [encoder.embeddings]
    if encoder.virtual_tokens is not None:
        embeddings.append(encoder.virtual_tokens)
    return [embeddings, *blocks]


def freeze(encoder: Encoder, num_layers: int) -> None:
    """Freezes the embeddings and the first blocks, and unfreezes the other blocks.

    Args:
        num_layers: Number of blocks to freeze. Blocks with the same weights, as in ALBERT, count
            once. If all blocks are frozen, the final normalization is frozen as well. The pooler
            stays trainable.
    """
    for depth, layers in enumerate(layers_of(encoder)):
        for layer in layers:
            layer.trainable = depth > num_layers


def train_biases(encoder: Encoder) -> None:
    """Makes only the encoder's biases trainable, including the biases of normalizations.

    Raises `InputError` if the encoder has no biases. Source: Ben Zaken et al. 2022, section 3.
    """
    for weight in encoder.weights:
        weight.trainable = re.search("/(bias|beta)$", weight.path) is not None
    if not encoder.trainable_weights:
        raise InputError(f"a {encoder.config.architecture} encoder has no biases to train.")


def reinitialize(encoder: Encoder, num_layers: int) -> None:
    """Reinitializes the last `num_layers` blocks and the pooler, as in a new encoder.

    Blocks with the same weights count once. The weights depend on Keras's global random seed.

    Source: Zhang et al. 2021, section 4.
    """
    draw = keras.initializers.TruncatedNormal(stddev=encoder.config.initializer_range)
    layers = [layer for layers in layers_of(encoder)[1:][-num_layers:] for layer in layers]
    for layer in [*layers, *([encoder.pooler] if encoder.pooler else [])]:
        for weight in layer.weights:
            kind = weight.path.rpartition("/")[2]
            fill = {"kernel": draw.clone(), "gamma": "ones"}.get(kind, "zeros")
            weight.assign(keras.initializers.get(fill)(weight.shape, dtype=weight.dtype))


def learning_rates(
    model: keras.Model, layer_decay: float = 1.0, head_factor: float = 1.0, crf_factor: float = 1.0
) -> list[tuple[str, float]]:
    """Returns learning-rate factors for `AdamW(rates=...)`.

    Args:
        layer_decay: Factor for the last block. The block below has the factor `layer_decay ** 2`,
            and so on, down to the embeddings.
        head_factor: Factor for all weights above the blocks, including the pooler but not a CRF.
        crf_factor: Factor for the CRF weights.

    Source: Clark et al. 2020, appendix B. The authors' code uses `layer_decay ** 2` for the last
        block.
    """
    layers = layers_of(model.encoder)
    rates = [
        (f"^{re.escape(layer.name)}/", layer_decay ** (len(layers) - depth))
        for depth, part in enumerate(layers)
        for layer in part
    ]
    return [*rates, ("^crf/", crf_factor), ("", head_factor)]


def count_parameters(model: keras.Model) -> tuple[int, int]:
    """Returns the number of all parameters and the number of trainable parameters: (int, int)."""
    return tuple(
        sum(math.prod(weight.shape) for weight in weights)
        for weights in (model.weights, model.trainable_weights)
    )


class ParameterReport(keras.callbacks.Callback):
    """Prints the number of trainable parameters to standard error when training starts."""

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        total, trainable = count_parameters(self.model)
        print(
            f"{total:,} parameters, of which {trainable:,} ({trainable / total:.2%}) are trainable",
            file=sys.stderr,
        )


class GradualUnfreezing(keras.callbacks.Callback):
    """Gradual unfreezing: starts with the head; unfreezes one block per epoch, from the top.

    The first epoch trains all weights above the blocks. The embeddings are unfrozen after the
    lowest block. A resumed run trains the same layers as an uninterrupted run. Weights that were
    frozen before `fit` stay frozen. When `fit` ends, even with an error, all weights that were
    trainable before are trainable again.

    Args:
        frozen_layers: Layers that are never trained; see `TuningSettings`.

    Source: Howard & Ruder 2018, section 3.3.

    Example:
        from keras_bert_impl.training.tuning import GradualUnfreezing
        model.fit(texts, labels, epochs=4, callbacks=[GradualUnfreezing()])
    """

    def __init__(self, frozen_layers: int | None = None) -> None:
        super().__init__()
        self._lowest = 0 if frozen_layers is None else frozen_layers + 1

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # The optimizer needs slots for all weights, including weights that are unfrozen later.
        if not self.model.optimizer.built:
            with self.model.distribute_strategy.scope():
                self.model.optimizer.build(self.model.trainable_variables)
        # `trainable` of a layer would also unfreeze its frozen sublayers, so it is set on weights.
        self._weights = [
            [weight for layer in part for weight in layer.trainable_weights]
            for part in layers_of(self.model.encoder)
        ]
        self.model.after_fit.callback(self._train_from, 0)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._train_from(max(len(self._weights) - epoch, self._lowest))

    def _train_from(self, lowest):
        before = len(self.model.trainable_variables)
        for depth, weights in enumerate(self._weights):
            for weight in weights:
                weight.trainable = depth >= lowest
        if len(self.model.trainable_variables) != before:
            self.model.make_train_function(force=True)


def save_tuned(model: keras.Model, directory: str | Path, base: str | Path) -> None:
    """Saves the fine-tuned weights, the head and a reference to the base model.

    `from_pretrained` of the model's class, or `tasks.load_tuned`, reads the directory. LoRA weights
    are saved in the file format of the `peft` library, so `peft` can load them.

    Args:
        model: The fine-tuned model.
        directory: Output directory. Existing files with the same names are replaced.
        base: The base model; see `interop.open_model`. The base model's name and the checksum of
            its weights are saved.

    Raises:
        InputError: frozen weights differ from the base model, or the directory is the base model.

    Example:
        adapter = Adapter("lora", size=8)
        model = TextClassifier.from_pretrained("base", num_classes=2, adapter=adapter)
        model.fit(texts, labels)
        save_tuned(model, "tuned", "base")
        TextClassifier.from_pretrained("tuned")
    """
    directory = local_path(directory)
    base = expanded(base)
    tuned, source = _collect_tuned(model, directory, base)
    name = os.path.abspath(base) if os.path.isdir(base) else str(base)
    with replace_directory(directory) as temporary:
        write_tuned(temporary, tuned, name, source)
        model.save_more(temporary)
        write_card(model, temporary, directory, base)


def save_adapterhub(model: keras.Model, directory: str | Path, base: str | Path) -> None:
    """Saves a bottleneck adapter and its head for the `adapters` library of AdapterHub.

    `load_adapter(directory, use_safetensors=True)` of a model such as `BertAdapterModel` reads the
    directory, and so does `from_pretrained(directory, base=base)` of the model's class.

    Args:
        model: A `TextClassifier`, `TokenClassifier` or `QuestionAnswerer` with an adapter of kind
            `"houlsby"` or `"pfeiffer"` on a BERT, RoBERTa, XLM-RoBERTa or ELECTRA encoder, but no
            `TextClassifier` with ELECTRA, whose classifier has another activation.
        directory: Output directory. Files that an earlier call wrote to the directory are replaced.
        base: The base model; see `save_tuned`.

    Raises:
        InputError: The file format of AdapterHub does not support the model, or the directory
            contains other files of fine-tuned weights.

    Example:
        from keras_bert_impl.training.tuning import save_adapterhub
        adapter = Adapter("pfeiffer", size=8)
        model = TextClassifier.from_pretrained("base", num_classes=2, adapter=adapter)
        save_adapterhub(model, "for-adapterhub", "base")
    """
    directory = local_path(directory)
    base = expanded(base)
    tuned, _ = _collect_tuned(model, directory, base)
    with replace_model_directory(directory, adapterhub.WRITTEN) as temporary:
        write_adapterhub(temporary, tuned, str(base))


def _collect_tuned(model, directory, base):
    source = open_model(base)
    if directory.is_dir() and directory.samefile(source.path):
        raise InputError(f"{directory} contains the base model; choose another directory.")
    read_encoder_config(source)
    encoder = model.encoder
    trainable = {weight.path for weight in encoder.trainable_weights}
    names = encoder_tensors(encoder.config)
    learned = {n.tensor for n in names if n.variable in trainable or source.shape(n.tensor) is None}
    _check_kept(encoder, source, [name for name in names if name.tensor not in learned], base)
    changed = tensors_of(
        encoder,
        [name for name in names if name.tensor in learned],
        prefix=tensor_prefix(encoder.config),
    )
    changed |= tensors_of(model, model.head_names())
    added = tensors_of(encoder, added_names(encoder))
    return Tuned(model.file_config(), model.config, model.head, added, changed), source


def _check_kept(encoder, source, names, base):
    """Raises `InputError` if the encoder's frozen weights differ from the base model."""
    for tensor, array in tensors_of(encoder, names).items():
        original = source.read(tensor).astype(encoder.variable_dtype).astype("float32")
        if not np.array_equal(original, array):
            raise InputError(
                f"tensor {tensor} differs from the tensor in {base}: the model was tuned from "
                "another base, or the tensor was not frozen."
            )
