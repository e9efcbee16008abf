"""Model directories made of others: converted, smaller, or with a larger vocabulary."""
