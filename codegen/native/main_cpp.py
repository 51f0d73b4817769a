"""The text of main.cpp: parameters, tasks, channels, firings and orders as C++.

In: a deployment that a native program can carry out (`limits.py`). Out: the text of main.cpp. The
template gets strings that are ready to print; all decisions are made here and in `layout.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...model.deployment import (
    Code,
    DataFile,
    DeployedApp,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Deployment,
    Plain,
)
from ...model.types import DTYPES
from .. import c_text
from ..frames import enders, opens, starts_frame
from ..in_c import C_PARAMETERS
from ..kinds.border import BorderCode
from ..kinds.c import CCode
from ..kinds.cuda import CudaCode
from ..kinds.link import LinkCode
from ..kinds.onnx import OnnxCode
from ..kinds.onnx_cuda import OnnxCudaCode
from ..kinds.openvino import OpenVinoCode
from ..kinds.resample import ResampleCode
from ..marks import Marks, Way, marks_of
from ..names import identifiers
from ..statements import pace
from .choice import ChoiceCode, chooses
from .kernels import compiled_file, field_bytes, has_kernels, launches
from .layout import (
    Array,
    Layout,
    Read,
    Ring,
    Tokens,
    Values,
    Written,
    held_by,
    layout,
    tokens_of,
)
from .library import library_of
from .symbols import CPP_WORDS, Symbols, symbols_of

if TYPE_CHECKING:
    from jinja2 import Environment

#: The files of the runtime for inference engines, without their suffixes, by kinds of code.
_OF_KINDS: dict[type, str] = {
    OnnxCode: "network",
    OnnxCudaCode: "network",
    OpenVinoCode: "openvino",
}
ENGINES = tuple(dict.fromkeys(_OF_KINDS.values()))
#: Names that mean something in main.cpp, which no app or task has there.
_OWN = frozenset(
    {"flow", "main", "about", "outputs", "round", "i", "j", "k", "w", "memset", "memcpy"}
)
#: Names in the namespace of a task, which none of its ports has there.
_OF_TASK = frozenset(
    {
        *("Given", "given", "inner", "code", "made", "token", "task", "fires", "firing", "there"),
        *_OWN,
    }
)
#: The same in a program with states, in the namespace of each.
OWN_OF_STATES = frozenset({"state", "channels", "scenario"})
#: Networks, on a CPU or a GPU.
NETWORKS = OnnxCode | OnnxCudaCode | OpenVinoCode | ChoiceCode
#: Elements of tensors, by the numbers of ONNX.
_ELEMENTS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "complex64": 14,
    "complex128": 15,
}
_SETTING = {"int": "INT", "float": "FLOAT", "bool": "BOOL", "string": "STRING", "file": "FILE_"}


def main_cpp(jinja: Environment, deployment: Deployment, *, unit: bool = False) -> bytes:
    """The text."""
    text = MainText(deployment, layout(deployment), symbols_of(deployment), marks_of(deployment))
    words = {
        "prototypes": text.prototypes(),
        "links": list(text.links()),
        "parts": [text.part()],
        "about": text.about(),
        "scenario": None,
    }
    return rendered(jinja, deployment, words, unit=unit)


def rendered(
    jinja: Environment, deployment: Deployment, words: dict[str, Any], *, unit: bool = False
) -> bytes:
    """The template of main.cpp with these words, and those that every deployment has. A `unit` is
    stepped by a simulator."""
    words = words | {
        "deployment": deployment,
        "engines": engines_in(deployment),
        "chooses": chooses(deployment.scenario),
        "kernels": has_kernels(deployment),
        "library": None if unit else library_of(deployment),
        "unit": unit,
    }
    return jinja.get_template("native/main.cpp.j2").render(words).encode()


def engines_in(deployment: Deployment) -> list[str]:
    """What the runtime has for the inference engines that it needs."""
    kinds = {type(task.code) for task in deployment.tasks}
    return list(dict.fromkeys(stem for kind, stem in _OF_KINDS.items() if kind in kinds))


def networks_on_gpu(deployment: Deployment) -> bool:
    """Does it need ONNX Runtime with its CUDA provider?"""
    return any(isinstance(task.code, OnnxCudaCode) for task in deployment.tasks)


def c_type(dtype: str) -> str:
    """An element of a token in C++."""
    return DTYPES[dtype][0].replace("_Bool", "bool")


class MainText:
    """All that is said about one deployment, or about one state of a `whole`, in which names are
    unique."""

    def __init__(
        self,
        deployment: Deployment,
        places: Layout,
        symbols: Symbols,
        marks: Marks,
        whole: Deployment | None = None,
    ) -> None:
        self._in_states = whole is not None
        whole = whole or deployment
        self._deployment, self._layout, self._symbols = deployment, places, symbols
        self._marks, self._timed = marks, _timed(deployment, marks)
        self._lossy = lossy(deployment)
        names = _names_of(whole, symbols, self._in_states)
        self.states, self._links = names.states, names.links
        self._apps, self._tasks = names.apps, names.tasks
        self._on_gpu = on_gpu(deployment, places)
        self._app_of = {t.name: app for app in deployment.apps for t in app.tasks}
        self._ports = {t.name: _port_names(t) for t in deployment.tasks}
        self._members = self._place_names()
        processors = dict.fromkeys(w.processor for w in whole.every_worker)
        self._cores = {name: core for core, name in enumerate(processors)}
        self._processors = _processors_of(whole)
        #: Tasks of apps with a share.
        self._shares = _with_shares(deployment)
        #: The worker of each task, of several the first one: what a firing does is written there.
        self._first: dict[str, int] = {}
        for number, worker in enumerate(deployment.processors):
            for entry in worker.order:
                self._first.setdefault(entry.task, number)

    def _place_names(self) -> dict[int, str]:
        """The names of arrays and rings in the namespaces of their tasks, by their identity."""
        names: dict[int, str] = {}
        for task in self._deployment.tasks:
            taken = {*_OF_TASK, *self._ports[task.name].values()}
            for written in self._layout.writes[task.name]:
                port = written.tokens.port.name
                wanted = {}
                for place in written.places:
                    to = place.channel.destination if isinstance(place, Ring) else ""
                    to_id = self._tasks.get(to, "round")
                    wanted[id(place)] = f"{port} to {to_id}" if to else f"{port} tokens"
                for number, name in enumerate(wanted.values()):
                    made = identifiers([f"{name} {number}" if number else name], taken)
                    taken |= set(made.values())
                    names[list(wanted)[number]] = next(iter(made.values()))
        return names

    def _name(self, task: str, place: Array | Ring) -> str:
        return f"{self._tasks[task]}::{self._members[id(place)]}"

    def part(self) -> dict[str, Any]:
        """What runs: its apps and workers, and what is measured over several apps."""
        workers = enumerate(self._deployment.processors)
        return {
            "apps": [self.app(app) for app in self._deployment.apps],
            "workers": [self.worker(n, w) for n, w in workers if w.order],
            "measured": list(self.measured()),
            "outputs": list(self.outputs()),
        }

    # -- what stands above all -------------------------------------------------------------------
    def prototypes(self) -> list[dict[str, str]]:
        """The functions of tasks in C, each once."""
        found: dict[str, dict[str, str]] = {}
        for task in self._deployment.tasks:
            if isinstance(task.code, CCode):
                name = self._symbols.of(task.code)
                found.setdefault(name, {"name": name, "ports": _pointers(task)})
        return list(found.values())

    def about(self) -> dict[str, Any]:
        """What the report says of channels, and which parameters can be set."""
        planned = self._deployment.planned
        processors = [w.processor for w in self._deployment.processors if w.order]
        return {
            "fills": list(self.fills()),
            "lanes": [c_text.text(name) for name in dict.fromkeys(processors)],
            "planned": [] if planned is None else list(planned.figures.items()),
            "settings": list(self.settings()),
        }

    def fills(self) -> Iterator[str]:
        """The channels, and how full each was."""
        rings = {ring.channel.name: ring for ring in self._layout.rings}
        for app in self._deployment.apps:
            for channel in app.channels:
                ring = rings.get(channel.name)
                if ring is None:
                    most = f"INT64_C({self._layout.most[channel.name]})"
                else:
                    most = f"{self._name(channel.source, ring)}.most_full()"
                text = f"{c_text.text(channel.name)}, {channel.capacity}, [] {{ return {most}; }}"
                ends = f"{self._end(channel.source, channel.source_port)}, "
                ends += self._end(channel.destination, channel.destination_port)
                yield f"{{{text}, {ends}, {channel.delay}}}"

    def _end(self, task: str, name: str) -> str:
        """One end of a channel: its task, and the rates of the port there."""
        tasks = self._app_of[task].tasks
        ports = next((*t.inputs, *t.outputs) for t in tasks if t.name == task)
        rates = next(port.rates for port in ports if port.name == name)
        return f"{{{self._tasks[task]}::task, {{{', '.join(map(str, rates))}}}}}"

    def settings(self) -> Iterator[str]:
        """What can be set of tasks, and what not."""
        for task in self._deployment.tasks:
            name = c_text.text(task.name)
            for fixed in task.fixed:
                yield f'{{flow::Setting::FIXED, {name}, {c_text.text(fixed)}, nullptr, ""}}'
            if not isinstance(task.code, CCode):
                continue
            for (parameter, kind, value), member in zip(
                task.code.parameters, _members(task.code), strict=True
            ):
                if parameter in task.fixed:
                    continue
                kind = _SETTING["file" if isinstance(value, DataFile) else kind]
                place = f"&{self._tasks[task.name]}::given.{member}"
                shown = c_text.text(_shown(value))
                yield (
                    f"{{flow::Setting::{kind}, {name}, {c_text.text(parameter)}, {place}, {shown}}}"
                )

    # -- between apps ------------------------------------------------------------------------------
    def links(self) -> Iterator[str]:
        """What keeps the newest tokens, each once."""
        for task in self._deployment.tasks:
            code = task.code
            if not isinstance(code, LinkCode) or code.end == "put":
                continue
            (port,) = task.outputs
            size = _bytes(tokens_of(task, port))
            marks = len(self._marks.of_link.get(code.link, ()))
            kind, kept = ("Newest", "") if code.end == "latest" else ("Queue", f"{code.keep}, ")
            name = f"{self._links[code.link]}({c_text.text(code.link)}"
            yield f"{kind} {name}, {size}, {kept}{marks})"

    def measured(self) -> Iterator[str]:
        """Marks, then ages and reactions."""
        for link, marks in self._marks.of_link.items():
            for number, mark in enumerate(marks):
                which = "flow::OLDEST" if mark.oldest else "flow::NEWEST"
                name = f"{self._links[link]}_mark_{number + 1}"
                put = f"{self._tasks[mark.put]}::code"
                yield f"Mark {name}({put}, {number}, {which}, {self._ways(mark.ways)})"
        for number, each in enumerate(self._marks.measured):
            path = each.path
            name = f"{path.kind}_{number + 1}"
            ends = f"{self._tasks[path.source]}::task, {self._tasks[path.sink]}::task"
            deadline = _whole(path.deadline_ns)
            yield f"{path.kind.capitalize()} {name}({ends}, {self._ways(each.ways)}, {deadline})"

    def _ways(self, ways: tuple[Way, ...]) -> str:
        made = []
        for way in ways:
            source, sink = self._tasks[way.path.source], self._tasks[way.path.sink]
            text = f"{source}::task, {sink}::task, {{{', '.join(map(str, way.path.newest))}}}"
            made.append(text if way.mark is None else f"{text}, {source}::code, {way.mark}")
        return f"{{{', '.join(f'flow::Way({text})' for text in made)}}}"

    # -- apps and tasks ----------------------------------------------------------------------------
    def app(self, app: DeployedApp) -> dict[str, Any]:
        """An app with its tasks and paths."""
        period = Fraction(app.period_ns) if app.period_ns is not None else None
        paths = []
        measured = (path for path in app.paths if path.kind == "path")
        for number, path in enumerate(measured):
            ends = f"{self._tasks[path.source]}::task, {self._tasks[path.sink]}::task"
            newest = ", ".join(map(str, path.newest))
            name = f"{self._apps[app.name]}_path_{number + 1}"
            paths.append(f"{name}({ends}, {{{newest}}}, {_whole(path.deadline_ns)})")
        times = f"{{{_exact(period)}}}, {_whole(app.deadline_ns)}"
        return {
            "name": app.name,
            "doc": app.doc,
            "pace": pace(app),
            "id": self._apps[app.name],
            "arguments": f"{c_text.text(app.name)}, {times}",
            "tasks": [self._task(app, task) for task in app.tasks],
            "tensors": [line for task in app.tasks for line in self._tensors(task)],
            "pinned": list(self._pinned(app)),
            "paths": paths,
            "enders": len(enders(app)),
        }

    def _task(self, app: DeployedApp, task: DeployedTask) -> dict[str, Any]:
        processor = c_text.text(", ".join(self._processors[task.name]))
        source = "false" if task.inputs else "true"
        arguments = f"{self._apps[app.name]}, {c_text.text(task.name)}, {processor}, code"
        places = []
        for written in self._layout.writes[task.name]:
            places += [self._declared(task, place) for place in written.places] or [
                self._thrown_away(task, written)
            ]
        rates = []
        for port, name in zip((*task.inputs, *task.outputs), self._names(task), strict=True):
            if len(port.rates) > 1:
                rates.append(f"{name}_rate[] = {{{', '.join(map(str, port.rates))}}}")
                before = _tokens(self._layout, task, port).before
                rates.append(f"{name}_before[] = {{{', '.join(map(str, before))}}}")
        return {
            "name": task.name,
            "doc": task.doc,
            "id": self._tasks[task.name],
            "code": self._code_here(task),
            "task": f"{arguments}, {task.firings}, {source}{self._manner(task)}",
            "rates": rates,
            "places": places,
        }

    def outputs(self) -> Iterator[str]:
        """What can be recorded: no tokens that a task only passes on, or that may lie on a GPU."""
        for task in self._deployment.tasks:
            if isinstance(task.code, ResampleCode | LinkCode | CudaCode):
                continue
            for number, port in enumerate(task.outputs):
                shape, rates = (", ".join(map(str, sizes)) for sizes in (port.shape, port.rates))
                name = f"{self._tasks[task.name]}::task, {number}, {c_text.text(port.name)}"
                yield f'{{{name}, "{port.dtype}", {{{shape}}}, {{{rates}}}}}'

    def _manner(self, task: DeployedTask) -> str:
        """Whether it is live, what becomes of its errors, and its replicas, as far as this has to
        be said."""
        replicas = self._layout.places[task.name].replicas
        live = str(task.live).lower()
        words = [live, f"flow::OnError::{task.on_error.upper()}", str(replicas)]
        plain = ["false", "flow::OnError::STOP", "1"]
        while words and words[-1] == plain[len(words) - 1]:
            words.pop()
        return "".join(f", {word}" for word in words)

    def _thrown_away(self, task: DeployedTask, written: Written) -> list[str]:
        """What an output that no task reads is written into."""
        port = written.tokens.port
        size = max(1, max(port.rates) * written.tokens.size * task.code.batch)
        replicas = self._layout.places[task.name].replicas
        sizes = f"[{replicas}][{size}]" if replicas > 1 else f"[{size}]"
        name = self._ports[task.name]["out " + port.name]
        if isinstance(task.code, CudaCode):
            return [f"flow::GpuArray<{c_type(port.dtype)}> {name}_thrown_away({size * replicas});"]
        return [f"{c_type(port.dtype)} {name}_thrown_away{sizes};"]

    def _pinned(self, app: DeployedApp) -> Iterator[str]:
        """The memory of channels at an end of which is a GPU."""
        kernels = {t.name for t in app.tasks if isinstance(t.code, CudaCode)}
        for ring in self._layout.rings:
            source = ring.channel.source
            if not kernels & {source, ring.channel.destination}:
                continue
            name = self._name(source, ring)
            elements = ring.tokens * ring.writer.size
            yield f"{name.replace('::', '_')}_pinned({name}.begin(), {elements})"

    def _tensors(self, task: DeployedTask) -> Iterator[str]:
        """The tensors of a network, in the memory of the channels at its ports; of all variants
        that each frame chooses from."""
        code = task.code
        if isinstance(code, ChoiceCode):
            for variant in code.distinct:
                yield from self._tensors_of(task, variant.code, self._tasks[variant.name])
        elif isinstance(code, NETWORKS):
            yield from self._tensors_of(task, code, self._tasks[task.name])

    def _tensors_of(self, task: DeployedTask, code: Code, network: str) -> Iterator[str]:
        assert isinstance(code, OnnxCode | OnnxCudaCode | OpenVinoCode)
        here = self._tasks[task.name]
        names = iter(self._names(task))
        for tensor, read in zip(code.inputs, self._layout.reads[task.name], strict=True):
            writer = read.of.channel.source if isinstance(read.of, Ring) else read.of.task
            memory = self._memory(writer, read.of)
            which = next(names), "IN", tensor, code.batch
            yield self._tensor(network, which, read.tokens, memory)
        for tensor, written in zip(code.outputs, self._layout.writes[task.name], strict=True):
            name = next(names)
            replicas = self._layout.places[task.name].replicas
            memory = f"{here}::{name}_thrown_away, {code.batch * replicas}"
            if written.places:
                memory = self._memory(task.name, written.places[0])
            which = name, "OUT", tensor, code.batch
            yield self._tensor(network, which, written.tokens, memory)

    def _memory(self, task: str, place: Array | Ring) -> str:
        """Where the tokens of an array or a ring lie, and how many."""
        name = self._name(task, place)
        if isinstance(place, Ring):
            return f"{name}.begin(), {place.tokens}"
        return f"{name}, {place.kept + place.in_round}"

    def _tensor(
        self, task: str, which: tuple[str, str, str, int], tokens: Tokens, memory: str
    ) -> str:
        port, (name, side, tensor, batch) = tokens.port, which
        dimensions = ", ".join(str(n * batch if not i else n) for i, n in enumerate(port.shape))
        kind = f"{c_text.text(tensor)}, {_ELEMENTS[port.dtype]}, {{{dimensions}}}"
        size = DTYPES[port.dtype][1] * tokens.size
        of = f"{task}::code, flow::Tensor::{side}"
        return f"{task}_{name}({of}, {kind}, {memory}, {size}, {batch})"

    def _names(self, task: DeployedTask) -> list[str]:
        """The names of its ports in its namespace, inputs first."""
        ids = self._ports[task.name]
        return [
            *(ids["in " + p.name] for p in task.inputs),
            *(ids["out " + p.name] for p in task.outputs),
        ]

    def _code_here(self, task: DeployedTask) -> list[str]:
        """The code of a task among its ports."""
        if isinstance(task.code, ChoiceCode):
            return list(self._choice(task, task.code))
        return list(self.used(task)) if self._in_states else self.code(task)

    def _choice(self, task: DeployedTask, code: ChoiceCode) -> Iterator[str]:
        """Of each state the name and the code that a network has there."""
        app = self._apps[self._app_of[task.name].name]
        replicas = self._layout.places[task.name].replicas
        yield f"flow::Choice code({app}, {replicas}, {str(code.breaks).lower()}, {{"
        for variant in code.of_states:
            processors = c_text.text(", ".join(self._processors[variant.name]))
            named = f"{c_text.text(variant.name)}, {processors}"
            yield f"    {{{named}, ::{self._tasks[variant.name]}::code}},"
        yield "});"

    def used(self, task: DeployedTask) -> Iterator[str]:
        """In a state: what all states have of the code of a task."""
        names = ["code"]
        if isinstance(task.code, CCode) and task.code.parameters:
            names.append("given")
        yield from (f"using ::{self._tasks[task.name]}::{name};" for name in names)

    def code(self, task: DeployedTask) -> list[str]:
        """The code of a task, with its parameters."""
        code = task.code
        if isinstance(code, ResampleCode):
            return ["flow::Code code;"]
        if isinstance(code, BorderCode):
            (port,) = (*task.inputs, *task.outputs)
            incoming, size = str(not task.inputs).lower(), _bytes(tokens_of(task, port))
            return [f"flow::OpenEnd code({c_text.text(task.name)}, {incoming}, {size});"]
        if isinstance(code, OnnxCudaCode):
            return [f"flow::Network code({c_text.text(code.file)}, 1, false, true);"]
        if isinstance(code, OnnxCode):
            spin = "true" if code.spin else "false"
            return [f"flow::Network code({c_text.text(code.file)}, {code.threads}, {spin});"]
        if isinstance(code, OpenVinoCode):
            precision = "bf16" if code.precision == "bf16" else "f32"
            how = f'{code.threads}, "{precision}", {self._layout.places[task.name].replicas}'
            return [f"flow::OpenVino code({c_text.text(code.file)}, {how});"]
        if isinstance(code, LinkCode):
            ends = [self._links[code.link]]
            if not self._in_states:
                ends.append(self._apps[self._app_of[task.name].name])
            return [f"flow::{code.end.capitalize()} code({', '.join(ends)});"]
        if isinstance(code, CudaCode):
            return self._kernels(task, code)
        assert isinstance(code, CCode)
        lines, given = [], "nullptr"
        if code.parameters:
            fields = []
            values = []
            for (_, kind, value), member in zip(code.parameters, _members(code), strict=True):
                kind = C_PARAMETERS[kind]
                fields.append(f"{kind}{'' if kind.endswith('*') else ' '}{member};")
                values.append(_value(value))
            lines = [f"struct Given {{ {' '.join(fields)} }} given = {{{', '.join(values)}}};"]
            given = "&given"
        name = self._symbols.of(code)
        functions = f"{name}_init, {name}_exit, {name}_error"
        state = _state_bytes(code)
        own = "code" if task.keep is None else "inner"
        lines.append(f"flow::InC {own}({c_text.text(code.name)}, {functions}, {given}, {state});")
        if task.keep is not None:
            lines += self._dropping(task, code, task.keep)
        return lines

    def _kernels(self, task: DeployedTask, code: CudaCode) -> list[str]:
        """The kernels of a task, one to a line."""
        ports = ", ".join(
            str(_bytes(tokens) * tokens.most)
            for tokens in (
                *(read.tokens for read in self._layout.reads[task.name]),
                *(written.tokens for written in self._layout.writes[task.name]),
            )
        )
        scratch, state = (", ".join(map(str, field_bytes(f))) for f in (code.scratch, code.state))
        waits = str(self._waits(task)).lower()
        return [
            f"flow::Kernels code({c_text.text(compiled_file(code))}, {{",
            *(f"    {launch}," for launch in launches(task, code)),
            f"}}, {{{ports}}}, {{{scratch}}}, {{{state}}}, {waits});",
        ]

    def _waits(self, task: DeployedTask) -> bool:
        """Is the end of its firings the end of a frame, or of a path?"""
        return task.name in self._timed or task.name in enders(self._app_of[task.name])

    def _dropping(self, task: DeployedTask, code: CCode, keep: int) -> Iterator[str]:
        """A source that goes on by itself: what it makes lies in one piece of memory."""
        yield "int made(char *const token)"
        yield "{"
        names = self._names(task)
        offsets = self._offsets(task)
        for port, name, offset in zip(task.outputs, names, offsets, strict=False):
            kind = c_type(port.dtype)
            yield f"    {kind} *const {name} = reinterpret_cast<{kind} *>(token + {offset});"
        yield f"    return {self._in_c(code, names, 'inner')};"
        yield "}"
        yield f"flow::Dropping code(inner, made, {offsets[-1]}, {keep});"

    def _offsets(self, task: DeployedTask) -> list[int]:
        """Where each output begins in a token of a source that drops some; last, its bytes."""
        offsets = [0]
        for port in task.outputs:
            size = _bytes(tokens_of(task, port)) * port.rates[0]
            offsets.append(offsets[-1] + -(-size // 64) * 64)
        return offsets

    def _declared(self, task: DeployedTask, place: Array | Ring) -> list[str]:
        """An array or a ring, in the namespace of the task that writes it."""
        if isinstance(place, Ring):
            return self._ring(task, place)
        return self._held(task, place) if place.held else self._array(task, place)

    def _initial(self, place: Array | Ring, delay: int, values: Values) -> list[str]:
        """The tokens before the first one that is written, where some of them are not zero."""
        tokens, name = place.writer, self._members[id(place)]
        elements = _values(delay, values, tokens.port.dtype)
        kind = c_type(tokens.port.dtype)
        return [f"const {kind} {name}_initial[] = {{{elements}}};"] if elements else []

    def _ring(self, task: DeployedTask, ring: Ring) -> list[str]:
        tokens, name, channel = ring.writer, self._members[id(ring)], ring.channel
        ends = f"{{{c_text.text(task.name)}, {c_text.text(channel.destination)}}}"
        sizes = f"{tokens.size}, {ring.slots}, {channel.capacity}, {ring.seen}"
        if ring.shared:
            ends += f", {sizes}, {ring.kept}"
            sizes = f"{tokens.in_iteration}, {ring.writers}, {ring.readers}"
        lines = self._initial(ring, channel.delay, channel.values) if channel.delay else []
        delay = f", {channel.delay}" if channel.delay else ""
        delay += f", {name}_initial" if lines else ""
        holes = ", true" if task.name in self._lossy else ""
        type_ = f"{'Shared' if ring.shared else 'Ring'}<{c_type(tokens.port.dtype)}{holes}>"
        return [*lines, f"flow::{type_} {name}({ends}, {sizes}{delay});"]

    def _memory_of(self, array: Array) -> str:
        """The elements of an array."""
        tokens, name = array.writer, self._members[id(array)]
        whole = (array.kept + array.in_round) * tokens.size
        kept = f"  // {array.kept} tokens stay, {array.in_round} in a round" if array.kept else ""
        return f"alignas(64) {c_type(tokens.port.dtype)} {name}[{whole}];{kept}"

    def _fields(self, array: Array) -> str:
        """Of each token its elements; tokens that stay, and those of a round."""
        return f"{array.writer.size}, {array.kept}, {array.in_round}"

    def _held(self, task: DeployedTask, array: Array) -> list[str]:
        """An array whose last tokens go on to other states."""
        tokens, name = array.writer, self._members[id(array)]
        lines, holes = [self._memory_of(array)], "nullptr"
        if task.name in self._lossy:
            holes = f"{name}_missing"
            lines.append(f"uint8_t {holes}[{array.kept + array.in_round}];")
        initial = self._initial(array, array.delay, array.values)
        delay = f", {array.delay}, {name}_initial" if initial else ""
        app = self._apps[self._app_of[task.name].name]
        rounds = array.rounds_with_initial_tokens
        held = f"{array.zeroth}, {rounds}, {array.held}, {tokens.in_iteration}{delay}"
        given = f"{app}, {{{name}, {self._fields(array)}}}, {holes}, {held}"
        held_of = f"flow::Held<{c_type(tokens.port.dtype)}>"
        return [*lines, *initial, f"{held_of} {name}_round({given});"]

    def _array(self, task: DeployedTask, array: Array) -> list[str]:
        tokens, name = array.writer, self._members[id(array)]
        kind, fields = c_type(tokens.port.dtype), self._fields(array)
        if id(array) in self._on_gpu:
            whole = (array.kept + array.in_round) * tokens.size
            lines = [f"flow::GpuArray<{kind}> {name}({whole}, {fields});"]
        else:
            lines = [self._memory_of(array)]
            if array.kept or array.rounds_with_initial_tokens:
                lines.append(f"const flow::Array<{kind}> {name}_round{{{name}, {fields}}};")
        if array.rounds_with_initial_tokens:
            lines += self._initial(array, array.delay, array.values)
        if task.name in self._lossy:
            holes = f"{name}_missing"
            lines.append(f"uint8_t {holes}[{array.kept + array.in_round}];")
            if array.kept:
                fields = f"{holes}, 1, {array.kept}, {array.in_round}"
                lines.append(f"const flow::Array<uint8_t> {holes}_round{{{fields}}};")
        return lines

    def id_of(self, task: str) -> str:
        """The namespace of a task."""
        return self._tasks[task]

    def replicas_of(self, task: str) -> int:
        """On how many processors a task is in turn."""
        return self._layout.places[task].replicas

    # -- in a state ------------------------------------------------------------------------------
    def channels(self, app: DeployedApp) -> str:
        """What lies on the channels of an app between two frames, under names that are the same in
        all states."""
        readers = {task.name: task for task in app.tasks}
        places: dict[str, None] = {}
        kept = []
        number = 0
        for channel in app.channels:
            reader = readers[channel.destination]
            port = next(p for p in reader.inputs if p.name == channel.destination_port)
            found = next(r for r in self._layout.reads[reader.name] if r.tokens.port is port)
            name = self._name(channel.source, found.of)
            if isinstance(found.of, Array):
                name += "_round"
            if isinstance(found.of, Ring) or found.of.held:
                places[f"&{name}"] = None
            if channel.delay or port.window:
                held = held_by(channel, port)
                kept += [f'{{"{number}", {name}, {held}}}'] if held else []
                number += 1
        return f"{{{self._apps[app.name]}, {{{', '.join(places)}}}, {{{', '.join(kept)}}}}}"

    # -- what a firing does ------------------------------------------------------------------------
    def worker(self, number: int, worker: DeployedWorker) -> dict[str, Any]:
        """A worker: what its tasks do in a firing, and its order."""
        tasks = {t.name: t for t in self._deployment.tasks}
        fired = list(dict.fromkeys(e.task for e in worker.order))
        turns: dict[str, tuple[int, int]] = {}
        for entry in worker.order:
            app = self._app_of[entry.task].name
            behind = max(entry.stage - entry.round[0], turns.get(app, (0, -entry.round[0]))[1])
            turns[app] = entry.round[1], behind
        begins: list[str] = []
        ends: list[str] = []
        for name in fired:
            for written in self._layout.writes[name]:
                for place in written.places:
                    if isinstance(place, Array):
                        begins += self._begins(place)
                        ends += self._ends(place, *turns[self._app_of[name].name])
        return {
            "id": f"worker_{number + 1}",
            "processor": c_text.text(worker.processor),
            "name": worker.processor,
            "scheduling": _scheduling(worker, self._cores[worker.processor]),
            "turns": [f"{{&{self._apps[a]}, {m}, {behind}}}" for a, (m, behind) in turns.items()],
            "fires": [
                {"id": self._tasks[n], "name": n, "lines": list(self._fires(tasks[n]))}
                for n in fired
                if self._first[n] == number
            ],
            "begins": begins,
            "on_gpu": any(isinstance(tasks[name].code, CudaCode) for name in fired),
            "order": [self._entry(entry, tasks[entry.task]) for entry in worker.order],
            "ends": ends,
        }

    def _ends(self, array: Array, iterations: int, behind: int) -> Iterator[str]:
        """What is moved at the end of a round; tokens that are held stay once the app has
        stopped."""
        name = self._name(array.task, array)
        if array.held:
            app = self._apps[self._app_of[array.task].name]
            yield f"if ({app}.goes_on(round * {iterations} - {behind}))"
            yield f"    {name}_round.end();"
        elif array.kept:
            yield f"{name}.end(w);" if id(array) in self._on_gpu else f"{name}_round.end();"
            if array.task in self._lossy:
                yield f"{name}_missing_round.end();"

    def _begins(self, array: Array) -> Iterator[str]:
        rounds = array.rounds_with_initial_tokens
        if array.held:
            yield f"{self._name(array.task, array)}_round.begin(round);"
        elif rounds:
            name = self._name(array.task, array)
            zeroth = f"{array.zeroth} - round * {array.in_round}"
            here = f"{name}.begin(w, " if id(array) in self._on_gpu else f"{name}_round.begin("
            yield f"if (round < {rounds})"
            yield f"    {here}round, {zeroth}, {array.delay}, {name}_initial);"

    def _entry(self, entry: Any, task: DeployedTask) -> str:
        (slot, iterations), name = entry.round, self._tasks[task.name]
        k = "round" if iterations == 1 else f"round * {iterations}"
        shift = slot - entry.stage
        if shift:
            k += f" {'+' if shift > 0 else '-'} {abs(shift)}"
        ends = "true" if task.name in enders(self._app_of[task.name]) else "false"
        which = f"{k}, {slot}, {entry.first}, {entry.times}"
        if task.code.batch > 1:
            which += f", {task.code.batch}"
        replica, replicas = entry.replica
        turn = f"if (flow::in_turn({k}, {replica}, {replicas})) " if replicas > 1 else ""
        return f"{turn}w.entry({name}::fires, {name}::task, {ends}, {which});"

    def _fires(self, task: DeployedTask) -> Iterator[str]:
        """The body of the function of a firing: i of iteration k, which lies in slot j of the
        round."""
        here = self._apps[self._app_of[task.name].name]
        names = self._names(task)
        after: list[str] = []
        zeroed: list[str] = []
        yield from self._begins_firing(task, here)
        for read, name in zip(self._layout.reads[task.name], names, strict=False):
            yield from self._read(task, read, name, here, after)
        missing = list(self._missing(task, names))
        for written, name in zip(
            self._layout.writes[task.name], names[len(task.inputs) :], strict=True
        ):
            yield from self._write(task, written, name, here, after, zeroed)
        yield from self._begins_frame(task, here)
        yield from zeroed
        yield from self._fired(task, names, missing)
        yield from self._told(task)
        yield from self._recorded_if_there(task, names)
        yield from after
        yield "return true;"

    def _begins_firing(self, task: DeployedTask, app: str) -> Iterator[str]:
        """Its number; it waits for its release, and for its turn where it may be the first one of a
        frame."""
        firing = f"k * {task.firings} + i" if task.firings > 1 else "k"
        yield f"const int64_t firing = {firing};"
        if not task.inputs and not task.live:
            yield from _unless("w.wait_for_release(task, k, i)")
        # a live source has begun a frame that waits for its data when the state is left
        may_open = opens(self._app_of[task.name], task) or (task.live and self._in_states)
        if may_open:
            yield from _unless(f"{app}.begin(k)", _first(task))

    def _begins_frame(self, task: DeployedTask, app: str) -> Iterator[str]:
        """With all tokens and all room there, before it fires."""
        if task.name in self._shares:
            yield from _unless(f"w.admit({app}, k)")
        if task.live:
            yield from _unless(f"w.wait_for_frames({app}, k)", _first(task))
        elif starts_frame(self._app_of[task.name], task):
            yield from _unless("w.begin_frame(task, k)", _first(task))

    def _fired(self, task: DeployedTask, names: list[str], missing: list[str]) -> Iterator[str]:
        """The call, if nothing that it reads is `missing`."""
        if task.name in self._timed:
            yield "const flow::ns start = w.began;"
        if task.name in self._lossy:
            yield f"bool there = {' && '.join(missing) or 'true'};"
        if missing:
            yield "if (!there)"
            yield f"    w.leave_out(task, firing{_group(task)});"
        call = f"[&] {{ return {self._call(task, names)}; }}{_group(task)}"
        live = "_live" if task.live else "_there" if isinstance(task.code, CudaCode) else ""
        fire = f"fire{live}(task, firing, {call})"
        if task.on_error != "stop":
            fire = f"attempt{live}(task, firing, there, {call})"
        yield f"{'else ' if missing else ''}if (!w.{fire})"
        yield "    return false;"
        if task.keep is not None:
            for name, port, offset in zip(names, task.outputs, self._offsets(task), strict=False):
                size = _product(str(port.rates[0]), tokens_of(task, port).size)
                yield f"memcpy({name}, code.token() + {offset}, {size} * sizeof *{name});"

    def _told(self, task: DeployedTask) -> Iterator[str]:
        """What paths learn of it."""
        batch = task.code.batch
        if task.name in self._timed and batch == 1:
            yield "w.tell_paths(task, firing, start);"
        elif task.name in self._timed:
            yield f"for (int64_t n = 0; n < {batch}; n++)"
            yield "    w.tell_paths(task, firing + n, start);"

    def _recorded_if_there(self, task: DeployedTask, names: list[str]) -> Iterator[str]:
        """For the harness: what it has read and made, or that it was left out."""
        recorded = self._recorded(task, names)
        if task.name not in self._lossy:
            yield from recorded
            return
        yield "if (there) {"
        yield from (f"    {line}" for line in recorded)
        yield "} else {"
        yield f"    flow::record_left_out(task, firing{_group(task)});"
        yield "}"

    def _read(
        self, task: DeployedTask, read: Read, name: str, app: str, after: list[str]
    ) -> Iterator[str]:
        port = read.tokens.port
        kind, rate = c_type(port.dtype), _rate(task, port, name)
        see = str(port.window) if port.window else rate
        if isinstance(read.of, Ring):
            ring = self._name(read.of.channel.source, read.of)
            yield f"const {kind} *const {name} = {ring}.next(w, {app}, k, {rate}, {see});"
            yield f"if (!{name})"
            yield "    return false;"
            after.append(f"{ring}.took({'k, ' if read.of.shared else ''}{rate});")
            return
        size, array = read.tokens.size, self._name(read.of.task, read.of)
        place = self._index(task, read.tokens, name, read.offset - port.window, bool(port.window))
        yield f"const {kind} *const {name} = {array}{_plus(place, size)};"

    def _missing(self, task: DeployedTask, names: list[str]) -> Iterator[str]:
        """For each input whose tokens may be missing: that none is that a firing sees."""
        for read, name in zip(self._layout.reads[task.name], names, strict=False):
            port, of = read.tokens.port, read.of
            see = str(port.window) if port.window else _rate(task, port, name)
            writer = of.channel.source if isinstance(of, Ring) else of.task
            if writer not in self._lossy:
                continue
            at = self._name(writer, of)
            if isinstance(of, Ring):
                yield f"!{at}.any_missing({name}, {see})"
                continue
            offset = read.offset - port.window
            place = self._index(task, read.tokens, name, offset, bool(port.window))
            yield f"!flow::any_missing({at}_missing{_plus(place, 1)}, {see})"

    def _write(
        self,
        task: DeployedTask,
        written: Written,
        name: str,
        app: str,
        after: list[str],
        zeroed: list[str],
    ) -> Iterator[str]:
        port, size = written.tokens.port, written.tokens.size
        kind, rate = c_type(port.dtype), _rate(task, port, name)
        count = _product(rate, size)
        if not written.places:
            replicas = self._layout.places[task.name].replicas
            turn = f"[k % {replicas}]" if replicas > 1 else ""
            if isinstance(task.code, CudaCode) and replicas > 1:
                most = max(1, max(port.rates) * size)
                turn = f" + k % {replicas} * {most}"
            yield f"{kind} *const {name} = {name}_thrown_away{turn};"
        for number, place in enumerate(written.places):
            at = self._members[id(place)]
            own = name if number == 0 else f"{at}_copy"
            if isinstance(place, Ring):
                yield f"{kind} *const {own} = {at}.room(w, {app}, k, {rate});"
                yield f"if (!{own})"
                yield "    return false;"
            else:
                index = self._index(task, written.tokens, name, place.kept, False)
                yield f"{kind} *const {own} = {at}{_plus(index, size)};"
            if number and not isinstance(task.code, CudaCode):
                after.append(f"memcpy({own}, {name}, {count} * sizeof *{own});")
            if task.name in self._lossy and isinstance(place, Ring):
                after.append(f"{at}.mark({own}, {rate}, there);")
            elif task.name in self._lossy:
                after.append(f"memset({at}_missing{_plus(index, 1)}, !there, {rate});")
            if isinstance(place, Ring):
                after.append(f"{at}.wrote({'k, ' if place.shared else ''}{rate});")
        if _zeroed(task):
            zeroed.append(f"memset({name}, 0, {count} * sizeof *{name});")

    def _index(
        self, task: DeployedTask, tokens: Tokens, name: str, offset: int, rate: bool
    ) -> list[tuple[int, str]]:
        """The token at which a firing begins, as a sum: numbers of tokens, and what they are
        multiplied with. With `rate`, what it takes is counted as well."""
        port, terms = tokens.port, []
        if self._layout.places[task.name].iterations > 1:
            terms.append((tokens.in_iteration, "j"))
        if len(port.rates) == 1:
            offset += port.rates[0] if rate else 0
            if task.firings > 1:
                terms.append((port.rates[0], "i"))
        else:
            phases = len(port.rates)
            if task.firings > phases:
                terms.append((sum(port.rates), f"(i / {phases})"))
            terms.append((1, f"{name}_before[i % {phases}]"))
            if rate:
                terms.append((1, f"{name}_rate[i % {phases}]"))
        return [(offset, ""), *terms]

    def _call(self, task: DeployedTask, names: list[str]) -> str:
        code = task.code
        if isinstance(code, ResampleCode):
            size = _tokens(self._layout, task, task.inputs[0]).size * code.block
            return f"flow::{code.kind}({names[0]}, {names[1]}, {size}, {code.count})"
        if isinstance(code, OnnxCode | OnnxCudaCode):
            split = len(task.inputs)
            return f"code.run({{{', '.join(names[:split])}}}, {{{', '.join(names[split:])}}})"
        if isinstance(code, ChoiceCode):
            split = len(task.inputs)
            return f"code.run(k, {{{', '.join(names[:split])}}}, {{{', '.join(names[split:])}}})"
        if isinstance(code, OpenVinoCode):
            split, replicas = len(task.inputs), self._layout.places[task.name].replicas
            worker = f"k % {replicas}" if replicas > 1 else "0"
            sides = f"{{{', '.join(names[:split])}}}, {{{', '.join(names[split:])}}}"
            return f"code.run({worker}, {sides})"
        if isinstance(code, LinkCode):
            verb = {"put": "put", "latest": "look", "take": "take"}[code.end]
            return f"code.{verb}({names[0]}, firing)"
        if isinstance(code, BorderCode):
            return f"code.{'give' if task.inputs else 'take'}(w, {names[0]})"
        if isinstance(code, CudaCode):
            return self._on_kernels(task, names)
        assert isinstance(code, CCode)
        if task.keep is not None:
            return "code.take(task)"
        return self._in_c(code, names, "code")

    def _on_kernels(self, task: DeployedTask, names: list[str]) -> str:
        """The call that puts a firing into the stream."""
        inputs, outputs, copies = [], [], []
        for read, name in zip(self._layout.reads[task.name], names, strict=False):
            count = _product(_rate(task, read.tokens.port, name), read.tokens.size)
            inputs.append(self._at(read.of, name, count))
        for number, (written, name) in enumerate(
            zip(self._layout.writes[task.name], names[len(task.inputs) :], strict=True)
        ):
            port = written.tokens.port
            count = _product(_rate(task, port, name), written.tokens.size)
            first = written.places[0] if written.places else None
            outputs.append(self._at(first, name, count))
            for place in written.places[1:]:
                to = self._at(place, f"{self._members[id(place)]}_copy", count)
                copies.append(f"{{{number}, {to}}}")
        lists = [inputs, outputs, copies] if copies else [inputs, outputs]
        given = ", ".join(f"{{{', '.join(each)}}}" for each in lists)
        return f"code.run(w, task, firing, {given})"

    def _at(self, place: Array | Ring | None, name: str, count: str) -> str:
        """Tokens of a firing of kernels; what no task reads lies on the GPU."""
        where = "on_gpu" if place is None or id(place) in self._on_gpu else "on_host"
        return f"flow::{where}({name}, {count})"

    def _in_c(self, code: CCode, names: list[str], own: str) -> str:
        """The call of a function; `own` has its state."""
        given = "&given" if code.parameters else "nullptr"
        return f"{self._symbols.of(code)}({', '.join([f'{own}.state', *names, given])})"

    def _recorded(self, task: DeployedTask, names: list[str]) -> Iterator[str]:
        """For the harness: what it has read and made."""
        for number, (port, name) in enumerate(
            zip((*task.inputs, *task.outputs), names, strict=True)
        ):
            made = number >= len(task.inputs)
            tokens = _tokens(self._layout, task, port)
            seen = str(port.window) if port.window else _rate(task, port, name)
            if task.code.batch > 1:
                seen = str(port.rates[0])
            place = f"{int(made)}, {number - made * len(task.inputs)}"
            count = _product(seen, tokens.size)
            if task.code.batch == 1:
                record = "record_on_gpu(w, " if self._lies_there(task, number) else "record("
                rest = f"task, firing, {place}, {name}, {count} * sizeof *{name}"
                yield f"flow::{record}{rest});"
                continue
            each = f"{name} + n * {count}, {count} * sizeof *{name}"
            yield f"for (int64_t n = 0; n < {task.code.batch}; n++)"
            yield f"    flow::record(task, firing + n, {place}, {each});"

    def _lies_there(self, task: DeployedTask, number: int) -> bool:
        """Are the tokens of a port, inputs first, in the memory of the GPU?"""
        if not isinstance(task.code, CudaCode):
            return False
        if number < len(task.inputs):
            return id(self._layout.reads[task.name][number].of) in self._on_gpu
        places = self._layout.writes[task.name][number - len(task.inputs)].places
        return not places or id(places[0]) in self._on_gpu


# -- words -----------------------------------------------------------------------------------------
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


def _processors_of(whole: Deployment) -> dict[str, dict[str, None]]:
    """The processors of each task, in the order of workers."""
    found: dict[str, dict[str, None]] = {}
    for worker in whole.every_worker:
        for entry in worker.order:
            found.setdefault(entry.task, {})[worker.processor] = None
    return found


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


def _pointers(task: DeployedTask) -> str:
    """The types of the ports in a prototype."""
    inputs = [f"const {c_type(p.dtype)} *{p.name}, " for p in task.inputs]
    outputs = [f"{c_type(p.dtype)} *{p.name}, " for p in task.outputs]
    return "".join(_without_name(p) for p in (*inputs, *outputs))


def _without_name(parameter: str) -> str:
    return parameter.rpartition("*")[0] + "*, "


def _members(code: CCode) -> list[str]:
    """The fields of the struct with the parameters."""
    taken: set[str] = set(CPP_WORDS)
    members = []
    for name, _, _ in code.parameters:
        made = identifiers([name], taken)[name]
        taken.add(made)
        members.append(made)
    return members


def _value(value: Plain | DataFile) -> str:
    if isinstance(value, DataFile):
        return f"flow::in_build({c_text.text(value.file)})"
    return c_text.parameter(value)


def _shown(value: Plain | DataFile) -> str:
    """A value in the list of what can be set; as `runtime/parameters.py` says it."""
    if isinstance(value, DataFile):
        return value.file.rpartition("/")[2]
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)


def _values(delay: int, values: tuple[int | float, ...], dtype: str) -> str:
    """The elements of initial tokens; empty where all are zero."""
    if not any(values):
        return ""
    filled = (*values, *(0,) * (delay - len(values)))
    return ", ".join(c_text.element(v, dtype) for v in filled)


def _state_bytes(code: CCode) -> int:
    """Bytes that hold the struct of the declared state, wherever its fields lie."""
    total = 0
    for _, dtype, shape in code.state:
        size = DTYPES[dtype][1]
        for n in shape:
            size *= n
        total += -(-size // 64) * 64
    return total


def _exact(period: Fraction | None) -> str:
    return "0, 0" if period is None else f"{period.numerator}, {period.denominator}"


def _whole(time: str | None) -> str:
    """A deadline in whole ns: latencies are whole, so that above it is above the deadline."""
    return "-1" if time is None else str(int(Fraction(time)))


def _first(task: DeployedTask) -> str:
    """Is a firing the first one of its iteration?"""
    return "" if task.firings == 1 else "i == 0 && "


def _group(task: DeployedTask) -> str:
    """The firings of an inference, where these are several."""
    return f", {task.code.batch}" if task.code.batch > 1 else ""


def _unless(condition: str, first: str = "") -> Iterator[str]:
    yield f"if ({first}!{condition})"
    yield "    return false;"


def _rate(task: DeployedTask, port: DeployedPort, name: str) -> str:
    """The tokens of a firing, or of all that share an inference."""
    if len(port.rates) == 1:
        return str(port.rates[0] * task.code.batch)
    return f"{name}_rate[i % {len(port.rates)}]"


def _product(count: str, size: int) -> str:
    if count.isdigit():
        return str(int(count) * size)
    return count if size == 1 else f"{count} * {size}"


def _bytes(tokens: Tokens) -> int:
    """Of one token."""
    return DTYPES[tokens.port.dtype][1] * tokens.size


def _zeroed(task: DeployedTask) -> bool:
    """Are its outputs zero before a firing? Networks write all of them, and so does what copies
    tokens."""
    zeroed = not isinstance(task.code, NETWORKS | LinkCode | BorderCode | CudaCode)
    return zeroed and task.keep is None


def _plus(place: list[tuple[int, str]], size: int) -> str:
    """What is added to the address of an array, in elements."""
    text = ""
    for count, factor in place:
        elements = count * size
        if factor:
            text += f" + {factor}" if elements == 1 else f" + {elements} * {factor}"
        elif elements:
            text += f" {'+' if elements > 0 else '-'} {abs(elements)}"
    return text


def _tokens(places: Layout, task: DeployedTask, port: DeployedPort) -> Tokens:
    found = [each.tokens for each in places.reads[task.name]]
    found += [each.tokens for each in places.writes[task.name]]
    return next(tokens for tokens in found if tokens.port is port)


def _scheduling(worker: DeployedWorker, core: int) -> str:
    """The class, the core and the priority of a thread; `core` is that of an ordinary one."""
    if worker.background:
        own = -1 if worker.fixed_priority is None else worker.fixed_priority[0]
        return f"{{flow::Scheduling::BACKGROUND, {own}, 0}}"
    if worker.server is not None:
        own, priority = (0, -1) if worker.fixed_priority is None else worker.fixed_priority
        budget, period = worker.server.budget_ns, _exact(worker.server.period_ns)
        return f"{{flow::Scheduling::SHARE, {own}, {priority}, {budget}, {{{period}}}}}"
    if worker.fixed_priority is not None:
        own, priority = worker.fixed_priority
        return f"{{flow::Scheduling::FIXED, {own}, {priority}}}"
    asked = worker.reservation
    if asked is None:
        return f"{{flow::Scheduling::ORDINARY, {core}, 0}}"
    reserved = f"{asked.work_ns}, {{{_exact(asked.period_ns)}}}, {asked.due_ns}"
    return f"{{flow::Scheduling::ORDINARY, {core}, 0, {reserved}}}"


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
