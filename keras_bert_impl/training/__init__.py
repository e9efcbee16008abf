"""Training: the step, optimizers, learning-rate schedules, strategies and checkpoints."""

from keras_bert_impl.utils.lazy import lazy_names

# Names are loaded lazily, because the command line reads settings of `tuning` without TensorFlow.
_HOMES = {
    "AdamW": "optimizers.adamw",
    "CosineWarmupDecay": "optimizers.schedules",
    "LAMB": "optimizers.lamb",
    "LinearWarmupDecay": "optimizers.schedules",
    "OneCycle": "optimizers.schedules",
    "ReplicatedTrainer": "steps.trainer",
    "SpendsBudget": "optimizers.schedules",
    "TimeBudget": "optimizers.schedules",
    "encoder_layout": "sharding",
    "get_strategy": "strategy",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
