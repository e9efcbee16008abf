"""Labeled data: readers, labels, batches, and scores of predictions."""
