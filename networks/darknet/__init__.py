"""Darknet's configurations and weights, read into ONNX."""
