"""FlauBERT's tokenizer in the TensorFlow graph: Moses word splitting and byte-pair encoding."""
