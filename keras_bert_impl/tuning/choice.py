"""Which weights of a task model learn, and how fast."""

import math
import re
import sys

import keras

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tuning.settings import BIAS, HEAD


def choose_weights(model, settings):
    """Makes the weights learn that settings name; begins anew those that are to.

    Args:
        model: `TaskModel` with the adapter of the settings.
        settings: `TuningSettings`.

    Raises:
        InputError: the encoder has fewer layers, or no biases.
    """
    encoder = model.encoder
    num_layers = len(layers_of(encoder)) - 1
    for name in ("frozen_layers", "reinitialized_layers"):
        if (getattr(settings, name) or 0) > num_layers:
            raise InputError(
                f"{name} must be up to {num_layers}, the layers with weights of their own. "
                f"Received: {getattr(settings, name)}"
            )
    if settings.reinitialized_layers:
        reinitialize(encoder, settings.reinitialized_layers)
    if settings.tuning == BIAS:
        train_biases(encoder)
    elif settings.tuning == HEAD:
        freeze(encoder, num_layers)
    elif settings.frozen_layers is not None:
        freeze(encoder, settings.frozen_layers)


def layers_of(encoder):
    """Layers of an encoder from the bottom to the top, without the pooler.

    Args:
        encoder: `Encoder`.

    Returns:
        list of lists of Keras layers: the embeddings, then each block that has weights of its own;
        with the last of them is the final normalization.
    """
    blocks = [[block] for block in dict.fromkeys(encoder.blocks)]
    if encoder.final_layer_norm is not None:
        blocks[-1].append(encoder.final_layer_norm)
    embeddings = [encoder.embeddings]
    if encoder.virtual_tokens is not None:
        embeddings.append(encoder.virtual_tokens)
    return [embeddings, *blocks]


def freeze(encoder, num_layers):
    """Keeps the embeddings and the first blocks as they are; the others learn.

    Args:
        encoder: `Encoder`.
        num_layers: int, blocks with weights of their own. With all of them the final normalization
            is kept, too; the pooler learns.
    """
    for depth, layers in enumerate(layers_of(encoder)):
        for layer in layers:
            layer.trainable = depth > num_layers


def train_biases(encoder):
    """Makes the biases learn, those of normalizations included, and nothing else.

    Source: Ben Zaken et al. 2022, section 3.

    Raises:
        InputError: the encoder has none.
    """
    for weight in encoder.weights:
        weight.trainable = re.search("/(bias|beta)$", weight.path) is not None
    if not encoder.trainable_weights:
        raise InputError(f"a {encoder.config.architecture} encoder has no biases to tune.")


def reinitialize(encoder, num_layers):
    """Draws new weights for the last blocks and the pooler, as a new encoder has them.

    Args:
        encoder: `Encoder`.
        num_layers: int, blocks with weights of their own; of Keras's random state.

    Source: Zhang et al. 2021, section 4.
    """
    draw = keras.initializers.TruncatedNormal(stddev=encoder.config.initializer_range)
    layers = [layer for layers in layers_of(encoder)[1:][-num_layers:] for layer in layers]
    for layer in [*layers, *([encoder.pooler] if encoder.pooler else [])]:
        for weight in layer.weights:
            kind = weight.path.rpartition("/")[2]
            fill = {"kernel": draw.clone(), "gamma": "ones"}.get(kind, "zeros")
            weight.assign(keras.initializers.get(fill)(weight.shape, dtype=weight.dtype))


def learning_rates(model, layer_decay=1.0, head_factor=1.0, crf_factor=1.0):
    """Factors of the learning rate, for `AdamW(rates=...)`.

    Args:
        model: `TaskModel`.
        layer_decay: float. The last block has this factor, the one below its square, and so on to
            the embeddings.
        head_factor: float, of all that is above the blocks, the pooler included, but for a CRF.
        crf_factor: float, of the scores of a CRF.

    Returns:
        list of (regular expression of paths, float).

    Source: Clark et al. 2020, appendix B, whose code gives the last block the square.
    """
    layers = layers_of(model.encoder)
    rates = [
        (f"^{re.escape(layer.name)}/", layer_decay ** (len(layers) - depth))
        for depth, part in enumerate(layers)
        for layer in part
    ]
    return [*rates, ("^crf/", crf_factor), ("", head_factor)]


def count_parameters(model):
    """(int, int): all parameters of a model, and those that learn."""
    return tuple(
        sum(math.prod(weight.shape) for weight in weights)
        for weights in (model.weights, model.trainable_weights)
    )


class ParameterReport(keras.callbacks.Callback):
    """Says at the start of training, on standard error, how many parameters learn."""

    def on_train_begin(self, logs=None):
        total, trainable = count_parameters(self.model)
        print(
            f"{total:,} parameters, of which {trainable:,} ({trainable / total:.2%}) learn",
            file=sys.stderr,
        )


class GradualUnfreezing(keras.callbacks.Callback):
    """The first epoch trains what is above the blocks, and each epoch one block more, from the top.

    The embeddings follow the lowest block. A run that goes on in the middle trains what it would
    have trained. What is frozen before `fit` stays frozen; what `fit` froze is trainable after it,
    however it ends.

    Args:
        frozen_layers: int or None, see `TuningSettings`: never trained.

    Source: Howard & Ruder 2018, section 3.3.

    Example:
        model.fit(texts, labels, epochs=4, callbacks=[GradualUnfreezing()])
    """

    def __init__(self, frozen_layers=None):
        super().__init__()
        self._lowest = 0 if frozen_layers is None else frozen_layers + 1

    def on_train_begin(self, logs=None):
        # With the slots of all weights that will learn at some time.
        if not self.model.optimizer.built:
            with self.model.distribute_strategy.scope():
                self.model.optimizer.build(self.model.trainable_variables)
        # Weights, not layers: a layer that is set trainable would take its frozen parts along.
        self._weights = [
            [weight for layer in part for weight in layer.trainable_weights]
            for part in layers_of(self.model.encoder)
        ]
        self.model.after_fit.callback(self._train_from, 0)

    def on_epoch_begin(self, epoch, logs=None):
        self._train_from(max(len(self._weights) - epoch, self._lowest))

    def _train_from(self, lowest):
        before = len(self.model.trainable_variables)
        for depth, weights in enumerate(self._weights):
            for weight in weights:
                weight.trainable = depth >= lowest
        if len(self.model.trainable_variables) != before:
            self.model.make_train_function(force=True)
