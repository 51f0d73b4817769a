"""Parts of flowc whose libraries are installed on request: pictures, and searches that prove or draw lots."""

from __future__ import annotations

from importlib.util import find_spec

from .diagnostic import Diagnostic, Errors


def require(module: str, extra: str, purpose: str) -> None:
    """Raises Errors that name the extra where its library is not installed."""
    if find_spec(module) is None:
        message = f"{purpose} needs {module}, which is not installed"
        help_text = f"install the extra `{extra}`: pip install 'flowc[{extra}]'"
        raise Errors([Diagnostic("F615", message, None, help=help_text)])
