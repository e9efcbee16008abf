"""Properties of code points, normalization and positions, in graph."""
