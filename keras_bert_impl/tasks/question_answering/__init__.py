"""Answers to questions, found in a context."""
