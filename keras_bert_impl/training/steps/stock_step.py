"""The step for backends other than TensorFlow and JAX: Keras's own."""

import contextlib

from keras_bert_impl.io.errors import InputError


def num_replicas() -> int:
    """Returns 1: under `keras.distribution` a step sees the global batch."""
    return 1


class StockStep:
    """Accepts the same `compile` arguments as on TensorFlow."""

    step_watch = None

    def _compile(self, options, *args, **kwargs):
        for name in ("objective", "remat"):
            if getattr(options, name):
                raise InputError(f"{name}=... needs the TensorFlow backend.")
        if options.accumulation_steps != 1:
            raise InputError(
                "accumulation_steps needs the TensorFlow backend; on this one create the optimizer "
                f"with gradient_accumulation_steps={options.accumulation_steps} instead."
            )
        super().compile(*args, **kwargs)

    @contextlib.contextmanager
    def _fitting(self, arguments):
        yield arguments
