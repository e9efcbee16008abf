"""Scores of predictions, and what scores decide."""
