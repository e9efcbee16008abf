"""Scores of runs in tests."""

from keras_bert_impl.data.scores.comparison import BASELINES


def without_baselines(scores):
    """Returns the scores of a run's model on its development set."""
    return {name: v for name, v in scores.items() if name.partition("/")[0] not in BASELINES}
