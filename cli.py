"""The verbs. The only place that prints, and the only one that decides an exit status.

0 done; 1 the input has faults, a verdict is no, or a generated program failed; 2 wrong usage; 70 an internal error;
130 interrupted; 143 terminated. With `--json` standard output is one document; everything else goes to standard error.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec

import typer

from . import __version__

if TYPE_CHECKING:
    from .model.diagnostic import Diagnostic
    from .steps import Checked

P = ParamSpec("P")

app = typer.Typer(
    help="From a dataflow text with neural networks in it to a checked, mapped, running program.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Text = Annotated[Path, typer.Argument(help="The .flow text.", show_default=False, metavar="APP.flow")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
OnPlatform = Annotated[
    str, typer.Option("--platform", help="`host`, a platform of the text, or a .flow file that declares one.")
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Directory of the build (default: build/STEM).", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Build into a directory that holds other files.")]


def main() -> NoReturn:
    """Entry point of the console script."""
    import signal

    def stop(number: int, frame: object) -> NoReturn:
        raise _Terminated

    signal.signal(signal.SIGTERM, stop)
    app()
    sys.exit(0)


class _Terminated(BaseException):
    """SIGTERM: leave in order, so that children end and temporary files go."""


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=1))


def _replace(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    from .model.diagnostic import Diagnostic, Faults

    temporary = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Faults([Diagnostic("F605", f"cannot write `{file}`: {error.strerror}", None)]) from error


def _colour() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _show(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    from .render import render

    for diagnostic in diagnostics:
        _say(render(diagnostic, sources, colour=_colour()) + "\n")


def _sources(diagnostics: Iterable[Diagnostic]) -> dict[str, str]:
    """Texts to quote from, for faults that were raised before their sources were handed over."""
    files = {s.file for d in diagnostics for s in [d.span, *(n.span for n in d.notes)] if s is not None}
    texts = {}
    for file in files:
        try:
            texts[file] = Path(file).read_text(errors="replace").replace("\r\n", "\n")
        except OSError:
            continue
    return texts


def _verb(function: Callable[P, int]) -> Callable[P, None]:
    """Turn what a verb returns or raises into output and an exit status."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from .model.diagnostic import Faults

        try:
            status = function(*args, **kwargs)
        except Faults as faults:
            if kwargs.get("as_json"):
                from .render import as_data

                _print_json({"ok": False, "diagnostics": as_data(faults.diagnostics)})
            _show(faults.diagnostics, _sources(faults.diagnostics))
            status = 1
        except KeyboardInterrupt:
            _say("interrupted")
            status = 130
        except _Terminated:
            status = 143
        except BrokenPipeError:
            sys.stderr.close()
            os._exit(141)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception:
            import traceback

            traceback.print_exc()
            _say(
                "\nThis is a mistake in flowc, not in your text. Please report it with these lines and the .flow file."
            )
            status = 70
        sys.stdout.flush()
        raise typer.Exit(status)

    return run


def _progress(message: str) -> None:
    if sys.stderr.isatty():
        _say(f"flowc: {message}")


# -- verbs -------------------------------------------------------------------------------------------------------------
@app.command()
@_verb
def new(directory: Annotated[Path, typer.Argument(help="Where to write it; must not exist or be empty.")]) -> int:
    """Write a working starter: a .flow text, its tasks, and how to go on."""
    from .templates import starter

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        from .model.diagnostic import Diagnostic, Faults

        raise Faults([Diagnostic("F604", f"`{directory}` is not empty", None, "", (), "choose a new directory")])
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in directory.resolve().name) or "app"
    for path, text in starter(name).items():
        _replace(directory / path, text)
    print(f"{directory}: {', '.join(starter(name))}")
    print(f"try: flowc run {shlex.quote(str(directory / f'{name}.flow'))} --frames 5")
    return 0


