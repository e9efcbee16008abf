"""What all rooms use: errors, files, settings, progress, lazy imports and internals of Keras."""
