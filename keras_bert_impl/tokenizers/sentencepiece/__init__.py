"""SentencePiece unigram models in graph."""
