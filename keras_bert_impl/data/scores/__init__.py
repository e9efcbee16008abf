"""Scores of predictions, and decisions based on scores."""
