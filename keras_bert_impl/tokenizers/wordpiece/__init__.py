"""WordPiece tokenization in the TensorFlow graph."""
