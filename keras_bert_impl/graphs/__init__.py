"""Export of models: serving signatures, networks as ONNX and LiteRT graphs, and file formats."""