@app.command()
@_verb
def check(file: Text, platform: OnPlatform = "host", as_json: Json = False) -> int:
    """Check a text without running anything: names, types, code, networks, rates, deadlock."""
    from . import steps
    from .render import as_data

    checked = steps.check(file, platform=platform)
    if as_json:
        apps = {
            name: {
                "consistent": v.consistent.holds,
                "deadlock_free": v.deadlock_free.holds,
                "schedulable": v.schedulable.holds,
                "repetition": v.repetition,
            }
            for name, v in checked.verdicts.items()
        }
        _print_json({"ok": checked.ok, "diagnostics": as_data(checked.diagnostics), "apps": apps})
    _show(checked.diagnostics, checked.system.sources)
    if not as_json:
        _print_verdicts(checked)
    elif not checked.ok:
        _say(_count(checked))
    return 0 if checked.ok else 1


def _print_verdicts(checked: Checked) -> None:
    if not checked.ok:
        print(_count(checked))
        return
    words = {True: "yes", False: "no", None: "not decided"}
    for found in checked.system.apps:
        verdicts = checked.verdicts[found.name]
        print(f"{found.name}: {_number(len(found.tasks), 'task')}, {_number(len(found.channels), 'channel')}")
        rows = {
            "consistent": verdicts.consistent,
            "deadlock-free": verdicts.deadlock_free,
            "schedulable": verdicts.schedulable,
        }
        for name, verdict in rows.items():
            print(f"  {name:<14} {words[verdict.holds]:<12} {verdict.witness}")
        several = [f"{n.partition('.')[2]} {q}" for n, q in verdicts.repetition.items() if q != 1]
        if several:
            shown = ", ".join(several[:12]) + (", ..." if len(several) > 12 else "")
            print(f"  {'iteration':<14} {shown}{', the others 1' if len(several) < len(found.tasks) else ''}")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _count(checked: Checked) -> str:
    errors = sum(d.severity == "error" for d in checked.diagnostics)
    return _number(errors, "error")


@app.command()
@_verb
def show(
    file: Text,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Picture to write: .svg or .png (default: STEM.svg).", show_default=False),
    ] = None,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Draw the graph: tasks, channels, rates, delays; colours show the mapping once a profile is stored."""
    from . import steps
    from .model.diagnostic import Diagnostic, Faults
    from .report.graph import TooLarge, draw

    checked = steps.check(file, platform=platform)
    if not checked.ok:
        raise Faults(checked.diagnostics)
    if not checked.system.apps:
        raise Faults([Diagnostic("F215", "there is no app to draw", None)])
    target = output or Path(f"{checked.system.stem}.svg")
    if target.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter("the picture must end in .svg, .png or .pdf", param_hint="--output")
    profile, _ = steps.stored_profile(checked)
    mapping = steps.map_system(checked, profile) if profile is not None else None
    places = {p.task: p.processors for p in mapping.placements} if mapping is not None else {}
    try:
        draw(checked.system, target, places)
    except TooLarge as error:
        raise Faults([Diagnostic("F605", str(error), None, "", (), "draw a smaller app")]) from error
    except OSError as error:
        raise Faults([Diagnostic("F605", f"cannot write `{target}`: {error.strerror}", None)]) from error
    if as_json:
        _print_json({"picture": str(target), "tasks": {t: list(p) for t, p in places.items()}})
    else:
        print(target)
    return 0


@app.command()
@_verb
def profile(
    file: Text,
    seconds: Annotated[float, typer.Option(help="How long to run the application.", min=0.1)] = 5.0,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Measure every task and network of the application on this machine and store the times."""
    from . import steps
    from .model.diagnostic import Faults

    checked = steps.check(file, platform=platform)
    if not checked.ok or checked.platform is None:
        raise Faults(checked.diagnostics)
    measured = steps.measure(checked, seconds=seconds, report=_progress)
    warning = steps.save_profile(checked, measured)
    if warning is not None:
        _show([warning], {})
    if as_json:
        _print_json(json.loads(measured.to_json()))
        return 0
    print(f"{measured.host}\n")
    rows = [["task", "implementation", "samples", "mean us", "std us", "max us", "wcet us"]]
    for e in measured.entries:
        times = [f"{ns / 1e3:.1f}" for ns in (e.mean_ns, e.std_ns, e.max_ns, e.wcet_ns)]
        rows.append([e.subject, e.implementation, str(e.samples), *times])
    from .runtime.report import columns

    print(columns(rows, left=2))
    if warning is None:
        print(f"\n{steps.profile_path(checked)}")
    return 0


