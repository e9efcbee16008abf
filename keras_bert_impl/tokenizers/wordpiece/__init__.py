"""WordPiece in graph."""
