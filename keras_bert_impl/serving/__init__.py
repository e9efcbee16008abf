"""Models as artefacts that run without this package."""

from keras_bert_impl.serving.saved_model import export_classifier
