"""The `keras-bert` command, with one module per subcommand."""
