"""Unmasked examples: sentence pairs, packed rows and records."""
