"""The training step of each backend, and `fit` on any number of replicas."""
