"""Readers for labeled words and entities in the formats of many tools."""
