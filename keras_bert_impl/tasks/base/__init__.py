"""Shared by all task models: the model, losses, metrics and options."""
