"""Reading a file that the user named."""

from __future__ import annotations

from pathlib import Path

from ..model.diagnostic import Diagnostic, Errors
from ..model.files import read_bytes


def content(file: Path, code: str) -> bytes:
    """The bytes of a file. Raises Errors with that code."""
    try:
        return read_bytes(file)
    except OSError as error:
        raise Errors([Diagnostic(code, f"cannot read `{file}`: {error.strerror}", None)]) from error
