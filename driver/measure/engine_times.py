"""Networks on each engine that could run them here: how long an inference takes, and how near its
results are to 32 bits.

In: a text and its profile. Out: a time per engine and precision, those that are the fastest, and
why the others are not. An inference is timed alone, in turns with ONNX Runtime, by the CPU time of
its thread; its time in the application is estimated by that on ONNX Runtime, times the ratio of
both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from platform import machine
from statistics import median
from typing import TYPE_CHECKING, Any

from ...codegen.deploy import deploy, sequential
from ...dsl.modules import local_modules
from ...machines.host import HERE, own_platform
from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import scratch
from ...model.mapping import OtherEngine, PinStage
from ...model.profile import Profile, ProfileEntry, RunTime
from ...networks.engines import ENGINES, Engine
from ...passes.precision import convert_network, converted
from ...profiling.identity import content_hash
from ...targets.inference import engine_for, unfit_inference
from ..plan.compared import MORE_SAMPLES, compared_before, compared_on, opened, samples_of
from ..plan.program import write_program
from ..text import store
from ..text.check import Report, Valid
from .measure import without_periods

if TYPE_CHECKING:
    import numpy as np

#: Networks that take less stay on ONNX Runtime: a call of another engine costs more there.
LEAST_NS = 100_000
#: Another engine has to be faster by this factor.
FASTER = 1.05
#: Inferences of each engine, in turns, and seconds after which there are no more.
RUNS, SECONDS = 25, 1.5


@dataclass(frozen=True, slots=True)
class Engines:
    """The choices by task that differ from ONNX Runtime, with the times of networks on engines, and
    for each network what was looked at, in words."""

    chosen: dict[str, OtherEngine]
    times: tuple[ProfileEntry, ...]
    said: dict[str, str]
    unsaved: tuple[Diagnostic, ...] = ()


def open_networks(valid: Valid) -> dict[str, Task]:
    """The networks whose engine on CPUs neither a pin nor their precision decides, by task."""
    pinned = {p.task for p in valid.system.pins if p.platform == valid.platform.name}
    return {
        name: task
        for name, task in valid.every_task.items()
        if task.network is not None
        and name not in pinned
        and engine_for(task.network) is ENGINES[0]
    }


def fastest_engines(
    valid: Valid,
    profile: Profile,
    excluded: Mapping[str, str],
    *,
    runs: bool,
    report: Report | None = None,
) -> Engines:
    """The fastest engine and precision of each network that a search may place on a CPU of this
    machine, but for those that are `excluded`, with the reason. Known times are not measured again;
    without `runs` no others count."""
    entries = {e.subject: e for e in profile.entries if e.on_cpu and not e.engine}
    stored = store.every_time(valid)
    judge = _Judge(valid, stored, report, runs)
    chosen: dict[str, OtherEngine] = {}
    said: dict[str, str] = {}
    for name, task in open_networks(valid).items():
        if name in excluded:
            said[name] = f"{name}: on ONNX Runtime, as {excluded[name]}"
        elif name in entries:
            best, words = judge.best(task, entries[name])
            said[name] = f"{name}: {words}"
            if best is not None:
                chosen[name] = best
    kept = replace(profile, entries=(*profile.entries, *judge.measured))
    unsaved = store.save_profile(valid, kept) if judge.measured else ()
    return Engines(chosen, (*stored, *judge.measured), said, unsaved)


class _Judge:
    """Measures engines for the networks of one text; the application runs once for their data."""

    def __init__(
        self, valid: Valid, stored: tuple[ProfileEntry, ...], report: Report | None, runs: bool
    ) -> None:
        self._valid, self._report, self._runs = valid, report, runs
        self._stored = stored
        self._recorded: dict[str, list[list[np.ndarray]]] | None = None
        self.measured: list[ProfileEntry] = []

    def best(self, task: Task, entry: ProfileEntry) -> tuple[OtherEngine | None, str]:
        """The choice for a network whose time on ONNX Runtime is known, None for ONNX Runtime; and
        what was looked at, in words."""
        if entry.mean_ns < LEAST_NS:
            least = f"less than {LEAST_NS / 1e6:g} ms"
            return None, f"on ONNX Runtime, as an inference takes {least}"
        own = f"{_precision(task)} on ONNX Runtime {_ms(entry.mean_ns)}"
        seen: list[tuple[int, OtherEngine]] = []
        words = [own]
        absent = (e for e in ENGINES[1:] if not e.version and e.made_for in ("", machine()))
        words += [f"{e.title} not: {e.install}" for e in absent]
        for engine, precision in _candidates(task):
            found = self._candidate(task, entry, engine, precision)
            if isinstance(found, str):
                words.append(found)
                continue
            time_, figure = found
            word = f"{precision} on {engine.title} {_ms(time_.mean_ns)}"
            words.append(f"{word} ({figure})" if figure else word)
            own_word = "" if precision == _precision(task) else precision
            own_name = "" if engine is ENGINES[0] else engine.name
            seen.append((time_.mean_ns, OtherEngine(own_name, own_word)))
        if task.network is not None and task.network.any_precision and not task.network.calibrate:
            words.append("int8 not: the network has no `calibrate`")
        fastest, choice = min(seen, key=lambda pair: pair[0], default=(entry.mean_ns, None))
        if choice is None or fastest * FASTER > entry.mean_ns:
            return None, "; ".join(words)
        return choice, "; ".join(words)

    def _candidate(
        self, task: Task, entry: ProfileEntry, engine: Engine, precision: str
    ) -> tuple[ProfileEntry, str] | str:
        """The time of a network on an engine with the figure of its noise, or why it cannot be."""
        assert task.network is not None
        own = "" if precision == _precision(task) else precision
        with_it = replace(task, network=replace(task.network, precision=precision))
        stage = PinStage((), None, 1, task.span, engine=engine.name, precision=own)
        reason = unfit_inference(with_it, stage, {"cpu"})
        name = f"{precision} on {engine.title}"
        if reason is not None:
            return f"{name} not: {reason[1]}"
        if own == "int8":
            try:
                with_it = self._in_8_bits(with_it)
            except Errors as errors:
                return f"{name} not: {errors.diagnostics[0].message}"
        if not self._runs:
            return (
                self._known(with_it, entry, engine, own) or f"{name} not: it was not measured yet"
            )
        data = None
        if own and task.network.calibrate is None:
            data = self._data().get(task.name)
            if not data:
                return f"{name} not: the application gave no data to compare on"
        near = compared_on(with_it, engine, self._valid, data)
        if near.code:
            return f"{name} not: {near.reason}"
        time_ = self._stored_time(with_it, entry, engine) or self._time(with_it, entry, engine)
        return time_, near.figure

    def _in_8_bits(self, task: Task) -> Task:
        """The task with its network converted, now if it was not before. Raises Errors."""
        system, tensorrt = self._valid.system, self._valid.platform.tensorrt
        found = converted(system, task, tensorrt)
        if found is None:
            if self._report is not None:
                self._report(f"converting {task.definition}")
            convert_network(system, task, tensorrt)
            found = converted(system, task, tensorrt)
        if found is None:
            raise Errors([Diagnostic("F605", "the converted network cannot be read", task.span)])
        return found[0]

    def _known(
        self, task: Task, entry: ProfileEntry, engine: Engine, own: str
    ) -> tuple[ProfileEntry, str] | None:
        """The stored time and figure of a network on an engine that passed its comparison."""
        near = compared_before(task, engine, self._valid, of_source=bool(own))
        time_ = self._stored_time(task, entry, engine)
        return None if near is None or near.code or time_ is None else (time_, near.figure)

    def _stored_time(self, task: Task, entry: ProfileEntry, engine: Engine) -> ProfileEntry | None:
        """The stored entry of a network on an engine."""
        assert task.network is not None
        digest = content_hash(task, ())
        run = engine.name, task.network.precision
        for known in (*self._stored, *self.measured):
            same = known.on_engine == run and known.content_hash == digest
            if same and known.subject == task.name and known.host_hash == entry.host_hash:
                return known
        return None

    def _time(self, task: Task, entry: ProfileEntry, engine: Engine) -> ProfileEntry:
        """The entry of a network on an engine, measured."""
        assert task.network is not None
        ratio, samples = ratio_alone(task.network, engine)
        measured = replace(
            entry,
            engine=engine.name,
            precision=task.network.precision,
            content_hash=content_hash(task, ()),
            samples=samples,
            estimated=True,
            mean_ns=round(entry.mean_ns * ratio),
            std_ns=round(entry.std_ns * ratio),
            max_ns=round(entry.max_ns * ratio),
            wcet_ns=round(entry.wcet_ns * ratio),
            runs=tuple(_scaled(run, ratio) for run in entry.runs),
            layers=(),
            overhead_ns=0,
            totals_ns=(),
            bands=None,
        )
        self.measured.append(measured)
        return measured

    def _data(self) -> dict[str, list[list[np.ndarray]]]:
        """What the application gives to its networks; empty where it does not run."""
        if self._recorded is None:
            self._recorded = {}
            for part in (*self._valid.others, self._valid):
                names = [
                    name
                    for name, task in part.tasks.items()
                    if task.network is not None and task.network.any_precision
                ]
                if names and self._report is not None:
                    self._report(f"recording inputs of {', '.join(names)}: its tasks run")
                self._recorded |= recorded_inputs(part, names) if names else {}
        return self._recorded


def _precision(task: Task) -> str:
    assert task.network is not None
    return task.network.precision


def _candidates(task: Task) -> Iterator[tuple[Engine, str]]:
    """The engines that are installed, and precisions, beside ONNX Runtime and that of the text."""
    assert task.network is not None
    there = [engine for engine in ENGINES if engine is ENGINES[0] or engine.version]
    for engine in there[1:]:
        yield engine, task.network.precision
    if task.network.any_precision:
        wanted = ("bf16",) if task.network.calibrate is None else ("bf16", "int8")
        yield from ((e, p) for p in wanted for e in there if p in e.precisions)


def _scaled(run: RunTime, ratio: float) -> RunTime:
    times = (round(ns * ratio) for ns in (run.mean_ns, run.max_ns, run.wcet_ns))
    return RunTime(run.firings, run.samples, *times)


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms"


def ratio_alone(network: Network, engine: Engine) -> tuple[float, int]:
    """The CPU time of an inference, of a full run where it has a batch, over that on ONNX Runtime
    (`opened`), and how often both ran; in turns."""
    import numpy as np

    samples, _ = samples_of(network, 1)
    batch = network.batch
    inputs = [np.stack([array] * batch) for array in samples[0]] if batch > 1 else samples[0]
    times: dict[int, list[int]] = {0: [], 1: []}
    end = time.monotonic() + SECONDS
    with opened(network, engine, batch) as codes:
        for number in range(RUNS):
            for position, code in enumerate(codes):
                begin = time.thread_time_ns()
                _fire(code, inputs, batch)
                times[position].append(time.thread_time_ns() - begin)
            if time.monotonic() > end and number >= 3:
                break
    own, other = (median(times[k][1:]) for k in (0, 1))
    return other / max(own, 1.0), len(times[0]) - 1


def _fire(code: Any, inputs: list[np.ndarray], batch: int) -> None:
    """One run of a network."""
    if batch > 1:
        code.fire_batch(inputs)
    else:
        code.fire(inputs, 0)


def recorded_inputs(
    valid: Valid, names: list[str], count: int = MORE_SAMPLES
) -> dict[str, list[list[Any]]]:
    """The inputs of the first firings of some networks by task, as the application makes them; none
    where it fails."""
    own, plain = own_platform(HERE), without_periods(valid.system)
    deployed = deploy(plain, own, sequential(plain, own), valid.repetition, {}, local_modules)
    with scratch() as folder:
        directory, output = folder / "recorded", folder / "inputs.npz"
        write_program(deployed, directory)
        most = str(count)
        words = [str(directory), most, most, str(output), json.dumps(names)]
        done = HERE.module("profiling.there.inputs", words)
        if done.status:
            return {}
        return _read(output)


def _read(output: Path) -> dict[str, list[list[Any]]]:
    import numpy as np

    found: dict[str, list[list[Any]]] = {}
    with np.load(output) as arrays:
        for key in arrays.files:
            task, number, _ = key.rsplit("/", 2)
            firings = found.setdefault(task, [])
            while len(firings) <= int(number):
                firings.append([])
            firings[int(number)].append(arrays[key])
    return found
