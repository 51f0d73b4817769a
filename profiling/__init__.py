"""Measuring on this machine, and storing the measurements."""
