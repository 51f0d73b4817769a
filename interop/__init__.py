"""Graphs of other tools, in and out: what they say becomes a `.flow` text, and an application becomes their file."""
