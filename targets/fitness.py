"""The tasks that a generated program can run on a kind of processor of a platform.

In: a task with its network, a kind of processor, the platform. Out: the reason why not, with a
remedy. `accelerators` checks layers for accelerators that do not take all, `engines` the number of
engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from ..model.application import Application, Network, Task, all_tasks
from ..model.diagnostic import Diagnostic, one_of
from ..model.platform import Platform
from ..model.times import has_code

#: (code, message, help) of a diagnostic.
Reason = tuple[str, str, str]
#: KiB of shared memory that a block may have, by compute capability (CUDA C++ Programming Guide,
#: technical specifications); others are not judged.
_SHARED_KIB = {
    (5, 3): 48,
    (6, 0): 48,
    (6, 1): 48,
    (6, 2): 48,
    (7, 0): 96,
    (7, 2): 96,
    (7, 5): 64,
    (8, 0): 163,
    (8, 6): 99,
    (8, 7): 163,
    (8, 9): 99,
    (9, 0): 227,
    (10, 0): 227,
    (11, 0): 227,
    (12, 0): 99,
}


def unfit_for(
    task: Task, kind: str, platform: Platform, *, fallback: bool = False
) -> Reason | None:
    """The reason why a task cannot run on that kind of processor, or None. `fallback`: the GPU may
    run layers that the accelerator cannot."""
    if kind == "link" or task.transfer is not None:
        if kind == "link" and task.transfer is not None:
            return None
        return "F503", f"`{task.name}` cannot run on a {kind}", "links carry tokens, no more"
    if kind == "gpu" and _most_gpus(platform) > 1 and _has_code(task):
        return "F603", "a program uses one GPU, and the platform has more", "declare one"
    if task.built_in:
        if kind == "cpu":
            return None
        return "F503", f"`{task.name}` cannot run on a {kind}", "it runs on a cpu"
    if task.network is None:
        return _unfit_code(task, kind, platform)
    if kind == "cpu":
        return None
    reason = _unfit_network(task, task.network, kind)
    if reason is not None:
        return reason
    from .accelerators import unfit_to_compile

    return unfit_to_compile(task, task.network, kind, platform, fallback)


def _unfit_code(task: Task, kind: str, platform: Platform) -> Reason | None:
    """The reason for a task that is no network."""
    if not has_code(task, kind, platform):  # to an abstract task code may be added
        message = f"`{task.name}` cannot run on a {kind}: it has no code for one"
        kinds = sorted({i.kind for i in task.implementations})
        return "F503", message, f"it has code for {one_of(kinds)}"
    return _too_much_shared(task, platform) if kind == "gpu" else None


def _unfit_network(task: Task, network: Network, kind: str) -> Reason | None:
    """The reason why a network cannot leave the CPU."""
    if network.precision == "bf16":
        message = f"`{task.name}` cannot run on a {kind}: `precision bf16` is for CPUs"
        return "F540", message, "pin it to a cpu, or write `precision fp16`"
    if network.moving is not None and kind != "gpu":
        message = (
            f"`{task.name}` cannot run on a {kind}: its cut moves, and engines there are few and"
            " made for one cut"
        )
        return "F505", message, "leave `adapt` out, or pin its stages to CPUs and a GPU"
    if network.one_piece:
        message = f"`{task.name}` cannot run on a {kind}: it has {network.one_piece}"
        return "F404", message, "leave it on a cpu: it stays in one piece"
    if task.open_ports:
        message = (
            f"`{task.name}` cannot run on a {kind}: the size of `{task.open_ports[0].name}` depends"
            " on data"
        )
        help_text = "leave it on a cpu, or cut it with `until` in front of the layer that makes it"
        return "F503", message, help_text
    return None


def _most_gpus(platform: Platform) -> int:
    """How many GPUs one machine has at most."""
    counts = Counter(dict.fromkeys(platform.machines or ("",), 0))
    for pool in platform.pools:
        if pool.kind == "gpu":
            counts[pool.machine] += pool.count
    return max(counts.values())


def unlaunchable(apps: Iterable[Application], platform: Platform) -> tuple[Diagnostic, ...]:
    """Tasks whose only code is kernels that the platform's GPU cannot launch: one fault per
    definition.
    """
    faults = {}
    for task in all_tasks(apps):
        reason = _too_much_shared(task, platform)
        if reason is not None and all(i.kind == "gpu" for i in task.implementations):
            code, message, help_text = reason
            span = task.implementations[0].span
            faults[task.definition] = Diagnostic(code, message, span, help=help_text)
    return tuple(faults.values())


def _too_much_shared(task: Task, platform: Platform) -> Reason | None:
    """Kernels that ask for more shared memory than a block can have on the platform's GPU."""
    compute = next((p.compute for p in platform.pools if p.kind == "gpu"), None)
    if compute is None or compute not in _SHARED_KIB:
        return None
    most = _SHARED_KIB[compute]
    for launch in chain.from_iterable(i.launches for i in task.implementations):
        if launch.shared > most << 10:
            name = ".".join(map(str, compute))
            message = f"kernel `{launch.kernel}` asks for {launch.shared} bytes of shared memory"
            return "F309", message, f"a block has {most} KiB on a GPU of compute capability {name}"
    return None


def _has_code(task: Task) -> bool:
    """True if it is not an abstract task."""
    return task.network is not None or bool(task.implementations)
