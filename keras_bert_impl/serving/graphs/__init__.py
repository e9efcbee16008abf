"""Export of models: serving signatures, file formats, and graphs for ONNX and LiteRT."""
