"""What the forms for other runtimes than TensorFlow share: the networks, the proof, the gate."""
