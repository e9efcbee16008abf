"""Attention and vocabulary logits that never hold their largest tensor whole, on JAX."""
