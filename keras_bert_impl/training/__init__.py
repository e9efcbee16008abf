"""Training: the step, optimizers, learning-rate schedules, strategies and checkpoints."""

from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.lamb import LAMB
from keras_bert_impl.training.optimizers.schedules import (
    CosineWarmupDecay,
    LinearWarmupDecay,
    OneCycle,
    SpendsBudget,
    TimeBudget,
)
from keras_bert_impl.training.sharding import encoder_layout
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.training.strategy import get_strategy
