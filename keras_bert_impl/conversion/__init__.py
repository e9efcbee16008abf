"""Creates model directories from others: converted, smaller, or with a larger vocabulary."""
