"""Code that runs on the measured machine: Python 3.8, numpy, ONNX Runtime and `runtime/`, nothing
else of flowc."""
