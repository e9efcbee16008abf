"""The directory of a training run: checkpoints, reports, interruptions."""
