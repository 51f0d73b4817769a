"""Verbs that measure, build, and run: profile, build, run, test."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .common import Force, Json, OnPlatform, Output, Text, print_json, progress, show_diagnostics, sources
from .wording import in_8_bits


def profile(
    file: Text,
    seconds: Annotated[float, typer.Option(help="How long to run the application.", min=0.1)] = 5.0,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Measure every task and network of the application on this machine and store the times.

    Of an .onnx file the layers are measured instead, and it is shown where to cut it into stages.
    """
    from .. import steps
    from ..model.diagnostic import Faults
    from ..profiling import machine
    from ..steps.mapping import with_layers

    if file.suffix == ".onnx":
        return _layers(file, seconds, as_json)
    checked = steps.prepared(file, platform=platform, report=progress)
    if not checked.ok or checked.platform is None:
        raise Faults(checked.diagnostics)
    measured = steps.measure(checked, seconds=seconds, report=progress)
    unsaved = steps.save_profile(checked, measured)
    stored, _ = steps.stored_profile(checked)  # with the layers that are known
    if platform == "host":
        measured, _ = with_layers(checked, stored or measured, seconds, progress)
    show_diagnostics([unsaved] if unsaved else [], {})
    if as_json:
        print_json(json.loads(measured.to_json()))
        return 0
    print(f"{measured.host}; equal work differs by {machine.noise():.0%} now\n")
    rows = [["task", "implementation", "samples", "mean us", "std us", "max us", "wcet us", "holds python"]]
    tasks = steps.content_hashes(checked)
    entries = [e for e in measured.entries if e.subject in tasks]
    for e in entries:
        times = [f"{ns / 1e3:.1f}" for ns in (e.mean_ns, e.std_ns, e.max_ns, e.wcet_ns)]
        rows.append([e.subject, e.implementation, str(e.samples), *times, "" if e.held is None else f"{e.held:.0%}"])
    from ..runtime.report import columns

    print(columns(rows, left=2))
    for line in in_8_bits(checked.losses):
        print(f"\n{line}")
    for e in entries:
        if e.layers:
            print(f"\n{e.subject}: {len(e.layers)} layers, {e.overhead_ns / 1e3:.0f} us beside them")
    for t in measured.transfers:
        print(
            f"a tensor from {t.source} to {t.target}: {t.fixed_ns / 1e3:.3g} us + {t.ns_per_byte * 1e3:.3g} us per MB"
        )
    if unsaved is None:
        print(f"\n{steps.profile_path(checked)}")
    return 0


def _layers(file: Path, seconds: float, as_json: bool) -> int:
    from ..steps import analyses
    from .wording import cut_table

    cuts, times = analyses.measured_cuts(file, seconds)
    if as_json:
        layers = [{"layer": name, "mean_ns": round(ns)} for name, ns in times.mean_ns.items()]
        points = [asdict(c) for c in cuts]
        print_json({"layers": layers, "overhead_ns": round(times.overhead_ns), "runs": times.runs, "cuts": points})
        return 0
    whole = sum(times.mean_ns.values())
    print(
        f"{whole / 1e6:.3g} ms of layers, {times.overhead_ns / 1e3:.3g} us of overhead; {times.runs} runs, one thread\n"
    )
    print(cut_table(cuts, "time"))
    return 0


def build(
    file: Text, output: Output = None, platform: OnPlatform = "host", force: Force = False, as_json: Json = False
) -> int:
    """Write the program: a directory that runs with numpy and ONNX Runtime, without flowc."""
    from .. import steps

    built = steps.build(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    if as_json:
        print_json(
            {
                "directory": str(built.directory),
                "digest": built.digest,
                "fresh": built.fresh,
                "search": built.mapping.search,
                "losses": {name: [asdict(x) for x in found] for name, found in built.losses.items()},
                "tasks": {p.task: list(p.processors) for p in built.mapping.placements},
                "predicted_period_ns": {name: round(ns) for name, ns in built.mapping.predicted_period_ns},
            }
        )
        return 0
    print(f"{built.directory}{'' if built.fresh else ' (up to date)'}")
    for line in in_8_bits(built.losses):
        print(f"  {line}")
    processors: dict[str, list[str]] = {}
    for placement in built.mapping.placements:
        for processor in placement.processors:
            share = f" (1/{len(placement.processors)})" if len(placement.processors) > 1 else ""
            processors.setdefault(processor, []).append(placement.task + share)
    for processor, tasks in sorted(processors.items()):
        shown = ", ".join(tasks[:8]) + (f" and {len(tasks) - 8} more" if len(tasks) > 8 else "")
        print(f"  {processor}: {shown}")
    return 0


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

    from .. import steps

    built = steps.build(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
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
    from .. import steps

    built = steps.build(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    command = [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-v"]
    environment = dict(os.environ, **({"FLOWC_TEST_FRAMES": str(frames)} if frames is not None else {}))
    status = _execute(command, silent_stdout=as_json, cwd=built.directory, environment=environment)
    if as_json:
        print_json({"ok": status == 0, "directory": str(built.directory)})
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
