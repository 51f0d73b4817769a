"""The networks of an application as a C library, for programs that are generated elsewhere.

In: a text as its author wrote it, the same with its networks cut as they were mapped, and the
places of their stages; all of that with each variant of its networks. Out: a plan {path: content}
with a header, a shim that a script compiles on the target, the networks, and the runtime; for a
`Caller`, code that calls each network as well. The rest of the application, including `pre` and
`post` of networks, is left to the caller.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.application import Network, Port, Task, Tensor
from ..model.diagnostic import Diagnostic
from ..model.external import External, ExternalNetwork, ExternalPort, ExternalStage, ExternalTensor
from ..model.mapping import Placement
from ..model.supports import Use
from ..model.system import System
from ..model.types import DTYPES, TensorType
from ..templates import environment
from .carried import carried
from .features import of_code, of_port, refused
from .kinds.bands import written
from .names import identifiers, literal, one_line
from .sources import Plan, Sources

if TYPE_CHECKING:
    from jinja2 import Environment

#: Words that C and C++ do not accept as an argument, in lower case, as `identifiers` makes them.
_WORDS = """
    alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char class
    co_await co_return co_yield compl complex concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum errno explicit export extern
    false float for friend goto i386 if inline int linux long major minor mutable namespace new
    noexcept not not_eq null nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
    stderr stdin stdout struct switch template this thread_local throw true try typedef typeid
    typename typeof typeof_unqual union unix unsigned using virtual void volatile wchar_t while xor
    xor_eq int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
"""
RESERVED = frozenset(_WORDS.split())


@dataclass(frozen=True, slots=True)
class Caller:
    """A tool that makes the program around the library, and gets `folder`/FUNCTION`suffix` for each
    network.

    `template` of the package `room` makes this code, and `about` describes it in a sentence.
    """

    room: str
    template: str
    folder: str
    suffix: str
    about: str


@dataclass(frozen=True, slots=True)
class ExportedNetworks:
    """The exported networks, and the library's files except compiled objects."""

    external: External
    files: Plan


def refusals(systems: Sequence[System]) -> tuple[Diagnostic, ...]:
    """Why there is no library of a text, given with each variant of its networks."""
    uses: dict[tuple[str, str], Use] = {}
    for task in _networks(systems):
        for use in _of_network(task):
            uses.setdefault((task.definition, use.feature), use)
    whole = systems[0]
    if not any(_networks([whole])):
        span = whole.apps[0].span if whole.apps else None
        uses["", ""] = Use("no network", span, {"file": Path(whole.path).name})
    return refused(uses.values(), "networks in C")


def _of_network(task: Task) -> Iterator[Use]:
    """The features of a network, each at its port."""
    for port in (*task.inputs, *task.outputs):
        yield from (replace(use, span=port.span) for use in of_port(task, port))
    yield from of_code(task)


def _networks(systems: Iterable[System]) -> Iterator[Task]:
    for system in systems:
        for app in system.apps:
            yield from (t for t in app.tasks if t.network is not None)


@dataclass(frozen=True, slots=True)
class Version:
    """A text without faults, with one variant of each network.

    `whole` is the text before anything was cut: it determines the C functions, so that callers need
    not change when the mapping does. `cut` has the stages, `placements` their known places.
    """

    whole: System
    cut: System
    placements: MappingABC[str, Placement]


def external(
    versions: Sequence[Version], platform: str, caller: Caller | None = None
) -> ExportedNetworks:
    """The library of a text that has a network: with a function for each variant in one of the
    versions."""
    whole = versions[0].whole
    sources = Sources(Path(whole.path).parent)
    exported: dict[str, tuple[Task, Network, tuple[ExternalStage, ...]]] = {}
    for version in versions:
        for app in version.whole.apps:
            for task in app.tasks:
                if task.network is not None and task.name not in exported:
                    stages = tuple(_stages(task, version, app.name, sources))
                    exported[task.name] = task, task.network, stages
    functions = identifiers(exported, RESERVED)
    networks = tuple(
        _network(task, network, functions[task.name], stages)
        for task, network, stages in exported.values()
    )
    # With a suffix: a text may be called `m`, and -lm is taken; another `complex`, like a header of
    # C.
    library = f"{identifiers([whole.stem], ())[whole.stem].rstrip('_')}_external"
    described = External(whole.stem, Path(whole.path).name, platform, library, networks)
    return ExportedNetworks(described, _files(described, sources.plan, caller))


def _network(
    task: Task, network: Network, function: str, stages: tuple[ExternalStage, ...]
) -> ExternalNetwork:
    inputs = _ports(task.inputs, network.inputs)
    outputs = _ports(task.outputs, network.outputs)
    return ExternalNetwork(task.name, function, task.doc, inputs, outputs, stages)


def _ports(ports: Sequence[Port], tensors: Sequence[Tensor]) -> tuple[ExternalPort, ...]:
    """Ports of a task with the tensors of its network."""
    result = []
    for port, tensor in zip(ports, tensors, strict=True):
        external_tensor = ExternalTensor(tensor.name, tensor.type.dtype, tensor.type.shape)
        result.append(ExternalPort(port.name, external_tensor))
    return tuple(result)


