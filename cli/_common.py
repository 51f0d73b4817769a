"""Shared parts of all verbs: common options, output, exit status."""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

if TYPE_CHECKING:
    from ..driver.build.build import Built
    from ..interop.registry import Folder
    from ..model.diagnostic import Diagnostic

P = ParamSpec("P")

#: Seconds between two lines of progress, if standard error is no terminal.
BETWEEN = 5.0
#: Most diagnostics that are drawn at once, because each has an excerpt.
MOST_SHOWN = 100


def only_text(path: Path) -> Path:
    """The chosen text: a file is itself, a folder stands for its only .flow text. Raises
    BadParameter."""
    if path.suffix == ".flow" or not path.is_dir():
        return path
    texts = sorted(f for f in path.glob("*.flow") if f.is_file())
    if len(texts) == 1:
        return texts[0]
    where = "here" if path == Path() else f"in `{path}`"
    if not texts:
        raise typer.BadParameter(f"there is no .flow text {where}; `flowc new DIR` writes one")
    raise typer.BadParameter(
        f"there are several texts {where}: {', '.join(map(str, texts))}; name one of them"
    )


def _boards() -> list[str]:
    """Platforms that come with flowc, for completion in a shell."""
    shipped = Path(__file__).parent.parent / "platforms"
    return ["host", *sorted(file.stem for file in shipped.glob("*.flow"))]


