"""What NVIDIA's DLAs can run: limits by generation and version, held against the layers of a
network."""
