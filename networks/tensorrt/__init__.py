"""What TensorRT's parser of ONNX files takes for a GPU."""
