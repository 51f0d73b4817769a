"""Graphs of other tools, in and out: they become a `.flow` text, and an application becomes their
file."""
