"""The `keras-bert` command: one module a command."""
