"""The step, the optimizers and schedules, the strategy and the checkpoints of a training run."""

from keras_bert_impl.training.budget import SpendsBudget, TimeBudget
from keras_bert_impl.training.lamb import LAMB
from keras_bert_impl.training.optimizer import AdamW
from keras_bert_impl.training.schedules import CosineWarmupDecay, LinearWarmupDecay, OneCycle
from keras_bert_impl.training.strategy import get_strategy
from keras_bert_impl.training.trainer import ReplicatedTrainer
