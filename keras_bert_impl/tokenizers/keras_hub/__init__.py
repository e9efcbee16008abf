"""Tokenizers of KerasHub: their files and objects."""
