"""The verbs. The only package that prints, and the only one that decides an exit status.

0 done; 1 the input has faults, a verdict is negative, or a generated program failed; 2 wrong usage;
70 an internal error; 130 interrupted; 143 terminated. With `--json` standard output is one
document; everything else goes to standard error.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, NoReturn

import typer

from .. import __version__
from ._common import Terminated
from ._verbs import Verb, Verbs

app = typer.Typer(
    cls=Verbs,
    help="From a dataflow text with neural networks in it to a checked, mapped, running program.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# In the order in which `--help` lists them.
Verbs.verbs = {
    "new": Verb("new", "new"),
    "check": Verb("check", "check"),
    "analyze": Verb("analyze", "analyze"),
    "show": Verb("show", "show"),
    "profile": Verb("profile", "profile"),
    "map": Verb("map", "map_"),
    "build": Verb("build", "build", "build_with_formats", frozenset({"--target", "-h", "--help"})),
    "run": Verb("run", "run"),
    "report": Verb("report", "report"),
    "view": Verb("view", "view"),
    "test": Verb("test", "test"),
    "import": Verb("import_", "import_", "import_with_formats"),
    "export": Verb("export", "export", "export_with_formats"),
    "fmt": Verb("fmt", "fmt"),
    "headers": Verb("headers", "headers"),
    "lsp": Verb("lsp", "lsp"),
    "mcp": Verb("mcp", "mcp"),
    "doctor": Verb("doctor", "doctor"),
    "explain": Verb("explain", "explain"),
}


def main() -> NoReturn:
    """Entry point of the console script."""
    import signal

    def stop(number: int, frame: object) -> NoReturn:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        app()
    finally:
        gc.freeze()  # the last collection of garbage need not visit all that is still in use
    sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"flowc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """From a dataflow text with neural networks in it to a checked, mapped, running program."""
