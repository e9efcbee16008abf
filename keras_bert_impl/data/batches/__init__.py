"""Conversion of user input to batches of features."""
