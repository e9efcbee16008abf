"""The step on backends other than TensorFlow: Keras's own."""

from keras_bert_impl.errors import InputError


def num_replicas():
    """Always 1: under `keras.distribution` a step sees the global batch."""
    return 1


class StockStep:
    """Takes the arguments that `compile` takes on TensorFlow, and refuses accumulation and remat.

    `dropout_seed` has no effect: Keras's step passes no step number to the layers. Nor has
    `watch_steps`.
    """

    step_watch = None

    def compile(
        self,
        *args,
        accumulation_steps=1,
        dropout_seed=0,
        remat=False,
        watch_steps=False,
        **kwargs,
    ):
        if remat:
            raise InputError("remat needs the TensorFlow backend.")
        if accumulation_steps != 1:
            raise InputError(
                "accumulation_steps needs the TensorFlow backend; on this one give the optimizer "
                f"gradient_accumulation_steps={accumulation_steps} instead."
            )
        super().compile(*args, **kwargs)
