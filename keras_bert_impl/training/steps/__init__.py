"""The training step for each backend, and `fit` on any number of replicas."""
