"""Texts to directories: programs, libraries for C, units for simulators, headers."""
