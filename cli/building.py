"""Verbs that measure, build, and run: profile, build, run, test."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .common import Force, Json, OnPlatform, Output, Text, Twin, print_json, progress, say, show_diagnostics, sources
from .wording import in_8_bits


def profile(
    file: Text,
    seconds: Annotated[float, typer.Option(help="How long to run the application.", min=0.1)] = 5.0,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Measure every task and network of the application on this machine and store the times.

    On a board with its GPU the tasks that can run there, and on its DLAs, are measured there as well.
    Of an .onnx file the layers are measured instead, and it is shown where to cut it into stages.
    """
    from .. import steps
    from ..model.diagnostic import Faults
    from ..profiling import machine
    from ..steps import device
    from ..steps.mapping import with_layers

    if file.suffix == ".onnx":
        return _layers(file, seconds, as_json)
    checked = steps.prepared(file, platform=platform, report=progress)
    if not checked.ok or checked.platform is None:
        raise Faults(checked.diagnostics)
    measured = steps.measure(checked, seconds=seconds, report=progress)
    unsaved = steps.save_profile(checked, measured)
    on_board = any(pool.kind != "cpu" for pool in checked.platform.pools) and device.has_gpu()
    if on_board:
        measured = device.measure_devices(checked, measured, seconds, progress)
        unsaved = steps.save_profile(checked, measured)
    stored, _ = steps.stored_profile(checked)  # with the layers that are known
    if platform == "host" or on_board:
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
    if measured.firing_ns is not None:
        print(f"\neach firing: {measured.firing_ns / 1e3:.3g} us of the runtime")
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


class Target(StrEnum):
    """What `build` writes."""

    PROGRAM = "program"
    HOPES_EXTERNAL = "hopes-external"


def build(
    file: Text,
    output: Output = None,
    target: Annotated[
        Target, typer.Option(help="The program, or its networks alone as a C library (in build/STEM-external).")
    ] = Target.PROGRAM,
    platform: OnPlatform = "host",
    force: Force = False,
    as_json: Json = False,
) -> int:
    """Write the program: a directory that runs with numpy and ONNX Runtime, without flowc."""
    from .. import steps

    if target is Target.HOPES_EXTERNAL:
        return _external(file, output, platform, force, as_json)
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


def _external(file: Path, output: Path | None, platform: str, force: bool, as_json: bool) -> int:
    from ..steps.external import build_external

    built = build_external(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    networks = built.external.networks
    if as_json:
        print_json(
            {
                "directory": str(built.directory),
                "digest": built.digest,
                "fresh": built.fresh,
                "library": f"lib{built.external.library}.so",
                "losses": {name: [asdict(x) for x in found] for name, found in built.losses.items()},
                "networks": {n.name: {"function": n.function, "stages": [s.name for s in n.stages]} for n in networks},
            }
        )
        return 0
    print(f"{built.directory}{'' if built.fresh else ' (up to date)'}")
    for line in in_8_bits(built.losses):
        print(f"  {line}")
    for network in networks:
        stages = f", {len(network.stages)} stages" if len(network.stages) > 1 else ""
        print(f"  {network.name}{stages}: {network.function}_init, _execute, _wrapup, _error")
    print(f"`python3 {built.directory / 'build_shim.py'}` makes lib{built.external.library}.so")
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
    twin: Twin = False,
    output: Output = None,
    platform: OnPlatform = "host",
    force: Force = False,
    as_json: Json = False,
) -> int:
    """Build if needed, then run the program until its stream ends, or Ctrl-C.

    With --twin, a few frames are compared with the sequential reference before.
    """
    import tempfile

    from .. import steps

    built = steps.build(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    if twin and not _agrees(built.directory):
        return 1
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, str(built.directory.resolve() / "main.py")]
        command += ["--frames", str(frames)] if frames is not None else []
        command += ["--full-speed"] if full_speed else []
        command += ["--strict"] if strict else []
        command += ["--twin"] if twin else []
        command += ["--trace", str(trace.resolve())] if trace is not None else []
        command += ["--report", str(report), "--quiet"] if as_json else []
        status = _execute(command, silent_stdout=as_json)
        if as_json and report.is_file() and report.stat().st_size:
            print(report.read_text())
    return status


def test(
    file: Text,
    frames: Annotated[
        int | None,
        typer.Option(help="Frames to compare (default: a few, by size).", min=1, metavar="N", show_default=False),
    ] = None,
    twin: Twin = False,
    output: Output = None,
    platform: OnPlatform = "host",
    force: Force = False,
    as_json: Json = False,
) -> int:
    """Build if needed, then run the harness: the program against a sequential reference of the same graph."""
    from .. import steps

    built = steps.build(file, output, platform=platform, force=force, report=progress)
    show_diagnostics(built.diagnostics, sources(built.diagnostics))
    command = [sys.executable, "-X", "faulthandler", "-m", "unittest", "discover", "-s", "tests", "-v"]
    environment = dict(os.environ, **({"FLOWC_TEST_FRAMES": str(frames)} if frames is not None else {}))
    environment |= {"FLOWC_TWIN": "1"} if twin else {}
    status = _execute(command, silent_stdout=as_json, cwd=built.directory, environment=environment)
    if as_json:
        print_json({"ok": status == 0, "directory": str(built.directory)})
    return 1 if status not in (0, 130, 143) else status


def _agrees(directory: Path) -> bool:
    """Does the twin give the results of the sequential reference? Says so, or shows where it does not."""
    import subprocess

    command = [sys.executable, "-m", "unittest", "discover", "-s", "tests"]
    progress("comparing the twin with the sequential reference")
    done = subprocess.run(
        command, cwd=directory, env=dict(os.environ, FLOWC_TWIN="1"), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
        return False
    say("flowc: the twin gives the results of the sequential reference")
    return True


def _execute(
    command: list[str], *, silent_stdout: bool, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> int:
    """Run a program that handles signals itself: wait for it, and hand on what it decides."""
    import signal
    import subprocess

    stdout = sys.stderr if silent_stdout else None
    sys.stdout.flush()
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def hand_on(number: int, frame: object) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends SIGINT to the child too; it takes both as one
        signal.signal(number, hand_on)
    child = subprocess.Popen(command, stdout=stdout, cwd=cwd, env=environment, preexec_fn=_ends_with_me())
    for missed in early:
        child.send_signal(missed)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _ends_with_me() -> Callable[[], None]:
    """What a child does before it becomes another program: it asks to be terminated when this process is killed."""
    import ctypes
    import signal

    me, prctl = os.getpid(), ctypes.CDLL(None).prctl
    PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != me:  # too late
            os._exit(1)

    return ask
