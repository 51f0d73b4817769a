"""The verb `profile`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ._boards import BoardPython, Boards, hosts_of
from ._common import Json, OnPlatform, TextOrNetwork, print_json, progress, say, show_diagnostics
from ._tables import cut_table, in_8_bits


def profile(
    file: TextOrNetwork,
    seconds: Annotated[float, typer.Option(help="How long to run the application.", min=0.1)] = 5.0,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also list the layers of networks.")
    ] = False,
    platform: OnPlatform = "host",
    board: Boards = None,
    board_python: BoardPython = "python3",
    as_json: Json = False,
) -> int:
    """Measure every task and network here, and store the times.

    On a board with its GPU, tasks that can run on the GPU and the DLAs are measured there as well.
    For an .onnx file the layers are measured instead, and places to cut it into stages are shown.
    """
    from ..driver.measure.measure import profile as measure

    if file.suffix == ".onnx":
        return _layers(file, seconds, as_json)
    with hosts_of(board, board_python) as host:
        found = measure(
            file,
            platform=platform,
            host=host,
            seconds=seconds,
            on_measure=lambda said: say(f"flowc: {said}"),
            report=progress,
        )
    measured = found.profile
    show_diagnostics(found.diagnostics, {})
    if as_json:
        print_json(json.loads(measured.to_json()))
        return 0
    from ..runtime.report import columns

    warmth = (
        ""
        if found.celsius is None
        else "; {:.0f} °C before, {:.0f} °C after".format(*found.celsius)
    )
    print(f"{measured.host}; measured noise: {found.noise:.0%}{warmth}\n")
    rows = [
        [
            "task",
            "implementation",
            "samples",
            "mean us",
            "std us",
            "max us",
            "wcet us",
            "holds python",
        ]
    ]
    for e in found.entries:
        times = [f"{ns / 1e3:.1f}" for ns in (e.mean_ns, e.std_ns, e.max_ns, e.wcet_ns)]
        rows.append(
            [
                e.subject,
                e.implementation,
                str(e.samples),
                *times,
                "" if e.held is None else f"{e.held:.0%}",
            ]
        )
    print(columns(rows, left=2))
    for line in in_8_bits(found.losses):
        print(f"\n{line}")
    for e in found.entries:
        if e.layers:
            print(
                f"\n{e.subject}: {len(e.layers)} layers, {e.overhead_ns / 1e3:.0f} us beside them"
            )
            if layers:
                whole = sum(x.mean_ns for x in e.layers) or 1
                table = [
                    [x.layer, f"{x.mean_ns / 1e3:.1f}", f"{x.mean_ns / whole:.1%}"]
                    for x in e.layers
                ]
                print(columns([["layer", "mean us", "share"], *table]))
    if measured.firing_ns is not None:
        print(f"\neach firing: {measured.firing_ns / 1e3:.3g} us of the runtime")
    for t in measured.transfers:
        cost = f"{t.fixed_ns / 1e3:.3g} us + {t.ns_per_byte * 1e3:.3g} us per MB"
        print(f"a tensor from {t.source} to {t.target}: {cost}")
    if found.path is not None:
        print(f"\n{found.path}")
    return 0


def _layers(file: Path, seconds: float, as_json: bool) -> int:
    from ..driver.show.networks import measured_cuts

    cuts, times = measured_cuts(file, seconds)
    if as_json:
        layers = [{"layer": name, "mean_ns": round(ns)} for name, ns in times.mean_ns.items()]
        points = [asdict(c) for c in cuts]
        print_json(
            {
                "layers": layers,
                "overhead_ns": round(times.overhead_ns),
                "runs": times.runs,
                "cuts": points,
            }
        )
        return 0
    whole = sum(times.mean_ns.values())
    print(
        f"{whole / 1e6:.3g} ms of layers, {times.overhead_ns / 1e3:.3g} us of overhead;"
        f" {times.runs} runs, one thread\n"
    )
    print(cut_table(cuts, "time"))
    return 0
