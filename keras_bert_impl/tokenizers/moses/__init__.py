"""FlauBERT's tokenizer in the TensorFlow graph: Moses words and byte-pair encoding."""
