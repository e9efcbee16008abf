"""The likeliest of several endings."""
