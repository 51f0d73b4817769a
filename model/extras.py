"""Parts of flowc with optional libraries: plots, exact searches and genetic searches."""

from __future__ import annotations

from importlib.util import find_spec

from .diagnostic import Diagnostic, Errors


def require(module: str, extra: str, purpose: str) -> None:
    """Raises Errors that name the extra if its library is not installed."""
    if find_spec(module) is None:
        message = f"{purpose} needs {module}, which is not installed"
        help_text = f"install the extra `{extra}`: pip install 'flowc[{extra}]'"
        raise Errors([Diagnostic("F615", message, None, help=help_text)])
