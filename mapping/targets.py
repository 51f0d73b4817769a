"""What a generated program can run on which kind of processor of a platform, and what stands in the way.

In: a task with its network, a kind of processor, the platform. Out: the reason why not, with what to do. Layers are
held against the rules of the platform's DLA (networks/dla_rules.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from ..model.application import Application, Network, Task
from ..model.diagnostic import Diagnostic, one_of
from ..model.platform import STRONGLY_TYPED, Platform
from ..networks.dla_limits import GENERATIONS, Generation
from ..networks.dla_rules import Breach, breaches
from ..networks.implicit import has_pairs, without_pairs

#: (code, message, help) of a diagnostic.
Reason = tuple[str, str, str]
#: Compute capability of the GPU beside the DLA, and which one that is.
_BESIDE = {(7, 2): "xavier", (8, 7): "orin"}
#: KiB of shared memory that a block may have, by compute capability (CUDA C++ Programming Guide, technical
#: specifications); others are not judged.
_SHARED_KIB = {
    (5, 3): 48, (6, 0): 48, (6, 1): 48, (6, 2): 48, (7, 0): 96, (7, 2): 96, (7, 5): 64, (8, 0): 163, (8, 6): 99,
    (8, 7): 163, (8, 9): 99, (9, 0): 227, (10, 0): 227, (12, 0): 99,
}  # fmt: skip
#: Layers that a message names; `flowc show --platform` has all of them.
SHOWN = 3


def generation(platform: Platform) -> Generation:
    """The DLA of a platform: told by the GPU beside it, else by its TensorRT."""
    for pool in platform.pools:
        if pool.compute in _BESIDE:
            return GENERATIONS[_BESIDE[pool.compute]]
    return GENERATIONS["xavier" if platform.tensorrt < (8, 6) else "orin"]


def unfit_for(task: Task, kind: str, platform: Platform, *, fallback: bool = False) -> Reason | None:
    """Why a task cannot run on that kind of processor (None: it can). `fallback`: the GPU may help a DLA out."""
    if kind == "gpu" and sum(p.count for p in platform.pools if p.kind == "gpu") > 1 and _has_code(task):
        return "F603", "a program uses one GPU, and the platform has more", "declare one"
    if task.network is None:
        if not task.implementations or any(i.kind == kind for i in task.implementations):
            return _too_much_shared(task, platform) if kind == "gpu" else None  # to an abstract task code may be added
        have = f"it has code for {one_of(sorted({i.kind for i in task.implementations}))}"
        return "F503", f"`{task.name}` cannot run on a {kind}: it has no code for one", have
    if kind == "cpu":
        return None
    if task.network.moving is not None:
        return "F505", f"the cut of `{task.name}` can move between CPUs only", "leave `adapt` out"
    return _unfit_for_dla(task, task.network, platform, fallback) if kind == "dla" else None


def unlaunchable(apps: Iterable[Application], platform: Platform) -> tuple[Diagnostic, ...]:
    """Tasks whose only code is kernels that the platform's GPU cannot launch: one fault per definition."""
    found = {}
    for task in (t for a in apps for t in a.tasks):
        reason = _too_much_shared(task, platform)
        if reason is not None and all(i.kind == "gpu" for i in task.implementations):
            code, message, help_text = reason
            found[task.definition] = Diagnostic(code, message, task.implementations[0].span, "", (), help_text)
    return tuple(found.values())


def _too_much_shared(task: Task, platform: Platform) -> Reason | None:
    """Kernels that ask for more shared memory than a block can have on the platform's GPU."""
    compute = next((p.compute for p in platform.pools if p.kind == "gpu"), None)
    most = None if compute is None else _SHARED_KIB.get(compute)
    for launch in (x for i in task.implementations for x in i.launches):
        if most is not None and compute is not None and launch.shared > most << 10:
            name = ".".join(map(str, compute))
            message = f"kernel `{launch.kernel}` asks for {launch.shared} bytes of shared memory"
            return "F309", message, f"a block has {most} KiB on a GPU of compute capability {name}"
    return None


def _has_code(task: Task) -> bool:
    """Is it more than a box in an analysis?"""
    return task.network is not None or bool(task.implementations)


