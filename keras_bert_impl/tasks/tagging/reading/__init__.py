"""Readers of labeled words and entities in files and tables of many tools."""
