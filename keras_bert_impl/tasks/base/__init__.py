"""Code shared by all task models: base classes, losses, metrics and options."""
