"""Examples, which `python examples/NAME.py` or `python -m examples.NAME` runs in a checkout."""
