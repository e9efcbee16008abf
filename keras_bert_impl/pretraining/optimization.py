"""The optimizer and the learning-rate schedule of a pre-training run."""

from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.budget import TimeBudget
from keras_bert_impl.training.optimizers.lamb import LAMB
from keras_bert_impl.training.optimizers.schedules import (
    CosineWarmupDecay,
    LinearWarmupDecay,
    OneCycle,
)

_OPTIMIZERS = {"adamw": AdamW, "lamb": LAMB}
_SCHEDULES = {"linear": LinearWarmupDecay, "cosine": CosineWarmupDecay, "one_cycle": OneCycle}


def make_schedule(settings):
    """Returns the learning-rate schedule for `PretrainSettings`."""
    if settings.schedule == "budget":
        return TimeBudget(settings.learning_rate, 3600 * settings.budget_hours)
    warmup_steps = settings.warmup_steps
    if warmup_steps is None:
        share = 0.3 if settings.schedule == "one_cycle" else 0.1
        warmup_steps = int(share * settings.total_steps)
    schedule = _SCHEDULES[settings.schedule]
    return schedule(settings.learning_rate, warmup_steps, settings.total_steps)


def make_optimizer(settings, schedule):
    """Returns the optimizer for `PretrainSettings`; `schedule` is from `make_schedule`."""
    return _OPTIMIZERS[settings.optimizer](
        schedule,
        weight_decay=settings.weight_decay,
        beta_2=settings.beta_2,
        epsilon=settings.epsilon,
        bias_correction=settings.bias_correction,
        global_clipnorm=settings.global_clipnorm,
        use_ema=settings.ema is not None,
        ema_momentum=settings.ema or 0.0,
    )
