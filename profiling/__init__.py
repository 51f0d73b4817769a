"""Measuring on this machine, and keeping what was measured."""
