"""Times of networks on a GPU or DLA from files of other tools, as estimates in a profile.

In: a valid system, and the files. Out: an entry of its profile for each. What trtexec calls a layer
is led back to layers of the model, so that searches can cut by these times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network, Task
from ...model.diagnostic import Diagnostic, Errors, did_you_mean, listed
from ...model.files import read_bytes
from ...model.profile import ProfileEntry
from ...profiling.engine_layers import share_of_nodes
from ...profiling.identity import implementation_name, task_hashes
from ...profiling.trtexec import LayerProfile, layer_profile
from ...targets.fitness import unfit_for
from ..text.check import Valid
from .devices import layers_of, nodes_of
from .measure import may_be_cut

#: Below this share of the time in known layers, a file is likely to be of another network.
FEW = 0.5


@dataclass(frozen=True, slots=True)
class TimesFile:
    """A file with the times of a task on a kind of processor; without a task, those of the only
    network."""

    file: Path
    kind: str = "gpu"
    task: str = ""


def entries_of(
    valid: Valid, files: Iterable[TimesFile]
) -> tuple[tuple[ProfileEntry, ...], tuple[Diagnostic, ...]]:
    """An entry for each file, and warnings. Raises Errors with all faults."""
    faults: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    entries: dict[tuple[str, str], ProfileEntry] = {}
    for given in files:
        try:
            entry, own = _entry(valid, given)
        except Errors as errors:
            faults += errors.diagnostics
            continue
        warnings += own
        entries[entry.processor, entry.subject] = entry
    if faults:
        raise Errors(faults)
    return tuple(entries.values()), tuple(warnings)


def _entry(valid: Valid, given: TimesFile) -> tuple[ProfileEntry, tuple[Diagnostic, ...]]:
    task, network = _network(valid, given)
    reason = unfit_for(task, given.kind, valid.platform, fallback=True)
    if all(pool.kind != given.kind for pool in valid.platform.pools):
        message = f"platform `{valid.platform.name}` has no {given.kind}"
        raise Errors([Diagnostic("F607", message, task.span, help="choose one by `--platform`")])
    if reason is not None:
        code, message, help_text = reason
        raise Errors([Diagnostic(code, message, task.span, help=help_text)])
    found = _read(given.file)
    warnings = _checked(task, network, given.file, found)
    layers = layers_of(network, found.layers) if may_be_cut(task) else ()
    mean = round(sum(layer.ns for layer in found.layers) / network.batch)
    entry = ProfileEntry(
        given.kind,
        task.name,
        f"{implementation_name(task, given.kind)}, {given.file.name}",
        task_hashes(valid.system)[task.name],
        "",
        found.iterations,
        mean,
        0,
        mean,
        mean,
        network.batch,
        network.precision,
        estimated=True,
        layers=layers,
    )
    return entry, warnings


def _network(valid: Valid, given: TimesFile) -> tuple[Task, Network]:
    """The task that a file is about, and its network."""
    networks = {t.name: t for t in valid.tasks.values() if t.network is not None}
    if not networks:
        raise Errors([_wrong("the text has no networks", "leave `--from` out")])
    names = listed(list(networks), 4)
    if not given.task and len(networks) > 1:
        help_text = f"write `--from {next(iter(networks))}:{given.kind}={given.file}`"
        if any(t.network and t.network.cut_from for t in networks.values()):
            help_text += "; or leave the pin out that cuts, to search for cuts by these times"
        raise Errors([_wrong(f"the text has several networks: {names}", help_text)])
    task = networks.get(given.task or next(iter(networks)))
    if task is None:
        message = f"the text has no network `{given.task}`"
        raise Errors([_wrong(message, did_you_mean(given.task, networks) or f"it has {names}")])
    assert task.network is not None
    return task, task.network


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


def _checked(
    task: Task, network: Network, file: Path, found: LayerProfile
) -> tuple[Diagnostic, ...]:
    """A warning if a file has few layers of the network; an error if none."""
    share = share_of_nodes(found.layers, nodes_of(network))
    help_text = f"measure `{network.file}`: names of nodes tell what a layer was made of"
    if not share:
        message = f"none of the {len(found.layers)} layers in `{file}` is of `{network.file}`"
        raise Errors([Diagnostic("F607", message, task.span, help=help_text)])
    if share >= FEW:
        return ()
    message = f"only {share:.0%} of the time in `{file}` is in known layers of `{network.file}`"
    return (Diagnostic("F607", message, task.span, help=help_text, severity="warning"),)
