"""Sentence embeddings and semantic search."""
