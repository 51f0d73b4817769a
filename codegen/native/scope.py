"""What every part of main.cpp knows of a deployment: the names there, and which tasks need more
than others.

In: a deployment with its layout, symbols and marks. Out: a `Scope`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.deployment import DeployedApp, DeployedTask, Deployment
from ...model.types import DTYPES
from ..frames import gates
from ..kinds.c import CCode
from ..kinds.cuda import CudaCode
from ..kinds.link import LinkCode
from ..kinds.onnx import OnnxCode
from ..kinds.onnx_cuda import OnnxCudaCode
from ..kinds.openvino import OpenVinoCode
from ..marks import Marks
from ..names import identifiers
from .choice import ChoiceCode
from .layout import Array, Layout, Ring, Tokens, tokens_of
from .library import CPP_WORDS
from .symbols import Symbols

#: Names that mean something in main.cpp, which no app or task has there.
_OWN = frozenset(
    {"flow", "main", "about", "outputs", "round", "i", "j", "k", "w", "memset", "memcpy"}
)
#: Names in the namespace of a task, which none of its ports has there.
_OF_TASK = frozenset(
    {
        *("Given", "given", "inner", "code", "made", "token", "task", "fires", "firing", "there"),
        "gate",
        *_OWN,
    }
)
#: The same in a program with states, in the namespace of each.
OWN_OF_STATES = frozenset({"state", "channels", "scenario"})
#: Networks, on a CPU or a GPU.
NETWORKS = OnnxCode | OnnxCudaCode | OpenVinoCode | ChoiceCode


class Scope:
    """One deployment, or one state of a `whole`, in which names are unique.

    `apps`, `tasks`, `links` and `states` are names in main.cpp by those in the text; `members` are
    names of arrays and rings in the namespaces of their tasks, by identity. Tasks are `lossy` if
    their tokens may be missing, `timed` at the ends of what is measured, and `shares` are those of
    apps with a share.
    """

    def __init__(
        self,
        deployment: Deployment,
        places: Layout,
        symbols: Symbols,
        marks: Marks,
        whole: Deployment | None = None,
    ) -> None:
        self.in_states = whole is not None
        self.whole = whole or deployment
        self.deployment, self.layout = deployment, places
        self.symbols, self.marks = symbols, marks
        names = _names_of(self.whole, symbols, self.in_states)
        self.states, self.links = names.states, names.links
        self.apps, self.tasks = names.apps, names.tasks
        self.app_of: dict[str, DeployedApp] = {
            t.name: app for app in deployment.apps for t in app.tasks
        }
        self.ports = {t.name: _port_names(t) for t in deployment.tasks}
        self.members = self._member_names()
        self.timed = _timed(deployment, marks)
        self.lossy = lossy(deployment)
        self.on_gpu = on_gpu(deployment, places)
        self.shares = _with_shares(deployment)
        self.gates = {
            gate.task.name: gate
            for app in deployment.apps
            for gate in gates(app, deployment.processors)
        }

    def _member_names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for task in self.deployment.tasks:
            taken = {*_OF_TASK, *self.ports[task.name].values()}
            for written in self.layout.writes[task.name]:
                port = written.tokens.port.name
                for number, place in enumerate(written.places):
                    wanted = f"{port} tokens"
                    if isinstance(place, Ring):
                        wanted = f"{port} to {self.tasks.get(place.channel.destination, 'round')}"
                    if number:
                        wanted += f" {number}"
                    (name,) = identifiers([wanted], taken).values()
                    taken.add(name)
                    names[id(place)] = name
        return names

    def app(self, task: DeployedTask) -> str:
        """The name of the app of a task."""
        return self.apps[self.app_of[task.name].name]

    def name(self, task: str, place: Array | Ring) -> str:
        """The name of an array or a ring that a task writes."""
        return f"{self.tasks[task]}::{self.members[id(place)]}"

    def names(self, task: DeployedTask) -> list[str]:
        """The names of its ports in its namespace, inputs first."""
        ids = self.ports[task.name]
        return [
            *(ids["in " + p.name] for p in task.inputs),
            *(ids["out " + p.name] for p in task.outputs),
        ]

    def offsets(self, task: DeployedTask) -> list[int]:
        """Where each output begins in a token of a source that drops some, in bytes; last, the
        bytes of the token."""
        offsets = [0]
        for port in task.outputs:
            size = bytes_of(tokens_of(task, port)) * port.rates[0]
            offsets.append(offsets[-1] + -(-size // 64) * 64)
        return offsets

    def call_in_c(self, code: CCode, names: list[str], own: str) -> str:
        """The call of a function; `own` has its state."""
        given = "&given" if code.parameters else "nullptr"
        return f"{self.symbols.of(code)}({', '.join([f'{own}.state', *names, given])})"


@dataclass(frozen=True, slots=True)
class _Names:
    """What apps, tasks, links and states are called in main.cpp, by their names in the text."""

    apps: dict[str, str]
    tasks: dict[str, str]
    links: dict[str, str]
    states: dict[str, str]


def _names_of(whole: Deployment, symbols: Symbols, in_states: bool) -> _Names:
    """Names that are unique in a program; tasks bear that of their app where there are several."""
    apps = list(dict.fromkeys(f"app {app.name}" for app in whole.every_app))
    several = len(apps) > 1
    tasks = {t.name: t.name if several else t.name.partition(".")[2] for t in whole.tasks}
    linked = [t.code.link for t in whole.tasks if isinstance(t.code, LinkCode)]
    links = [f"link {name}" for name in dict.fromkeys(linked)]
    states = [] if whole.scenario is None else whole.scenario.states
    named = list(dict.fromkeys(f"state {state.name}" for state in states))
    own = {*_OWN, *CPP_WORDS, *symbols.taken}
    own |= OWN_OF_STATES if in_states else set()
    ids = identifiers([*apps, *tasks.values(), *links, *named], own)
    return _Names(
        {app.removeprefix("app "): ids[app] for app in apps},
        {name: ids[short] for name, short in tasks.items()},
        {link.removeprefix("link "): ids[link] for link in links},
        {state.removeprefix("state "): ids[state] for state in named},
    )


def _with_shares(deployment: Deployment) -> set[str]:
    """The tasks of workers with a share."""
    served = (w for w in deployment.processors if w.server is not None and not w.background)
    return {entry.task for worker in served for entry in worker.order}


def _port_names(task: DeployedTask) -> dict[str, str]:
    """The names of ports in the namespace of their task, by direction and name."""
    ports = [*(f"in {p.name}" for p in task.inputs), *(f"out {p.name}" for p in task.outputs)]
    taken = {*_OF_TASK, *CPP_WORDS}
    names = {}
    for port in ports:
        short = port.partition(" ")[2]
        made = identifiers([short], taken)[short]
        taken.add(made)
        names[port] = made
    return names


def on_gpu(deployment: Deployment, places: Layout) -> frozenset[int]:
    """The arrays, by identity, in the memory of a GPU: kernels write them, nothing but kernels
    reads them, and no tokens in them go on to other states."""
    found, read_here = set(), set()
    for task in deployment.tasks:
        if isinstance(task.code, CudaCode):
            outputs = places.writes[task.name]
            arrays = (p for w in outputs for p in w.places if isinstance(p, Array))
            found |= {id(array) for array in arrays if not array.held}
        else:
            read_here |= {id(read.of) for read in places.reads[task.name]}
    return frozenset(found - read_here)


def lossy(deployment: Deployment) -> frozenset[str]:
    """The tasks whose tokens may be missing: those that go on after errors, and all behind them."""
    found = {task.name for task in deployment.tasks if task.on_error != "stop"}
    channels = [channel for app in deployment.apps for channel in app.channels]
    before = -1
    while len(found) > before:
        before = len(found)
        found |= {channel.destination for channel in channels if channel.source in found}
    return frozenset(found)


def _timed(deployment: Deployment, marks: Marks) -> frozenset[str]:
    """The tasks at the ends of what is measured."""
    paths = [path for app in deployment.apps for path in app.paths]
    sources = {path.source for path in paths if path.kind == "path"}
    sinks = {path.sink for path in paths if path.kind != "part"}
    return frozenset(sources | sinks | marks.released_by)


def c_type(dtype: str) -> str:
    """An element of a token in C++."""
    return DTYPES[dtype][0].replace("_Bool", "bool")


def bytes_of(tokens: Tokens) -> int:
    """The bytes of one token."""
    return DTYPES[tokens.port.dtype][1] * tokens.size
