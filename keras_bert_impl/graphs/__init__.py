"""Export of models: serving signatures, ONNX and LiteRT graphs of networks, and file formats."""
