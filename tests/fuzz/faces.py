"""How inputs are handed to flowc: as the command line does it, with what it says thrown away."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from flowc.cli._common import print_json, show_diagnostics, sources
from flowc.cli._diagnostics import as_data
from flowc.model.diagnostic import Errors

ROOT = Path(__file__).resolve().parents[2]
#: Characters that may be said about one input.
MOST_SAID = 5_000_000


def face(function: Callable[..., Any], *arguments: Any, **options: Any) -> bool:
    """Call a verb (or a step) and show what it says; False when it refuses."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        try:
            done = function(*arguments, **options) in (0, None)
        except Errors as faults:
            show_diagnostics(faults.diagnostics, sources(faults.diagnostics))
            print_json(as_data(faults.diagnostics))
            done = False
        except (typer.Exit, typer.Abort, typer.BadParameter):
            done = False
    assert len(out.getvalue()) + len(err.getvalue()) < MOST_SAID, "too much is said"
    return done
