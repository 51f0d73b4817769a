"""Searches for the least time between frames, or for the least latency or energy of one network."""
