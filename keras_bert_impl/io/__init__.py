"""Input and output: external files, addresses, atomic writes and input errors."""
