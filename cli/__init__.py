"""The verbs. The only room that prints, and the only one that decides an exit status.

0 done; 1 the input has faults, a verdict is no, or a generated program failed; 2 wrong usage; 70 an internal error;
130 interrupted; 143 terminated. With `--json` standard output is one document; everything else goes to standard error.
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from .. import __version__
from . import analyzing, building, exchanging, looking, mapping, writing
from .common import Terminated, verb

app = typer.Typer(
    help="From a dataflow text with neural networks in it to a checked, mapped, running program.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# In the order in which `--help` lists them.
app.command()(verb(writing.new))
app.command()(verb(looking.check))
app.command()(verb(analyzing.analyze))
app.command()(verb(looking.show))
app.command()(verb(building.profile))
app.command("map")(verb(mapping.map_))
app.command()(verb(building.build))
app.command()(verb(building.run))
app.command()(verb(building.test))
app.command("import")(verb(exchanging.import_))
app.command()(verb(exchanging.export))
app.command()(verb(writing.fmt))
app.command()(verb(writing.headers))
app.command()(verb(looking.doctor))
app.command()(verb(looking.explain))


def main() -> NoReturn:
    """Entry point of the console script."""
    import signal

    def stop(number: int, frame: object) -> NoReturn:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
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
