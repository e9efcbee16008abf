"""Commands of `keras_bert_impl.experiments`."""
