"""The verb `profile`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._boards import BoardPython, Boards, hosts_of
from ._common import (
    Json,
    OnPlatform,
    RunTarget,
    Shapes,
    Target,
    TextOrNetwork,
    print_json,
    progress,
    say,
    show_diagnostics,
    with_shapes,
)
from ._groups import grouped
from ._tables import cut_table, in_8_bits

if TYPE_CHECKING:
    from ..driver.measure.foreign_times import TimesFile
    from ..driver.measure.measure import Profiled
    from ..machines.host import Host
    from ..model.profile import ListLength, ProfileEntry
    from ..profiling.power import Fitted


@dataclass(frozen=True, slots=True)
class MeterOptions:
    """What is measured with a meter, and with which."""

    power: Annotated[
        bool,
        typer.Option(
            "--power",
            help="Measure what the CPUs of the platform take at each clock rate instead, for"
            " `--seconds` each, and print what the platform states then.",
        ),
    ] = False
    energy: Annotated[
        bool,
        typer.Option(
            "--energy",
            help="Measure the energy of networks as well, whole and in stages, for `--seconds`"
            " each.",
        ),
    ] = False
    meter: Annotated[
        str,
        typer.Option(
            metavar="CMD",
            help="With --power or --energy: a command that prints watts, instead of the machine's"
            " own meters.",
        ),
    ] = ""


@grouped
def profile(
    file: TextOrNetwork,
    metered: MeterOptions,
    seconds: Annotated[
        float,
        typer.Option(
            help="How long to run the application; longer while its times are not known well.",
            min=0.1,
        ),
    ] = 5.0,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also list the layers of networks.")
    ] = False,
    target: RunTarget = Target.PROGRAM,
    platform: OnPlatform = "host",
    board: Boards = None,
    board_python: BoardPython = "python3",
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="[[TASK:]gpu|dla=]FILE[*RATIO]",
            help="Take the times of a network on a GPU or DLA from what NVIDIA's trtexec wrote"
            " with --exportProfile, or printed with --dumpProfile; or so many times these.",
        ),
    ] = None,
    shape: Shapes = None,
    as_json: Json = False,
) -> int:
    """Measure every task and network here, and store the times.

    On a board with its GPU, tasks that can run on the GPU and the DLAs are measured there as well.
    For an .onnx file the layers are measured instead, and places to cut it into stages are shown.
    """
    from ..driver.measure.energy import Meter
    from ..driver.measure.measure import profile as measure

    if metered.meter and not (metered.power or metered.energy):
        message = "it goes with `--power` and `--energy`"
        raise typer.BadParameter(message, param_hint="--meter")
    if metered.power and metered.energy:
        message = "it goes with `profile` itself, and not with `--power`"
        raise typer.BadParameter(message, param_hint="--energy")
    if metered.power:
        with hosts_of(board, board_python) as host:
            return _power(file, platform, host, seconds, metered.meter, as_json)
    file, native = with_shapes(file, shape), target == Target.NATIVE
    for_texts = (native, "--target"), (bool(files), "--from"), (metered.energy, "--energy")
    for given, option in for_texts:
        if given and file.suffix == ".onnx":
            raise typer.BadParameter("it is for texts", param_hint=option)
    if file.suffix == ".onnx":
        return _layers(file, seconds, as_json)
    with hosts_of(board, board_python) as host:
        measured = measure(
            file,
            platform=platform,
            native=native,
            host=host,
            seconds=seconds,
            files=[_times_file(words) for words in files or ()],
            energy=Meter(metered.meter, seconds) if metered.energy else None,
            on_measure=lambda message: say(f"flowc: {message}"),
            report=progress,
        )
    show_diagnostics(measured.diagnostics, {})
    if as_json:
        print_json(json.loads(measured.profile.to_json()))
        return 0
    _print_profile(measured, layers, native)
    return 0


def _power(file: Path, platform: str, host: Host, seconds: float, meter: str, as_json: bool) -> int:
    """Measure power, and print the words of the platform."""
    from ..driver.measure.power import measure_power
    from ..runtime.report import columns

    measured = measure_power(
        file, platform=platform, host=host, seconds=seconds, meter=meter, report=progress
    )
    show_diagnostics(measured.diagnostics, {})
    fit = measured.fit
    if as_json:
        rates = {name: list(own) for name, own in measured.rates.items()}
        print_json({"platform": measured.platform.name, "rates_hz": rates, **asdict(fit)})
        return 0
    rows = [["pool", "clock rate", "idle W", "busy W"]]
    for pool in measured.pools:
        of_pool = zip(fit.idle[pool.name], fit.busy[pool.name], strict=True)
        for k, (idle, busy) in enumerate(of_pool):
            hz = measured.rates[pool.name][k : k + 1]
            rate = f"{hz[0] / 1e6:g} MHz" if hz else "as it is"
            rows.append([pool.name, rate, _off(idle), _off(busy)])
    print(columns(rows, left=2))
    print(f"\nthe machine at rest: {_off(fit.board)} W; a CPU takes `busy` beside its `idle`")
    print(f"the model leaves {fit.residual:.1%} of the power\n")
    for line in measured.in_words:
        print(f"    {line}")
    return 0


def _off(number: Fitted) -> str:
    return f"{number.watts:.3f} ± {number.off:.3f}"


def _times_file(words: str) -> TimesFile:
    """A value of `--from`."""
    from ..driver.measure.foreign_times import TimesFile

    pattern = r"(?:(?:([\w.\[\]]+):)?(gpu|dla)=)?(.+?)(?:\*(\d+(?:\.\d+)?))?"
    found = re.fullmatch(pattern, words, re.DOTALL)
    if found is None:
        raise typer.BadParameter("it names no file", param_hint="--from")
    task, kind, file, ratio = found.groups()
    if ratio is not None and not float(ratio):
        raise typer.BadParameter(f"`{ratio}` is no ratio of times", param_hint="--from")
    return TimesFile(Path(file), kind or "gpu", task or "", float(ratio or 1))


def _print_profile(measured: Profiled, layers: bool, native: bool) -> None:
    """The tables of a profile; `layers` adds those of networks. `native` programs have no
    interpreter, and short times."""
    profile = measured.profile
    warmth = ""
    if measured.celsius is not None:
        warmth = "; {:.0f} °C before, {:.0f} °C after".format(*measured.celsius)
    print(f"{profile.host}; measured noise: {measured.noise:.0%}{warmth}\n")
    print(_table_of_tasks(measured.entries, native))
    lists = [(e.subject, seen) for e in measured.entries for seen in e.lists]
    if lists:
        print(f"\n{_table_of_lists(lists)}")
    if any(e.runs for e in measured.entries):
        print(f"\n{_table_of_runs(measured.entries)}")
    for line in in_8_bits(measured.losses):
        print(f"\n{line}")
    for entry in measured.entries:
        if entry.layers:
            count, beside = len(entry.layers), entry.overhead_ns / 1e3
            took = "" if entry.energy_nj is None else f", {entry.energy_nj / 1e6:.3g} mJ"
            print(f"\n{entry.subject}: {count} layers, {beside:.0f} us beside them{took}")
            if layers:
                print(_table_of_layers(entry))
    if profile.firing_ns is not None and not native:  # there it is in the times of tasks
        print(f"\neach firing: {profile.firing_ns / 1e3:.3g} us of the runtime")
    for t in profile.transfers:
        cost = f"{t.fixed_ns / 1e3:.3g} us + {t.ns_per_byte * 1e3:.3g} us per MB"
        print(f"a tensor from {t.source} to {t.target}: {cost}")
    if measured.path is not None:
        print(f"\n{measured.path}")


def _table_of_tasks(entries: Iterable[ProfileEntry], native: bool) -> str:
    from ..runtime.report import columns

    times, digits = ["mean us", "std us", "max us", "wcet us"], 3 if native else 1
    rows = [["task", "implementation", "samples", *times, *([] if native else ["holds python"])]]
    for e in entries:
        us = [f"{ns / 1e3:.{digits}f}" for ns in (e.mean_ns, e.std_ns, e.max_ns, e.wcet_ns)]
        held = "" if e.held is None else f"{e.held:.0%}"
        rows.append([e.subject, e.implementation, str(e.samples), *us, *([] if native else [held])])
    return columns(rows, left=2)


def _table_of_lists(lists: Iterable[tuple[str, ListLength]]) -> str:
    from ..runtime.report import columns

    rows = [["list", "tokens: mean", "most"]]
    rows += [[f"{task}.{seen.port}", f"{seen.mean:.3g}", f"{seen.most}"] for task, seen in lists]
    return columns(rows)


def _table_of_runs(entries: Iterable[ProfileEntry]) -> str:
    from ..runtime.report import columns

    rows = [["runs of", "firings", "mean us", "max us", "wcet us"]]
    for e in entries:
        for run in e.runs:
            us = [f"{ns / 1e3:.1f}" for ns in (run.mean_ns, run.max_ns, run.wcet_ns)]
            rows.append([e.subject, str(run.firings), *us])
    return columns(rows, left=1)


def _table_of_layers(entry: ProfileEntry) -> str:
    from ..runtime.report import columns

    whole = sum(layer.mean_ns for layer in entry.layers) or 1
    energies = [layer.energy_nj for layer in entry.layers if layer.energy_nj is not None]
    rows = [["layer", "mean us", "share", *(["uJ"] if energies else [])]]
    for layer in entry.layers:
        row = [layer.layer, f"{layer.mean_ns / 1e3:.1f}", f"{layer.mean_ns / whole:.1%}"]
        energy = "" if layer.energy_nj is None else f"{layer.energy_nj / 1e3:.3g}"
        rows.append([*row, *([energy] if energies else [])])
    return columns(rows)


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
