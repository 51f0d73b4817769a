"""The version of flowc."""

__version__ = "1.0.0"