def _stages(whole: Task, version: Version, app: str, sources: Sources) -> Iterator[ExternalStage]:
    """The tasks of a network, from front to back: itself, or its stages."""
    prefix = f"{whole.name}.stage"
    tasks = next(a.tasks for a in version.cut.apps if a.name == app)
    for task in tasks:
        part = task.name == whole.name or task.name.removeprefix(prefix).isdecimal()
        if part and task.network is not None:
            place = version.placements.get(task.name)
            yield _stage(task.name, task.network, place, sources)


def _stage(task: str, network: Network, place: Placement | None, sources: Sources) -> ExternalStage:
    threads = place.threads if place is not None else 1
    path = Path(network.path)
    if network.moving is not None:
        # Other cuts gain nothing if one stage waits for the other: the pinned ones stay.
        variant = network.moving.variants[network.moving.start]
        part = variant.parts[network.moving.stage]
        own = path.with_name(re.sub(r"\[(\d+)\]", r"-\1", f"{path.stem}={task}{path.suffix}"))
        return ExternalStage(
            task,
            sources.place("networks", own, part.model),
            tuple(t.name for t in part.inputs),
            tuple(t.name for t in part.outputs),
            threads,
        )
    tensors = tuple(t.name for t in network.inputs), tuple(t.name for t in network.outputs)
    if place is not None and place.bands:
        plan, _ = written(task, network, place.bands, sources)
        return ExternalStage(task, plan, *tensors, threads, bands=True)
    file = sources.place("networks", path, network.model or None)
    for name in network.external:
        sources.place("networks", path.parent / name)
    return ExternalStage(task, file, *tensors, threads)


# -- files -----------------------------------------------------------------------------------------
def _files(described: External, networks: Plan, caller: Caller | None) -> Plan:
    jinja = _jinja("" if caller is None else caller.room)
    shown = _in_c(described)
    values = {
        "external": described,
        "module": f"_{described.library}",
        "library": f"lib{described.library}.so",
        "script": "build_shim.py",
        "called": "external",
        "holds": "The networks of the folder that holds this library.",
        "guard": f"FLOWC_{described.library.upper()}_H",
        "what": "Network",
        "needed": ("cffi", "numpy", "onnxruntime"),
        "room": "",
        "speaks": True,
        "caller": caller,
        "networks": shown,
    }
    plan: Plan = dict(networks)
    plan["external.json"] = described.to_json().encode()
    for path, template in (
        (f"{described.library}.h", "header.h.j2"),
        ("build_shim.py", "build_shim.py.j2"),
        ("shim.c", "shim.c.j2"),
        ("shim.py", "shim.py.j2"),
        ("example.c", "example.c.j2"),
        ("README.md", "README.md.j2"),
    ):
        plan[path] = jinja.get_template(f"library/{template}").render(values).encode()
    if caller is not None:
        code = jinja.get_template(caller.template)
        for network in shown:
            file = f"{caller.folder}/{network['function']}{caller.suffix}"
            plan[file] = code.render(values, network=network).encode()
    plan |= carried((), ("external",))
    return dict(sorted(plan.items()))


def _in_c(described: External) -> list[dict[str, Any]]:
    """Networks as the templates print them; all names are identifiers of C, except those in
    comments."""
    # Two networks and ports may give one name: `a` with a port `b_c`, and `a_b` with a port `c`.
    wanted = []
    for network in described.networks:
        wanted += [f"{network.function} {key} count" for key in _keys(network)]
    counts = identifiers(wanted, ())
    shown = []
    for network in described.networks:
        arguments = identifiers(_keys(network), RESERVED)
        inputs = len(network.inputs)
        ports = (*network.inputs, *network.outputs)
        in_c = []
        for number, (key, port) in enumerate(zip(_keys(network), ports, strict=True)):
            in_c.append(
                {
                    "argument": arguments[key],
                    "count": counts[f"{network.function} {key} count"].upper(),
                    **_port_in_c(port, number < inputs),
                }
            )
        shown.append(
            {
                "name": network.name,
                "function": network.function,
                "doc": network.doc,
                "stages": network.stages,
                "inputs": in_c[:inputs],
                "outputs": in_c[inputs:],
                "ports": in_c,
                "signature": ", ".join(f"{p['const']}{p['ctype']} *{p['argument']}" for p in in_c),
                "arguments": ", ".join(str(p["argument"]) for p in in_c),
            }
        )
    return shown


def _port_in_c(port: ExternalPort, incoming: bool) -> dict[str, Any]:
    """A port as the templates print it."""
    dtype, shape = port.tensor.dtype, port.tensor.shape
    return {
        "name": port.name,
        "ctype": "bool" if dtype == "bool" else DTYPES[dtype][0],
        "const": "const " if incoming else "",
        "elements": prod(shape),
        "type": str(TensorType(dtype, shape)),
        "bits": ", as its bits" if dtype == "float16" else "",
        "direction": "in" if incoming else "out",
    }


def _keys(network: ExternalNetwork) -> list[str]:
    """A name for each port, inputs first; a tensor that passes straight through is both."""
    names = [p.name for p in network.inputs]
    return names + [f"{p.name} out" if p.name in names else p.name for p in network.outputs]


@functools.cache
def _jinja(room: str) -> Environment:
    jinja = environment(room)
    jinja.filters["py"] = literal
    jinja.filters["line"] = one_line
    jinja.filters["cell"] = lambda text: one_line(str(text)).replace("|", "\\|")
    jinja.filters["comment"] = lambda text: (
        one_line(str(text)).replace("*/", "* /").replace("/*", "/ *")
    )
    return jinja
