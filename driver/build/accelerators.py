"""Which layers of a text's networks the platform's accelerators can run: broken rules, and the
longest legal runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.platform import Platform
from ...model.system import System
from ...networks.accelerators.breaches import LegalRun, Row, legal_runs, summary
from ...networks.onnx.cuts import read_chain
from ...networks.onnx.interface import NetworkError
from ...networks.quantization.quantize import PAIR
from ...targets.accelerators import compiler_of
from ...targets.compiler import Compiler

#: Runs with at least this many layers get a line.
RUNS = 3


@dataclass(frozen=True, slots=True)
class OnAccelerator:
    """A network: how many of its `layers` are `legal`, the rules that the others break, the longest
    legal runs. `kind` is that of the processors, `title` what messages call one of them."""

    network: str
    kind: str
    title: str
    layers: int
    legal: int
    rows: tuple[Row, ...]
    runs: tuple[LegalRun, ...]


def accelerator_reports(system: System, platform: Platform) -> tuple[OnAccelerator, ...]:
    """One report for each network of a text and each kind of accelerator of the platform that does
    not take all layers; of a compiler that is not selective, only where it refuses some."""
    kinds = dict.fromkeys(pool.kind for pool in platform.pools)
    reports: list[OnAccelerator] = []
    for kind in kinds:
        compiler = compiler_of(platform, kind)
        if compiler is not None and compiler.usable:
            reports += _reports(system, kind, compiler)
    return tuple(reports)


def _reports(system: System, kind: str, compiler: Compiler) -> list[OnAccelerator]:
    networks: dict[str, Network] = {}
    for app in system.apps:
        for task in app.tasks:
            if task.network is not None and task.network.moving is None:
                whole = task.network.cut_from or task.network
                networks.setdefault(task.network.definition, whole)
    reports = []
    for name, network in networks.items():
        try:
            chain = read_chain(Path(network.path), network.shapes)
            breaches = compiler.broken(network)
        except NetworkError:  # it runs as a whole, and has been checked that way
            continue
        layers = [layer.name for layer in chain.layers if layer.operator not in PAIR]
        illegal = {breach.layer for breach in breaches}
        legal = sum(name not in illegal for name in layers)
        runs = legal_runs(layers, breaches)[:RUNS]
        if not breaches and not compiler.selective:
            continue
        rows = summary(breaches)
        reports.append(OnAccelerator(name, kind, compiler.title, len(layers), legal, rows, runs))
    return reports
