"""ONNX files: their interface, their layers, where they can be cut, and cutting them."""
