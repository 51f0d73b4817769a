"""What runs on the machine that is measured: Python 3.8, numpy, ONNX Runtime and `runtime/`, nothing else of flowc."""
