"""The version of flowc."""

__version__ = "0.1.0"
