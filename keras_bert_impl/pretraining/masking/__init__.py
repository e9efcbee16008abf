"""Masked batches from records."""
