"""Google's published BERT, ALBERT and ELECTRA: TensorFlow checkpoints and SavedModels."""

from keras_bert_impl.interop.google.opening import is_google_checkpoint, open_google_checkpoint
from keras_bert_impl.interop.google.writing import write_google_checkpoint
