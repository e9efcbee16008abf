"""Moving averages of the weights in place of the weights, where a model is evaluated."""

import keras

from keras_bert_impl.keras_internals import averages_of, index_of


class EvaluatesAverages(keras.callbacks.Callback):
    """While `fit` evaluates, a model has the averages that its optimizer keeps (`use_ema`).

    Then it has its weights again, bit for bit; those that `keras.callbacks.SwapEMAWeights` gives
    back are rounded.
    """

    def on_test_begin(self, logs=None):
        """Called by Keras."""
        self._weights = [variable.numpy() for variable in self.model.trainable_variables]
        use_averages(self.model)

    def on_test_end(self, logs=None):
        """Called by Keras."""
        for variable, value in zip(self.model.trainable_variables, self._weights, strict=True):
            variable.assign(value)


def use_averages(model):
    """Gives a model the averages of its weights, as `fit` does at its end, if there are any."""
    model.optimizer.finalize_variable_values(model.trainable_variables)
    if keras.backend.backend() == "jax":  # both would be one buffer, which a step gives away
        for variable in model.trainable_variables:
            variable.assign(keras.ops.copy(variable))


def overwrite_with_averages(optimizer, variables):
    """Gives variables the averages that an optimizer keeps of them.

    Keras's own pairs them by position, and so mixes them up where not all that the optimizer was
    built with are trainable now.

    Args:
        optimizer: built Keras optimizer with `use_ema`.
        variables: list of variables, some or all of those that it was built with.
    """
    for variable in variables:
        average = averages_of(optimizer)[index_of(optimizer, variable)]
        if average is not None:
            variable.assign(average)
