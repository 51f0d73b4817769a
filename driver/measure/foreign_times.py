"""Times of networks on a GPU or DLA from files of other tools, as estimates in a profile.

In: a valid system, and the files. Out: entries of its profile. What trtexec calls a layer is led
back to layers of the model, so that searches can cut by these times. A file is for all tasks with
the same network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Task
from ...model.diagnostic import Diagnostic, Errors, did_you_mean, listed
from ...model.files import read_bytes
from ...model.platform import Platform
from ...model.profile import ProfileEntry
from ...networks.onnx.interface import NetworkError
from ...profiling.engine_layers import share_of_network, share_of_nodes
from ...profiling.identity import implementation_name, task_hashes
from ...profiling.trtexec import LayerProfile, layer_profile
from ...targets.fitness import unfit_for
from ..text.check import Valid
from .devices import chain_of_network, layers_of, nodes_of
from .measure import may_be_cut

#: Below this share of the time in known layers, or of the work in reported ones, a file is likely
#: to be of another network, or of a part.
FEW = 0.5


@dataclass(frozen=True, slots=True)
class TimesFile:
    """A file with the times of a task on a kind of processor; without a task, those of the only
    network.

    The times are so many times those in the file: a DLA does not tell times of layers, and Kim's
    thesis (ch. 3.6.6.2) estimates them from a GPU's by the ratio of the whole, which fell 7.8 to
    8.9 % short.
    """

    file: Path
    kind: str = "gpu"
    task: str = ""
    ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class _Known:
    """A task with a network, and its identity."""

    task: Task
    digest: str


def entries_of(
    valid: Valid, files: Iterable[TimesFile]
) -> tuple[tuple[ProfileEntry, ...], tuple[Diagnostic, ...]]:
    """Entries for each file, and warnings. Raises Errors with all faults."""
    faults: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    entries: list[ProfileEntry] = []
    networks: dict[str, _Known] = {}
    for part in (valid, *valid.others):
        digests = task_hashes(part.system)
        for name, task in part.tasks.items():
            if task.network is not None:
                networks[name] = _Known(task, digests[name])
    for given in files:
        try:
            own, doubts = _entries(valid.platform, networks, given)
        except Errors as errors:
            faults += errors.diagnostics
            continue
        entries += own
        warnings += doubts
    if faults:
        raise Errors(faults)
    return tuple(entries), tuple(warnings)


def _entries(
    platform: Platform, networks: dict[str, _Known], given: TimesFile
) -> tuple[list[ProfileEntry], tuple[Diagnostic, ...]]:
    alike = _alike(networks, given)
    task = alike[0].task
    if all(pool.kind != given.kind for pool in platform.pools):
        message = f"platform `{platform.name}` has no {given.kind}"
        raise Errors([Diagnostic("F607", message, task.span, help="choose one by `--platform`")])
    reason = unfit_for(task, given.kind, platform, fallback=True)
    if reason is not None:
        code, message, help_text = reason
        raise Errors([Diagnostic(code, message, task.span, help=help_text)])
    found = _read(given.file).longer(given.ratio)
    warnings = _doubts(task, given.file, found)
    return [_entry(known, given, found) for known in alike], warnings


def _entry(known: _Known, given: TimesFile, found: LayerProfile) -> ProfileEntry:
    task, network = known.task, known.task.network
    assert network is not None
    mean = round(sum(layer.ns for layer in found.layers) / network.batch)
    name = implementation_name(task, given.kind)
    return ProfileEntry(
        given.kind,
        task.name,
        f"{name} on a {given.kind}, {_origin(given)}",
        known.digest,
        "",
        found.iterations,
        mean,
        0,
        mean,
        mean,
        network.batch,
        network.precision,
        estimated=True,
        layers=layers_of(network, found.layers) if may_be_cut(task) else (),
    )


def _origin(given: TimesFile) -> str:
    """Where times come from, as a user writes it."""
    return given.file.name if given.ratio == 1 else f"{given.file.name}*{given.ratio:g}"


def _alike(networks: dict[str, _Known], given: TimesFile) -> Sequence[_Known]:
    """The tasks that a file is about: all that have the same network."""
    if not networks:
        raise Errors([_wrong("the text has no networks", "leave `--from` out")])
    names = listed(list(networks), 4)
    if not given.task and len({known.digest for known in networks.values()}) > 1:
        help_text = f"write `--from {next(iter(networks))}:{given.kind}={given.file}`"
        if any(k.task.network and k.task.network.cut_from for k in networks.values()):
            help_text += "; or leave the pin out that cuts, to search for cuts by these times"
        raise Errors([_wrong(f"the text has several networks: {names}", help_text)])
    asked = networks.get(given.task or next(iter(networks)))
    if asked is None:
        message = f"the text has no network `{given.task}`"
        raise Errors([_wrong(message, did_you_mean(given.task, networks) or f"it has {names}")])
    return [known for known in networks.values() if known.digest == asked.digest]


def _wrong(message: str, help_text: str) -> Diagnostic:
    return Diagnostic("F607", message, None, help=help_text)


def _read(file: Path) -> LayerProfile:
    try:
        return layer_profile(read_bytes(file))
    except OSError as error:
        raise Errors([_wrong(f"cannot read `{file}`: {error.strerror}", "")]) from error
    except ValueError as error:
        help_text = "`trtexec --onnx=NETWORK --exportProfile=FILE --separateProfileRun` writes one"
        raise Errors([_wrong(f"cannot read `{file}`: {error}", help_text)]) from error


def _doubts(task: Task, file: Path, found: LayerProfile) -> tuple[Diagnostic, ...]:
    """Warnings if a file has few layers of the network; an error if none."""
    network = task.network
    assert network is not None
    nodes = nodes_of(network)
    share = share_of_nodes(found.layers, nodes)
    help_text = f"measure `{network.file}`: names of nodes tell what a layer was made of"
    if not share:
        message = f"none of the {len(found.layers)} layers in `{file}` is of `{network.file}`"
        raise Errors([Diagnostic("F607", message, task.span, help=help_text)])
    messages = []
    if share < FEW:
        messages.append(
            f"only {share:.0%} of the time in `{file}` is in known layers of `{network.file}`"
        )
    try:
        done = share_of_network(found.layers, chain_of_network(network).layers, nodes)
    except NetworkError:
        done = 1.0
    if done < FEW:
        messages.append(
            f"layers with only {done:.0%} of the work of `{network.file}` are in `{file}`"
        )
    return tuple(
        Diagnostic("F607", message, task.span, help=help_text, severity="warning")
        for message in messages
    )
