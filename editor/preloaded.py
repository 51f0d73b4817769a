"""Imports for the process from which workers are forked: all that a check needs, with the grammar
in memory."""

from __future__ import annotations

from ..driver.text.check import check
from . import worker

__all__ = ["worker"]

check("", texts={"": ""})
