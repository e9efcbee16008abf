"""SentencePiece unigram tokenization in the TensorFlow graph."""
