"""The step on backends other than TensorFlow and JAX: Keras's own."""

from keras_bert_impl.io.errors import InputError


def num_replicas():
    """Always 1: under `keras.distribution` a step sees the global batch."""
    return 1


class StockStep:
    """Takes the arguments that `compile` takes on TensorFlow; refuses accumulation, remat, objectives.

    `dropout_seed` has no effect: Keras's step passes no step number to the layers. Nor has
    `watch_steps`.
    """

    step_watch = None

    def _compile(self, options, *args, **kwargs):
        for name, value in (
            ("an objective of its own", options.objective), ("remat", options.remat)
        ):
            if value:
                raise InputError(f"{name} needs the TensorFlow backend.")
        if options.accumulation_steps != 1:
            raise InputError(
                "accumulation_steps needs the TensorFlow backend; on this one give the optimizer "
                f"gradient_accumulation_steps={options.accumulation_steps} instead."
            )
        super().compile(*args, **kwargs)
