"""Attributes a task model's output to the words of a text."""

from keras_bert_impl.reports.attribution.methods import attribute
from keras_bert_impl.reports.attribution.results import AttributedWord, Attribution

__all__ = ["AttributedWord", "Attribution", "attribute"]
