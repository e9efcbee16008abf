"""Ways to tune a model: which of its weights learn, how fast, and what is kept of them."""

import importlib

# Loaded on first use: the command line reads settings without TensorFlow.
_HOMES = {
    "GradualUnfreezing": "choice",
    "ParameterReport": "choice",
    "TuningSettings": "settings",
    "choose_weights": "choice",
    "count_parameters": "choice",
    "freeze": "choice",
    "learning_rates": "choice",
    "reinitialize": "choice",
    "save_tuned": "files",
    "train_biases": "choice",
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
