"""From user input to batches of features."""
