"""Fine-tuning methods: trained weights, learning rates and saved weights."""

from keras_bert_impl.utils.lazy import lazy_names

# Names are loaded lazily, because the command line reads settings without TensorFlow.
_HOMES = {
    "GradualUnfreezing": "choice",
    "ParameterReport": "choice",
    "TuningSettings": "settings",
    "choose_weights": "choice",
    "count_parameters": "choice",
    "freeze": "choice",
    "learning_rates": "choice",
    "reinitialize": "choice",
    "save_adapterhub": "choice",
    "save_tuned": "choice",
    "train_biases": "choice",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
