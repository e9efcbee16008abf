"""Parts of exported models: serving signatures, networks written as graphs, formats."""