def _unfit_for_dla(task: Task, network: Network, platform: Platform, fallback: bool) -> Reason | None:
    reason = _unfit_as_a_whole(task, network, platform)
    if reason is not None:
        return reason
    own = None if not network.model else _layers_of(network.content_hash, network.model)
    broken = [b for b in broken_rules(network, platform) if own is None or b.layer in own]
    if not broken or fallback:
        return None
    first = broken[0]
    more = len({b.layer for b in broken}) - 1
    message = f"`{task.name}` cannot run on a DLA: {first.op} `{first.layer}`: {first.rule} ({first.detail})"
    message += f", and {more} more layer{'' if more == 1 else 's'}" if more else ""
    return "F510", message, "cut it elsewhere, or add `fallback gpu` behind the processor"


def _unfit_as_a_whole(task: Task, network: Network, platform: Platform) -> Reason | None:
    """Why no layer of a network can run on a DLA."""
    if not platform.tensorrt:
        message = f"platform `{platform.name}` does not say which TensorRT it has: nothing else knows its DLA"
        return "F603", message, 'add for example `tensorrt "10.3"` to the platform'
    dla, version = generation(platform), ".".join(map(str, platform.tensorrt))
    if not dla.works_with(platform.tensorrt):
        return "F510", f"TensorRT {version} cannot use the DLA of `{platform.name}`", "pin it to the GPU"
    if network.precision not in ("fp16", "int8"):
        message = f"`{task.name}` computes in {network.precision}, and a DLA in fp16 or int8 only"
        return "F510", message, "write `precision fp16` in the network"
    return None


def barred_from_dla(task: Task, platform: Platform) -> Callable[[str], bool]:
    """Tells of a layer whether searches have to keep it off the DLA.

    A platform that does not say which TensorRT it has is for analyses only: there everything is allowed.
    """
    if task.network is None or not platform.tensorrt or all(p.kind != "dla" for p in platform.pools):
        return lambda layer: False
    if _unfit_as_a_whole(task, task.network, platform) is not None:
        return lambda layer: True
    illegal = {b.layer for b in broken_rules(task.network, platform)}
    return lambda layer: layer in illegal


def broken_rules(network: Network, platform: Platform) -> tuple[Breach, ...]:
    """What of a network breaks rules of the platform's DLA; of a stage, everything that the whole network breaks.

    Raises NetworkFault for a network that cannot be read.
    """
    whole = network.cut_from or network
    path, shapes = Path(whole.path), tuple((t.name, t.type.shape) for t in whole.inputs)
    precision = network.precision if network.precision in ("fp16", "int8") else "fp16"
    return _broken(str(path), path.stat().st_mtime_ns, shapes, generation(platform).name, platform.tensorrt, precision)


@lru_cache(maxsize=16)
def _broken(
    path: str,
    modified: int,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dla: str,
    tensorrt: tuple[int, ...],
    precision: str,
) -> tuple[Breach, ...]:
    def found(model: Path) -> tuple[Breach, ...]:
        return breaches(model, dict(shapes), generation=GENERATIONS[dla], tensorrt=tensorrt, precision=precision)

    if precision != "int8" or tensorrt >= STRONGLY_TYPED or not has_pairs(Path(path)):
        return found(Path(path))
    import onnx

    with tempfile.TemporaryDirectory(prefix="flowc.") as folder:  # as the DLA gets it
        plain = Path(folder) / Path(path).name
        plain.write_bytes(without_pairs(onnx.load(path).SerializeToString())[0])
        return found(plain)


@lru_cache(maxsize=64)
def _layers_of(content_hash: str, model: bytes) -> frozenset[str]:
    """The layers of a stage, called after their first outputs."""
    import onnx

    return frozenset(node.output[0] for node in onnx.load_model_from_string(model).graph.node if node.output)


def too_many_engines(platform: Platform, places: dict[str, tuple[str, ...]]) -> Reason | None:
    """More engines than DLAs hold? `places` has the processors of each network or stage."""
    for pool in platform.pools:
        if pool.engines is None:
            continue
        held = {p: [t for t, where in places.items() if p in where] for p in pool.processors}
        most = sum(map(len, held.values())) if pool.engines_total else max(map(len, held.values()))
        if most > pool.engines:
            where = f"`{pool.name}`" if pool.engines_total else f"one `{pool.name}`"
            message = f"{most} engines on {where}, which can hold {pool.engines}"
            return "F510", message, "make fewer stages, or run some of them on the GPU"
    return None
