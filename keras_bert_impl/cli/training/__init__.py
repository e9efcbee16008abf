"""Commands that prepare data and train models."""
