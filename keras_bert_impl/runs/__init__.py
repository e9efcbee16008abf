"""Fine-tuning runs: settings, the run directory, evaluation."""
