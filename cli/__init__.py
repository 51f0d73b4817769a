"""The verbs. The only package that prints, and the only one that decides an exit status.

0 done; 1 the input has faults, a verdict is negative, or a generated program failed; 2 wrong usage;
70 an internal error; 130 interrupted; 143 terminated. With `--json` standard output is one
document; everything else goes to standard error.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from .. import __version__
from ._common import Terminated, verb
from ._formats import LateVerb, Verbs, completed
from .analyze import analyze
from .build import build, build_with_formats
from .check import check
from .doctor import doctor
from .explain import explain
from .export import export, export_with_formats
from .fmt import fmt
from .headers import headers
from .import_ import import_, import_with_formats
from .lsp import lsp
from .map import map_
from .mcp import mcp
from .new import new
from .profile import profile
from .report import report
from .run import run
from .show import show
from .test import test
from .view import view

app = typer.Typer(
    cls=Verbs,
    help="From a dataflow text with neural networks in it to a checked, mapped, running program.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# In the order in which `--help` lists them.
app.command()(verb(new))
app.command()(verb(check))
app.command()(verb(analyze))
app.command()(verb(show))
app.command()(verb(profile))
app.command("map")(verb(map_))
app.command()(verb(build))
app.command()(verb(run))
app.command()(verb(report))
app.command()(verb(view))
app.command()(verb(test))
app.command("import")(verb(completed(import_)))
app.command()(verb(completed(export)))
app.command()(verb(fmt))
app.command()(verb(headers))
app.command()(verb(lsp))
app.command()(verb(mcp))
app.command()(verb(doctor))
app.command()(verb(explain))

Verbs.late = {
    "build": LateVerb(lambda: verb(build_with_formats()), frozenset({"--target", "-h", "--help"})),
    "import": LateVerb(lambda: verb(import_with_formats())),
    "export": LateVerb(lambda: verb(export_with_formats())),
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
    app()
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
