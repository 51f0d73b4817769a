"""Networks in 8 and 16 bits: calibration, conversion, what it costs in accuracy."""
