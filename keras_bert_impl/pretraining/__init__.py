"""Pre-training: corpus → documents → sentences → examples → rows → records → masked batches."""

from keras_bert_impl.lazy import lazy_names

# Public name -> module, loaded on first use: the readers need no TensorFlow.
_HOMES = {
    "adapt": "adaptation",
    "read_documents": "readers",
    "split_sentences": "sentences",
    "prepare": "preparation",
    "read_manifest": "records",
    "pretraining_dataset": "dataset",
    "Masking": "masking",
    "mask_tokens": "token_masks",
    "Pretrainer": "pretrainer",
    "pretrain": "run",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