@app.command()
@_verb
def build(
    file: Text, output: Output = None, platform: OnPlatform = "host", force: Force = False, as_json: Json = False
) -> int:
    """Write the program: a directory that runs with numpy and ONNX Runtime, without flowc."""
    from . import steps

    built = steps.build(file, output, platform=platform, force=force, report=_progress)
    _show(built.diagnostics, _sources(built.diagnostics))
    if as_json:
        _print_json(
            {
                "directory": str(built.directory),
                "digest": built.digest,
                "fresh": built.fresh,
                "search": built.mapping.search,
                "tasks": {p.task: list(p.processors) for p in built.mapping.placements},
                "predicted_period_ns": {name: round(ns) for name, ns in built.mapping.predicted_period_ns},
            }
        )
        return 0
    print(f"{built.directory}{'' if built.fresh else ' (up to date)'}")
    processors: dict[str, list[str]] = {}
    for placement in built.mapping.placements:
        for processor in placement.processors:
            share = f" (1/{len(placement.processors)})" if len(placement.processors) > 1 else ""
            processors.setdefault(processor, []).append(placement.task + share)
    for processor, tasks in sorted(processors.items()):
        shown = ", ".join(tasks[:8]) + (f" and {len(tasks) - 8} more" if len(tasks) > 8 else "")
        print(f"  {processor}: {shown}")
    return 0


@app.command()
@_verb
def run(
    file: Text,
    frames: Annotated[
        int | None, typer.Option(help="Stop after N iterations of each app.", min=0, metavar="N", show_default=False)
    ] = None,
    full_speed: Annotated[bool, typer.Option("--full-speed", help="Ignore periods.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Check what tasks return at every firing.")] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for ui.perfetto.dev.", metavar="FILE", show_default=False)
    ] = None,
    output: Output = None,
    platform: OnPlatform = "host",
    force: Force = False,
    as_json: Json = False,
) -> int:
    """Build if needed, then run the program until its stream ends, or Ctrl-C."""
    import tempfile

    from . import steps

    built = steps.build(file, output, platform=platform, force=force, report=_progress)
    _show(built.diagnostics, _sources(built.diagnostics))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, str(built.directory.resolve() / "main.py")]
        command += ["--frames", str(frames)] if frames is not None else []
        command += ["--full-speed"] if full_speed else []
        command += ["--strict"] if strict else []
        command += ["--trace", str(trace.resolve())] if trace is not None else []
        command += ["--report", str(report), "--quiet"] if as_json else []
        status = _execute(command, silent_stdout=as_json)
        if as_json and report.is_file():
            print(report.read_text())
    return status


