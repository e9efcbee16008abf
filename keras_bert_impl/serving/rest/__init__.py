"""An HTTP server with the REST API of TensorFlow Serving, for `keras-bert serve`."""
