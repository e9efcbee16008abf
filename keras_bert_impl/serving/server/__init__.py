"""A server with the REST and gRPC APIs of TensorFlow Serving, for `keras-bert serve`."""
