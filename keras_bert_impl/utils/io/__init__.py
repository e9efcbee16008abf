"""Reads and replaces files, local and remote."""
