"""FlauBERT's tokenizer in graph: Moses' words and byte-pair encoding."""
