"""What exported models are made of: serving signatures, networks written as graphs, formats."""
