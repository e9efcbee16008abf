"""Export to other runtimes: network definitions, output comparison and score checks."""
