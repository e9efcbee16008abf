"""Single-label and multi-label classification, and regression, of texts or text pairs."""
