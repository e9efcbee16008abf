"""Lazy imports of public names, and of classes that Keras loads by name."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import import_hint

PACKAGE = __name__.partition(".")[0]
_OPTIONAL = ("jax", "matplotlib", "scipy")  # optional dependencies of TensorFlow and Keras


def lazy_names(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns (`__getattr__`, `__dir__`, `__all__`) of a package with lazy imports."""
    names = sorted(homes)

    def get(name):
        if name in homes:
            home = homes[name]  # a module in the package, or a full module name
            module = home if home.startswith(f"{PACKAGE}.") else f"{package}.{home}"
            return getattr(_import_module(module), name)
        hint = import_hint(package, name)
        # `from package import name` hides the message of an AttributeError. Its import machinery
        # is the only caller that needs an ImportError.
        if hint and sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap":
            raise ImportError(f"{package} has no {name}. {hint}", name=package)
        message = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(f"{message}. {hint}" if hint else message)

    def list_names():
        return sorted([*vars(importlib.import_module(package)), *names])

    return get, list_names, names


def _import_module(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("TF_USE_LEGACY_KERAS", "0").lower() in ("1", "true"):
            raise ImportError(
                "TF_USE_LEGACY_KERAS is set, so TensorFlow uses Keras 2, but this package needs "
                f"Keras 3. Unset TF_USE_LEGACY_KERAS. ({error})"
            ) from error
        raise
    keep_accelerators_for_jax()
    register_classes()
    return module


def import_tensorflow_alone() -> None:
    """Imports TensorFlow without JAX, matplotlib and SciPy: 2 seconds and 190 MB less.

    Only commands and worker processes call it, because it hides these packages for a moment.
    """
    if not sys.modules.keys().isdisjoint({"tensorflow", *_OPTIONAL}):
        return
    # TensorFlow imports Keras, which imports JAX unless the backend is TensorFlow.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    sys.modules.update(
        dict.fromkeys(_OPTIONAL)
    )  # An import fails if the entry of the module is None.
    try:
        import tensorflow  # noqa: F401
    finally:
        for name in _OPTIONAL:
            del sys.modules[name]


def keep_accelerators_for_jax() -> None:
    """Hides GPUs and TPUs from TensorFlow if Keras uses the JAX backend."""
    keras, tf = sys.modules.get("keras"), sys.modules.get("tensorflow")
    if keras is None or tf is None or keras.backend.backend() != "jax":
        return
    for kind in ("GPU", "TPU"):
        if not tf.config.get_visible_devices(kind):
            continue
        try:
            tf.config.set_visible_devices([], kind)
        except RuntimeError as error:
            if os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") == "false":
                return
            raise InputError(
                f"TensorFlow already uses the {kind}, which JAX needs. Import keras_bert_impl "
                "before the first TensorFlow operation, or call "
                f"tf.config.set_visible_devices([], {kind!r}) first. To share the memory of a "
                "GPU, set TF_FORCE_GPU_ALLOW_GROWTH=true and XLA_PYTHON_CLIENT_PREALLOCATE=false."
            ) from error


# === Classes that Keras loads by name ===

# Module that imports them -> classes that are registered with Keras.
REGISTERED = {
    "layers": "AdapterDense AttentionBias BigBirdAttention CRF ChoiceLogits ClassificationHead Dense "
    "Dropout Embeddings ExampleIds GatherPositions GlobalAttentionBias LastPooling LayerMix "
    "LayerNormalization LoRADense LongformerAttention MaskedLMHead MaxPooling MeanPooling "
    "MeanSqrtPooling MergeGroups PoolWindows Pooler Prefix ResidualHead RotaryPositions ScalarMix "
    "SegmentMask SelfAttention SplitGroups TransformerBlock VirtualTokens WeightedMeanPooling",
    "models.encoder": "Encoder DetailedEncoder",
    "pretraining.objectives": "objectives>MaskedLM objectives>LeftToRight objectives>NextSentence "
    "objectives>SentenceOrder objectives>SpanBoundary objectives>SpanBoundaryHead "
    "objectives>Distillation objectives>LayerDistillation objectives>ReplacedTokens "
    "objectives>SampleTokens",
    "pretraining.pretrainer": "Pretrainer _OutputMean",
    "tasks": "TextEmbedder CausalLM MaskedLM MultipleChoice QuestionAnswerer FeatureTagger "
    "TokenClassifier TextClassifier NextSentencePredictor",
    "data.scores.counting": "Accuracy TokenAccuracy",
    "tokenizers": "ByteLevelBPETokenizer MosesBPETokenizer SentencePieceTokenizer "
    "WordPieceTokenizer",
    "training": "AdamW LAMB LinearWarmupDecay CosineWarmupDecay OneCycle RunSchedule TimeBudget "
    "OwnModel",
}


class _Unloaded:
    """A registered class whose module is not imported yet. Keras calls `from_config`."""

    def __init__(self, module: str, key: str, registered: dict[str, Any]) -> None:
        self._module, self._key, self._registered = module, key, registered

    def from_config(self, config: dict[str, Any]) -> Any:
        module = _import_module(f"{PACKAGE}.{self._module}")
        getattr(module, self._key.rpartition(">")[2], None)  # a lazy name
        return self._registered[self._key].from_config(config)


def register_classes() -> None:
    """Makes `keras.models.load_model` find the classes of this package, if Keras is imported.

    A class registers itself when its module is imported. Other classes are imported when Keras
    loads them.
    """
    keras = sys.modules.get("keras")
    if not hasattr(keras, "saving"):
        return
    registered = keras.saving.get_custom_objects()
    for module, names in REGISTERED.items():
        for entry in names.split():
            *folder, name = entry.split(">")
            key = f"{'.'.join([PACKAGE, *folder])}>{name}"
            registered.setdefault(key, _Unloaded(module, key, registered))
