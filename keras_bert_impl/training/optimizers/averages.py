"""Evaluation with moving averages of the weights."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_bert_impl.keras_internals import averages_of, has_value, index_of


class EvaluatesAverages(keras.callbacks.Callback):
    """Evaluates with the optimizer's moving averages (`use_ema`) during `fit`."""

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._weights = [variable.numpy() for variable in self.model.trainable_variables]
        use_averages(self.model)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        for variable, value in zip(self.model.trainable_variables, self._weights, strict=True):
            variable.assign(value)


def use_averages(model: keras.Model) -> None:
    """Sets a model's weights to their moving averages, if any, as `fit` does at its end."""
    model.optimizer.finalize_variable_values(model.trainable_variables)


def overwrite_with_averages(
    optimizer: keras.optimizers.Optimizer, variables: Iterable[keras.Variable]
) -> None:
    """Sets variables to their moving averages in an optimizer."""
    for variable in variables:
        average = averages_of(optimizer)[index_of(optimizer, variable)]
        # On JAX, an error in `fit` may have left no values; and without the copy, both would share
        # a buffer, which a step donates.
        if average is not None and has_value(average):
            variable.assign(keras.ops.copy(average))
