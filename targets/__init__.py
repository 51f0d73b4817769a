"""Capabilities of platforms: the processors that a task may run on, and the legal pins."""
