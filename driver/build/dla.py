"""Which layers of a text's networks the platform's DLA can run: broken rules, and the longest legal
runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.platform import Platform
from ...model.system import System
from ...networks.dla.rules import LegalRun, Row, legal_runs, summary
from ...networks.onnx.cuts import read_chain
from ...networks.onnx.interface import NetworkError
from ...networks.quantization.quantize import PAIR
from ...targets.dla import broken_rules, generation

#: Runs with at least this many layers get a line.
RUNS = 3


@dataclass(frozen=True, slots=True)
class OnDla:
    """A network: how many of its `layers` are `legal`, the rules that the others break, the longest
    legal runs."""

    network: str
    layers: int
    legal: int
    rows: tuple[Row, ...]
    runs: tuple[LegalRun, ...]


def dla_reports(system: System, platform: Platform) -> tuple[OnDla, ...]:
    """One report for each network of a text on a platform with a DLA that its TensorRT can use."""
    if all(p.kind != "dla" for p in platform.pools) or not platform.tensorrt:
        return ()
    if not generation(platform).works_with(platform.tensorrt):
        return ()
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
            breaches = broken_rules(network, platform)
        except NetworkError:  # it runs as a whole, and has been checked that way
            continue
        layers = [layer.name for layer in chain.layers if layer.operator not in PAIR]
        illegal = {breach.layer for breach in breaches}
        legal = sum(name not in illegal for name in layers)
        runs = legal_runs(layers, breaches)[:RUNS]
        reports.append(OnDla(name, len(layers), legal, summary(breaches), runs))
    return tuple(reports)
