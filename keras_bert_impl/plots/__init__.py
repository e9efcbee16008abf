"""Figures as PNG files, drawn with matplotlib (`pip install 'keras-bert-impl[plots]'`)."""

from keras_bert_impl.plots.attention import attention_map
from keras_bert_impl.plots.curves import learning_curves

__all__ = ["attention_map", "learning_curves"]
