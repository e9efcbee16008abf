"""The directory of a training run: checkpoints, reports and handling of interruptions."""
