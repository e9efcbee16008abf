"""Conversion of KerasHub models and presets in both directions."""