@app.command()
@_verb
def test(
    file: Text,
    frames: Annotated[
        int | None,
        typer.Option(help="Frames to compare (default: a few, by size).", min=1, metavar="N", show_default=False),
    ] = None,
    output: Output = None,
    platform: OnPlatform = "host",
    force: Force = False,
    as_json: Json = False,
) -> int:
    """Build if needed, then run the harness: the program against a sequential reference of the same graph."""
    from . import steps

    built = steps.build(file, output, platform=platform, force=force, report=_progress)
    _show(built.diagnostics, _sources(built.diagnostics))
    command = [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-v"]
    environment = dict(os.environ, **({"FLOWC_TEST_FRAMES": str(frames)} if frames is not None else {}))
    status = _execute(command, silent_stdout=as_json, cwd=built.directory, environment=environment)
    if as_json:
        _print_json({"ok": status == 0, "directory": str(built.directory)})
    return 1 if status not in (0, 130, 143) else status


def _execute(
    command: list[str], *, silent_stdout: bool, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> int:
    """Run a program that handles signals itself: wait for it, and hand on what it decides."""
    import signal
    import subprocess

    stdout = sys.stderr if silent_stdout else None
    sys.stdout.flush()
    with subprocess.Popen(command, stdout=stdout, cwd=cwd, env=environment) as child:
        for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends SIGINT to the child too; it takes both as one
            signal.signal(number, lambda number, frame: child.send_signal(number))
        status = child.wait()
    return status if status >= 0 else 128 - status


@app.command()
@_verb
def fmt(
    files: Annotated[list[Path], typer.Argument(help="The .flow texts.", show_default=False)],
    only_check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 if something would change.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Format texts in place; line breaks and comments are kept."""
    from .dsl.format import format_text
    from .dsl.load import read_text
    from .model.diagnostic import Diagnostic, Faults

    changed, faults = [], []
    for file in files:
        text = read_text(str(file))
        if isinstance(text, Diagnostic):
            faults.append(text)
            continue
        try:
            formatted = format_text(str(file), text)
        except Faults as found:
            faults += found.diagnostics
            continue
        if formatted != text:
            changed.append(str(file))
            if not only_check:
                _replace(file, formatted)
    if faults:
        raise Faults(faults)
    if as_json:
        _print_json({"changed": changed})
    else:
        for name in changed:
            print(f"{'would change' if only_check else 'formatted'}: {name}")
    return 1 if only_check and changed else 0


@app.command()
@_verb
def headers(file: Text, as_json: Json = False) -> int:
    """Write the C prototypes of the tasks beside their sources (dsp.c gets dsp.flow.h)."""
    from . import steps
    from .codegen.emit import header
    from .model.application import Task
    from .model.diagnostic import Faults

    checked = steps.check(file)
    # The header is what makes missing C code easy to write: a function that is not there yet is no obstacle.
    hard = [d for d in checked.diagnostics if d.severity == "error" and d.code != "F302"]
    if hard:
        raise Faults(checked.diagnostics)
    sources: dict[str, list[Task]] = {}
    for task in (t for a in checked.system.apps for t in a.tasks):
        for code in task.implementations:
            if code.language == "c":
                sources.setdefault(code.path, []).append(task)
    written = []
    for path, tasks in sources.items():
        target = Path(path).with_suffix(".flow.h")
        _replace(target, header(Path(path).name, tuple(tasks)))
        written.append(str(target))
    if as_json:
        _print_json({"headers": written})
    else:
        print("\n".join(written) or "no task has C code")
    return 0


@app.command()
@_verb
def doctor(as_json: Json = False) -> int:
    """What this machine has, and what to install for more."""
    from .profiling.doctor import examine

    findings = examine()
    if as_json:
        _print_json({f.name: {"found": f.found, "needed_for": f.purpose, "install": f.install} for f in findings})
        return 0
    for f in findings:
        mark = "ok " if f.found else "-- "
        print(f"{mark}{f.name:<14} {f.found or 'not found'}")
        if not f.found:
            print(f"   {'':<14} for {f.purpose}: {f.install}")
    return 0


@app.command()
@_verb
def explain(
    code: Annotated[str, typer.Argument(help="A diagnostic's code, such as F203.")], as_json: Json = False
) -> int:
    """Explain a diagnostic."""
    from .model.catalogue import CODES
    from .model.diagnostic import did_you_mean

    wanted = code.upper()
    if wanted not in CODES:
        raise typer.BadParameter(f"there is no diagnostic {code}. {did_you_mean(wanted, CODES)}".rstrip())
    title, text = CODES[wanted]
    if as_json:
        _print_json({"code": wanted, "title": title, "text": text})
    else:
        print(f"{wanted}: {title}\n\n{text}")
    return 0


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
