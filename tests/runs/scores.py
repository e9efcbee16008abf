"""Scores of runs in tests."""


def without_baselines(scores):
    """Returns the scores of a run's model on its development set."""
    return {name: value for name, value in scores.items() if "/" not in name}
