"""The attention of Longformer."""
