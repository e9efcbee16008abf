"""Readers for files with labeled words or entities, in the formats of many tools."""
