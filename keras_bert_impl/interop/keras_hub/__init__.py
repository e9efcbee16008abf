"""KerasHub's models and presets, in both directions."""
