"""ONNX in, and what can be said about a network without running it."""
