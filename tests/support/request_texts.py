"""A small app that takes requests, for tests."""

from __future__ import annotations

#: One token of each request goes through.
PLAIN = """
task Twice { in x: float32[3]   out y: float32[3]   on error skip   python "tasks.py:twice" }
app Plain { BATCH   in x: float32[3]   out y: float32[3]   twice: Twice   x -> twice -> y }
"""
TWICE = """
def twice(x):
    if x[0] == 3:
        raise ValueError("three")
    return x * 2
"""
