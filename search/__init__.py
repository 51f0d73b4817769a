"""Searches for the placement of all tasks and stages of networks, listed in `registry`."""
