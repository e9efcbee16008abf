"""Byte-level BPE in graph."""
