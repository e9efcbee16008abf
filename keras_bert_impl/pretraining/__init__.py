"""Pre-training: corpus → documents → sentences → examples → rows → records → masked batches."""

import importlib

# Public name -> module, loaded on first use: the readers need no TensorFlow.
_HOMES = {
    "read_documents": "readers",
    "split_sentences": "sentences",
    "prepare": "preparation",
    "read_manifest": "records",
    "pretraining_dataset": "dataset",
    "Masking": "masking",
    "Pretrainer": "pretrainer",
    "pretrain": "run",
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
