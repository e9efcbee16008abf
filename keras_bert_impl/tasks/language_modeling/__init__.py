"""Masked and causal language models."""
