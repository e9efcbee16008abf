"""Checkpoints of encoders: configuration, published names, downloads, and formats of files."""
