"""Fine-tuning methods: which weights are trained, at what rate, and which are saved."""

from keras_bert_impl.lazy import lazy_names

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
    "save_tuned": "choice",
    "train_biases": "choice",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
