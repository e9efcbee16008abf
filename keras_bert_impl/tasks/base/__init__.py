"""What all task models share: the model, labels, losses, metrics and decisions."""
