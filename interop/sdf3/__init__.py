"""Graphs of SDF3."""
