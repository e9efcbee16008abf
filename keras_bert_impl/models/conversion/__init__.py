"""Creates converted models, smaller students and models with a larger vocabulary."""
