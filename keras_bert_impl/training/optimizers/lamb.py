"""The LAMB optimizer, for very large batches."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.training.optimizers.adamw import MomentOptimizer, update_moments
from keras_bert_impl.utils.internals import index_of

if keras.backend.backend() == "tensorflow":
    from tensorflow import convert_to_tensor as _dense  # also converts IndexedSlices
else:
    _dense = ops.convert_to_tensor


@keras.saving.register_keras_serializable("keras_bert_impl")
class LAMB(MomentOptimizer):
    """Layer-wise adaptive moments for very large batches (You et al. 2020, algorithm 2).

        update = m / (sqrt(v) + epsilon) + weight_decay * weight
        weight -= learning_rate * |weight| / |update| * update

    with m and v as in `AdamW`. `|weight|` and `|update|` are the Euclidean norms over a whole
    variable. The trust ratio `|weight| / |update|` is 1 if one of the norms is 0, and for variables
    that match `not_decayed` (by default, biases and normalization layers).

    Implementations differ. `bias_correction=False` gives the `LAMBOptimizer` of
    google-research/albert. The paper uses bias correction and states that warmup can replace it.
    NVIDIA's FusedLAMB also uses bias correction and clips the global gradient norm to 1 (here:
    `global_clipnorm=1.0`). The paper also limits `|weight|` to a range; this class,
    google-research/albert and FusedLAMB do not.

    Args: see `AdamW`.

    Example:
        optimizer = LAMB(LinearWarmupDecay(2e-3, 100, 1000), global_clipnorm=1.0)
    """

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        index = index_of(self, variable)
        scalars = self._select_scalars(learning_rate, variable, index)
        m, v = self._momentums[index], self._velocities[index]
        update_moments(m, v, _dense(gradient), scalars)
        update = scalars.correction * m / (ops.sqrt(v) + scalars.epsilon)
        step_size = scalars.learning_rate
        if self._is_decayed[index]:
            update = update + self.weight_decay * variable
            step_size = step_size * _compute_trust_ratio(variable, update)
        self.assign_sub(variable, step_size * update)


def _compute_trust_ratio(weight, update):
    weight_norm, update_norm = _compute_norm(weight), _compute_norm(update)
    has_norms = ops.logical_and(weight_norm > 0, update_norm > 0)
    ratio = ops.where(has_norms, weight_norm / ops.where(has_norms, update_norm, 1.0), 1.0)
    return ops.cast(ratio, update.dtype)


def _compute_norm(tensor):
    return ops.sqrt(ops.sum(ops.square(ops.cast(tensor, "float32"))))