Text = Annotated[
    Path,
    typer.Argument(
        help="The .flow text (default: the only one here).",
        show_default=False,
        metavar="APP.flow",
        default_factory=Path,
        callback=only_text,
    ),
]
TextOrNetwork = Annotated[
    Path,
    typer.Argument(
        help="The .flow text (default: the only one here), or an .onnx network.",
        show_default=False,
        metavar="APP.flow",
        default_factory=Path,
        callback=only_text,
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1x3x48x320",
        help="Of a network: sizes of an input with open dimensions. Once for each of them.",
    ),
]
Places = Annotated[
    Path | None,
    typer.Option(
        "--places",
        metavar="FILE.json",
        help="Of a network: the processor of each layer, for a graph of a task per processor.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
OnPlatform = Annotated[
    str,
    typer.Option(
        "--platform",
        autocompletion=_boards,
        help=(
            "`host`, a platform of the text, a board that flowc knows (`xavier`, `orin`, ...), or a"
            " .flow file."
        ),
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Start with another value of a parameter: `App.task.name=3`. May be repeated.",
        metavar="APP.TASK.NAME=VALUE",
        show_default=False,
    ),
]
Twin = Annotated[
    bool, typer.Option("--twin", help="Let CPU threads play GPU, DLAs and NPUs of the platform.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", help="Directory of the build (default: build/STEM).", show_default=False
    ),
]


class Target(StrEnum):
    """What a text becomes."""

    PROGRAM = "program"
    NATIVE = "native"


RunTarget = Annotated[
    Target,
    typer.Option("--target", help="The program, or the same in C++, without an interpreter."),
]
NoMeasure = Annotated[
    bool,
    typer.Option(
        "--no-measure", help="Do not run the tasks to measure them: only known times count."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Build into a directory that holds other files.")
]


class Terminated(BaseException):
    """SIGTERM: exit in order, so that children end and temporary files are deleted."""


def say(text: str) -> None:
    print(text, file=sys.stderr)


def seconds(text: str, option: str = "--budget") -> float:
    """`60s`, `2min`, `90`: a time in seconds, the value of an option. Raises BadParameter."""
    units = {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "m": 60.0, "h": 3600.0}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    try:
        return float(number) * units[unit]
    except (ValueError, KeyError):
        raise typer.BadParameter(
            f"`{text}` is not a time: write `60s` or `5min`", param_hint=option
        ) from None


def with_shapes(file: Path, words: list[str] | None) -> Path:
    """A network with sizes from the command line. Raises BadParameter, and Errors."""
    from ..driver.show.networks import with_shapes as driver_with_shapes

    if words and file.suffix != ".onnx":
        raise typer.BadParameter("it is for .onnx files", param_hint="--shape")
    shapes = {}
    for word in words or ():
        name, _, sizes = word.rpartition("=")
        if not name or not re.fullmatch(r"[1-9]\d{0,9}(x[1-9]\d{0,9})*", sizes):
            message = f"{word!r} is not like `x=1x3x48x320`"
            raise typer.BadParameter(message, param_hint="--shape")
        shapes[name] = tuple(map(int, sizes.split("x")))
    return driver_with_shapes(file, shapes)


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=1))


def replace(file: Path, content: str | bytes, *, follow: bool = False) -> None:
    """Write a file that the user named, completely or not at all. Raises Errors."""
    from ..driver.exchange.import_ import write

    write(file, content, follow=follow)


def refuse_existing(target: Path, force: bool) -> None:
    """Do not replace a file without --force. Raises Errors."""
    from ..driver.exchange.import_ import refuse

    refuse(target, force)


def show_built(built: Built) -> None:
    """Report the diagnostics of a build, and how near networks in fewer bits are."""
    from ._tables import in_8_bits

    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    for line in in_8_bits(built.losses):
        say(f"flowc: {line}")
    for one in built.compared:
        say(f"flowc: {one}")


def show_folder(made: Folder, as_json: bool) -> int:
    """Report a written directory of another tool."""
    from ._tables import in_8_bits

    show_diagnostics(made.diagnostics, sources(made.diagnostics))
    if as_json:
        print_json(made.document)
        return 0
    print(with_freshness(made.directory, made.fresh))
    for line in in_8_bits(made.losses):
        print(f"  {line}")
    for line in made.lines:
        print(line)
    return 0


def _color() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def show_diagnostics(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    """Draw the diagnostics, errors first if there are too many to draw all."""
    from ._diagnostics import render

    shown = list(diagnostics)
    hidden = len(shown) - MOST_SHOWN
    if hidden > 0:
        shown = sorted(shown, key=lambda d: d.severity != "error")[:MOST_SHOWN]
    for diagnostic in shown:
        say(render(diagnostic, sources, color=_color()) + "\n")
    if hidden > 0:
        say(f"and {number(hidden, 'more diagnostic')}: correct these first (`--json` lists all)\n")


def sources(diagnostics: Iterable[Diagnostic]) -> dict[str, str]:
    """Texts to quote from, for faults that were raised before their sources were handed over."""
    from ..model.files import read_bytes

    files = set()
    for diagnostic in diagnostics:
        spans = [diagnostic.span, *(note.span for note in diagnostic.notes)]
        files |= {span.file for span in spans if span is not None}
    texts = {}
    for file in files:
        try:
            texts[file] = read_bytes(file).decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            continue
    return texts


def verb(function: Callable[P, int]) -> Callable[P, None]:
    """Turn what a verb returns or raises into output and an exit status."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from ..model.diagnostic import Errors

        progress.begin()
        try:
            status = function(*args, **kwargs)
            sys.stdout.flush()
        except Errors as faults:
            if kwargs.get("as_json"):
                from ._diagnostics import as_data

                print_json({"ok": False, "diagnostics": as_data(faults.diagnostics)})
            show_diagnostics(faults.diagnostics, sources(faults.diagnostics))
            status = 1
        except KeyboardInterrupt:
            say("interrupted")
            status = 130
        except Terminated:
            status = 143
        except BrokenPipeError:
            sys.stderr.close()
            os._exit(141)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            _end_if_output_is_full(error)
            _report_mistake()
            status = 70
        sys.stdout.flush()
        raise typer.Exit(status)

    return run


def _end_if_output_is_full(error: Exception) -> None:
    """Exit if standard output cannot be written: an error of a disk that names no file."""
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
        return
    if error.filename is None:
        say(f"flowc: cannot write to standard output: {error.strerror}")
        os._exit(1)  # the rest of the buffer cannot be written either


def _report_mistake() -> None:
    """The traceback of the error that is handled now, and what the user can do about it."""
    import traceback

    traceback.print_exc()
    say(
        "\nThis is a mistake in flowc, not in your text. Please report it with these lines"
        " and the .flow file."
    )


class Progress:
    """Prints progress: all of it on a terminal, elsewhere the newest line, `between` seconds after
    the last."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, between: float = BETWEEN
    ) -> None:
        self._clock, self._said = clock, clock()
        self.between = between

    def begin(self) -> None:
        """Start timing a long step."""
        self._said = self._clock()

    def __call__(self, message: object) -> None:
        if not sys.stderr.isatty() and self._clock() < self._said + self.between:
            return
        self._said = self._clock()
        say(f"flowc: {message}")


#: The receiver of progress.
progress = Progress()


def measuring(message: str) -> None:
    """Printed wherever standard error goes: tasks have side effects when they run."""
    say(f"flowc: {message} (--no-measure skips this)")


def in_full(file: Path) -> Path:
    """Report a written file, for people with the whole path."""
    return file.resolve() if sys.stdout.isatty() else file


def with_freshness(output: Path, fresh: bool) -> str:
    """The path of an output, and whether it was up to date before."""
    return str(output) if fresh else f"{output} (up to date)"


def width() -> int | None:
    """Columns of the terminal at standard output; None if there is none, and lines need not fit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def number(count: int, what: str) -> str:
    """`3 tasks`, `1 task`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
