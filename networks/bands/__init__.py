"""Networks in bands of rows: units of layers that fire in turn, what they keep, and their
models."""
