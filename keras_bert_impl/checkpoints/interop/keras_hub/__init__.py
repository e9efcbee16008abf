"""Converts models from and to KerasHub models and presets."""
