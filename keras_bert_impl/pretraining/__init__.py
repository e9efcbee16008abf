"""Pre-training: corpus → documents → sentences → examples → rows → records → masked batches."""

from keras_bert_impl.utils.lazy import lazy_names

# Public name -> module. Names are loaded lazily because the readers do not need TensorFlow.
_HOMES = {
    "adapt": "adaptation",
    "clean": "corpus.cleaning",
    "read_documents": "corpus.readers",
    "split_sentences": "corpus.sentences",
    "prepare": "corpus.preparation",
    "read_manifest": "examples.records",
    "pretraining_dataset": "masking.dataset",
    "Masking": "masking.masking",
    "mask_tokens": "masking.token_masks",
    "Pretrainer": "pretrainer",
    "pretrain": "run",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
