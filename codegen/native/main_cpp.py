"""The text of main.cpp: parameters, tasks, channels, firings and orders as C++.

In: a deployment that a native program can carry out (`limits.py`). Out: the text of main.cpp. The
template gets strings that are ready to print; all decisions are made here and in `layout.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...model.deployment import (
    Code,
    DataFile,
    DeployedApp,
    DeployedTask,
    DeployedWorker,
    Deployment,
    Plain,
)
from ...model.types import DTYPES
from .. import c_text
from ..frames import enders, is_latest
from ..in_c import C_PARAMETERS
from ..kinds.border import BorderCode
from ..kinds.c import CCode
from ..kinds.cuda import CudaCode
from ..kinds.link import LinkCode
from ..kinds.onnx import OnnxCode
from ..kinds.onnx_cuda import OnnxCudaCode
from ..kinds.openvino import OpenVinoCode
from ..kinds.resample import ResampleCode
from ..marks import Way, marks_of
from ..names import identifiers
from ..statements import pace
from .choice import ChoiceCode, chooses
from .firing import FiringText
from .kernels import compiled_file, field_bytes, has_kernels, launches
from .layout import (
    Array,
    Ring,
    Tokens,
    Values,
    Written,
    held_by,
    layout,
    tokens_of,
)
from .library import CPP_WORDS, library_of
from .scope import NETWORKS, Scope, bytes_of, c_type
from .symbols import symbols_of

if TYPE_CHECKING:
    from jinja2 import Environment

#: The files of the runtime for inference engines, without their suffixes, by kinds of code.
_OF_KINDS: dict[type, str] = {
    OnnxCode: "network",
    OnnxCudaCode: "network",
    OpenVinoCode: "openvino",
}
ENGINES = tuple(dict.fromkeys(_OF_KINDS.values()))
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
    places, symbols = layout(deployment), symbols_of(deployment)
    text = MainText(Scope(deployment, places, symbols, marks_of(deployment)))
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


class MainText:
    """All that is said about a deployment, or about one state of it."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._deployment, self._layout = scope.deployment, scope.layout
        self._marks, whole = scope.marks, scope.whole
        processors = dict.fromkeys(w.processor for w in whole.every_worker)
        self._cores = {name: core for core, name in enumerate(processors)}
        self._processors = _processors_of(whole)
        #: The worker of each task, of several the first one: what a firing does is written there.
        self._first: dict[str, int] = {}
        for number, worker in enumerate(scope.deployment.processors):
            for entry in worker.order:
                self._first.setdefault(entry.task, number)

    @property
    def states(self) -> dict[str, str]:
        """The names of states in main.cpp, by those in the text."""
        return self._scope.states

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
                name = self._scope.symbols.of(task.code)
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
                    most = f"{self._scope.name(channel.source, ring)}.most_full()"
                text = f"{c_text.text(channel.name)}, {channel.capacity}, [] {{ return {most}; }}"
                ends = f"{self._end(channel.source, channel.source_port)}, "
                ends += self._end(channel.destination, channel.destination_port)
                yield f"{{{text}, {ends}, {channel.delay}}}"

    def _end(self, task: str, name: str) -> str:
        """One end of a channel: its task, and the rates of the port there."""
        tasks = self._scope.app_of[task].tasks
        ports = next((*t.inputs, *t.outputs) for t in tasks if t.name == task)
        rates = next(port.rates for port in ports if port.name == name)
        return f"{{{self._scope.tasks[task]}::task, {{{', '.join(map(str, rates))}}}}}"

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
                place = f"&{self._scope.tasks[task.name]}::given.{member}"
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
            size = bytes_of(tokens_of(task, port))
            marks = len(self._marks.of_link.get(code.link, ()))
            kind, kept = ("Newest", "") if code.end == "latest" else ("Queue", f"{code.keep}, ")
            name = f"{self._scope.links[code.link]}({c_text.text(code.link)}"
            yield f"{kind} {name}, {size}, {kept}{marks})"

    def measured(self) -> Iterator[str]:
        """Marks, then ages and reactions."""
        for link, marks in self._marks.of_link.items():
            for number, mark in enumerate(marks):
                which = "flow::OLDEST" if mark.oldest else "flow::NEWEST"
                name = f"{self._scope.links[link]}_mark_{number + 1}"
                put = f"{self._scope.tasks[mark.put]}::code"
                yield f"Mark {name}({put}, {number}, {which}, {self._ways(mark.ways)})"
        for number, each in enumerate(self._marks.measured):
            path = each.path
            name = f"{path.kind}_{number + 1}"
            ends = f"{self._scope.tasks[path.source]}::task, {self._scope.tasks[path.sink]}::task"
            deadline = _whole(path.deadline_ns)
            yield f"{path.kind.capitalize()} {name}({ends}, {self._ways(each.ways)}, {deadline})"

    def _ways(self, ways: tuple[Way, ...]) -> str:
        made = []
        for way in ways:
            source, sink = self._scope.tasks[way.path.source], self._scope.tasks[way.path.sink]
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
            ends = f"{self._scope.tasks[path.source]}::task, {self._scope.tasks[path.sink]}::task"
            newest = ", ".join(map(str, path.newest))
            name = f"{self._scope.apps[app.name]}_path_{number + 1}"
            paths.append(f"{name}({ends}, {{{newest}}}, {_whole(path.deadline_ns)})")
        times = f"{{{_exact(period)}}}, {_whole(app.deadline_ns)}"
        return {
            "name": app.name,
            "doc": app.doc,
            "pace": pace(app),
            "id": self._scope.apps[app.name],
            "arguments": f"{c_text.text(app.name)}, {times}",
            "tasks": [self._task(app, task) for task in app.tasks],
            "tensors": [line for task in app.tasks for line in self._tensors(task)],
            "pinned": list(self._pinned(app)),
            "gates": list(self._gates(app)),
            "paths": paths,
            "enders": len(enders(app)),
        }

    def _task(self, app: DeployedApp, task: DeployedTask) -> dict[str, Any]:
        processor = c_text.text(", ".join(self._processors[task.name]))
        source = "false" if task.inputs else "true"
        arguments = f"{self._scope.apps[app.name]}, {c_text.text(task.name)}, {processor}, code"
        places = []
        for written in self._layout.writes[task.name]:
            places += [self._declared(task, place) for place in written.places] or [
                self._thrown_away(task, written)
            ]
        rates = []
        for port, name in zip((*task.inputs, *task.outputs), self._scope.names(task), strict=True):
            if len(port.rates) > 1:
                rates.append(f"{name}_rate[] = {{{', '.join(map(str, port.rates))}}}")
                before = tokens_of(task, port).before
                rates.append(f"{name}_before[] = {{{', '.join(map(str, before))}}}")
        return {
            "name": task.name,
            "doc": task.doc,
            "id": self._scope.tasks[task.name],
            "code": self._code_here(task),
            "task": f"{arguments}, {task.firings}, {source}{self._manner(task)}",
            "rates": rates,
            "places": places,
        }

    def _gates(self, app: DeployedApp) -> Iterator[dict[str, str]]:
        """What lets sources that drop fire when their tokens are wanted."""
        for task in app.tasks:
            gate = self._scope.gates.get(task.name)
            if gate is None:
                continue
            sources = (task, *gate.beside)
            places = [place for source in sources for place in self._asking(source, task)]
            waited_for = app.period_ns is None and None not in places
            joined = ", ".join(f"{{{place}}}" for place in places) if waited_for else ""
            readers = dict.fromkeys(
                c.destination for t in sources for c in app.channels if c.source == t.name
            )
            names = f"{{{c_text.text(', '.join(readers))}, {c_text.text(task.name)}}}"
            own = "nullptr" if is_latest(task) else "&code"
            beside = [
                f"{{{self._scope.tasks[t.name]}::code, {t.firings}}}"
                for t in gate.beside
                if not is_latest(t)
            ]
            given = [own, str(gate.under_way or 0), names]
            given += [f"{{{joined}}}", f"{{{', '.join(beside)}}}"]
            yield {"id": self._scope.tasks[task.name], "arguments": f"task, {', '.join(given)}"}

    def _asking(self, source: DeployedTask, gated: DeployedTask) -> Iterator[str | None]:
        """Where tasks wait for what a source writes, and its tokens in an iteration. None: a task
        in its worker fires after it, or takes tokens of an earlier iteration first."""
        for written in self._layout.writes[source.name]:
            for place in written.places:
                if isinstance(place, Array) or place.channel.delay:
                    yield None
                    continue
                member = self._scope.members[id(place)]
                struct = "" if source is gated else f"{self._scope.tasks[source.name]}::"
                yield f"&{struct}{member}, {source.firings * written.tokens.port.rates[0]}"

    def outputs(self) -> Iterator[str]:
        """What can be recorded: no tokens that a task only passes on, or that may lie on a GPU."""
        for task in self._deployment.tasks:
            if isinstance(task.code, ResampleCode | LinkCode | CudaCode):
                continue
            for number, port in enumerate(task.outputs):
                shape, rates = (", ".join(map(str, sizes)) for sizes in (port.shape, port.rates))
                name = f"{self._scope.tasks[task.name]}::task, {number}, {c_text.text(port.name)}"
                yield f'{{{name}, "{port.dtype}", {{{shape}}}, {{{rates}}}}}'

    def _manner(self, task: DeployedTask) -> str:
        """Whether it is live, what becomes of its errors, its replicas, and its declared `wcet` in
        ns, as far as this has to be said."""
        replicas = self._layout.places[task.name].replicas
        live = str(task.live).lower()
        wcet = "-1" if task.wcet_ns is None else str(task.wcet_ns)
        words = [live, f"flow::OnError::{task.on_error.upper()}", str(replicas), wcet]
        plain = ["false", "flow::OnError::STOP", "1", "-1"]
        if task.restart is not None:
            words += map(str, task.restart)
            plain += ["", ""]
        while words and words[-1] == plain[len(words) - 1]:
            words.pop()
        return "".join(f", {word}" for word in words)

    def _thrown_away(self, task: DeployedTask, written: Written) -> list[str]:
        """What an output that no task reads is written into."""
        port = written.tokens.port
        size = max(1, max(port.rates) * written.tokens.size * task.code.batch)
        replicas = self._layout.places[task.name].replicas
        sizes = f"[{replicas}][{size}]" if replicas > 1 else f"[{size}]"
        name = self._scope.ports[task.name]["out " + port.name]
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
            name = self._scope.name(source, ring)
            elements = ring.tokens * ring.writer.size
            yield f"{name.replace('::', '_')}_pinned({name}.begin(), {elements})"

    def _tensors(self, task: DeployedTask) -> Iterator[str]:
        """The tensors of a network, in the memory of the channels at its ports; of all variants
        that each frame chooses from."""
        code = task.code
        if isinstance(code, ChoiceCode):
            for variant in code.distinct:
                yield from self._tensors_of(task, variant.code, self._scope.tasks[variant.name])
        elif isinstance(code, NETWORKS):
            yield from self._tensors_of(task, code, self._scope.tasks[task.name])

    def _tensors_of(self, task: DeployedTask, code: Code, network: str) -> Iterator[str]:
        assert isinstance(code, OnnxCode | OnnxCudaCode | OpenVinoCode)
        here = self._scope.tasks[task.name]
        names = iter(self._scope.names(task))
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
        name = self._scope.name(task, place)
        if isinstance(place, Ring):
            return f"{name}.begin(), {place.tokens}"
        return f"{name}, {place.tokens}"

    def _tensor(
        self, task: str, which: tuple[str, str, str, int], tokens: Tokens, memory: str
    ) -> str:
        port, (name, side, tensor, batch) = tokens.port, which
        dimensions = ", ".join(str(n * batch if not i else n) for i, n in enumerate(port.shape))
        kind = f"{c_text.text(tensor)}, {_ELEMENTS[port.dtype]}, {{{dimensions}}}"
        size = DTYPES[port.dtype][1] * tokens.size
        of = f"{task}::code, flow::Tensor::{side}"
        return f"{task}_{name}({of}, {kind}, {memory}, {size}, {batch})"

    def _code_here(self, task: DeployedTask) -> list[str]:
        """The code of a task among its ports."""
        if isinstance(task.code, ChoiceCode):
            return list(self._choice(task, task.code))
        return list(self.used(task)) if self._scope.in_states else self.code(task)

    def _choice(self, task: DeployedTask, code: ChoiceCode) -> Iterator[str]:
        """Of each state the name and the code that a network has there."""
        app = self._scope.app(task)
        replicas = self._layout.places[task.name].replicas
        yield f"flow::Choice code({app}, {replicas}, {str(code.breaks).lower()}, {{"
        for variant in code.of_states:
            processors = c_text.text(", ".join(self._processors[variant.name]))
            named = f"{c_text.text(variant.name)}, {processors}"
            yield f"    {{{named}, ::{self._scope.tasks[variant.name]}::code}},"
        yield "});"

    def used(self, task: DeployedTask) -> Iterator[str]:
        """In a state: what all states have of the code of a task."""
        names = ["code"]
        if isinstance(task.code, CCode) and task.code.parameters:
            names.append("given")
        yield from (f"using ::{self._scope.tasks[task.name]}::{name};" for name in names)

    def code(self, task: DeployedTask) -> list[str]:
        """The code of a task, with its parameters."""
        code = task.code
        if isinstance(code, ResampleCode):
            return ["flow::Code code;"]
        if isinstance(code, BorderCode):
            (port,) = (*task.inputs, *task.outputs)
            incoming, size = str(not task.inputs).lower(), bytes_of(tokens_of(task, port))
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
            ends = [self._scope.links[code.link]]
            if not self._scope.in_states:
                ends.append(self._scope.app(task))
            return [f"flow::{code.end.capitalize()} code({', '.join(ends)});"]
        if isinstance(code, CudaCode):
            return self._kernels(task, code)
        assert isinstance(code, CCode)
        return self._functions(task, code)

    def _functions(self, task: DeployedTask, code: CCode) -> list[str]:
        """The functions of a task in C, with their parameters."""
        lines, given = [], "nullptr"
        if code.parameters:
            lines = [_given(code)]
            given = "&given"
        name = self._scope.symbols.of(code)
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
            str(bytes_of(tokens) * tokens.most)
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
        return task.name in self._scope.timed or task.name in enders(self._scope.app_of[task.name])

    def _dropping(self, task: DeployedTask, code: CCode, keep: int) -> Iterator[str]:
        """A source that goes on by itself: what it makes lies in one piece of memory."""
        yield "int made(char *const token)"
        yield "{"
        names = self._scope.names(task)
        offsets = self._scope.offsets(task)
        for port, name, offset in zip(task.outputs, names, offsets, strict=False):
            kind = c_type(port.dtype)
            yield f"    {kind} *const {name} = reinterpret_cast<{kind} *>(token + {offset});"
        yield f"    return {self._scope.call_in_c(code, names, 'inner')};"
        yield "}"
        yield f"flow::Dropping code(inner, made, {offsets[-1]}, {keep});"

    def _declared(self, task: DeployedTask, place: Array | Ring) -> list[str]:
        """An array or a ring, in the namespace of the task that writes it."""
        if isinstance(place, Ring):
            return self._ring(task, place)
        return self._held(task, place) if place.held else self._array(task, place)

    def _initial(self, place: Array | Ring, delay: int, values: Values) -> list[str]:
        """The tokens before the first one that is written, where some of them are not zero."""
        tokens, name = place.writer, self._scope.members[id(place)]
        elements = _values(delay, values, tokens.port.dtype)
        kind = c_type(tokens.port.dtype)
        return [f"const {kind} {name}_initial[] = {{{elements}}};"] if elements else []

    def _ring(self, task: DeployedTask, ring: Ring) -> list[str]:
        tokens, name, channel = ring.writer, self._scope.members[id(ring)], ring.channel
        ends = f"{{{c_text.text(task.name)}, {c_text.text(channel.destination)}}}"
        sizes = f"{tokens.size}, {ring.slots}, {channel.capacity}, {ring.seen}"
        if ring.shared:
            ends += f", {sizes}, {ring.kept}"
            sizes = f"{tokens.in_iteration}, {ring.writers}, {ring.readers}"
        lines = self._initial(ring, channel.delay, channel.values) if channel.delay else []
        delay = f", {channel.delay}" if channel.delay else ""
        delay += f", {name}_initial" if lines else ""
        holes = ", true" if task.name in self._scope.lossy else ""
        type_ = f"{'Shared' if ring.shared else 'Ring'}<{c_type(tokens.port.dtype)}{holes}>"
        return [*lines, f"flow::{type_} {name}({ends}, {sizes}{delay});"]

    def _memory_of(self, array: Array) -> str:
        """The elements of an array."""
        tokens, name = array.writer, self._scope.members[id(array)]
        whole = array.tokens * tokens.size
        kept = f"  // {array.kept} tokens stay, {array.in_round} in a round" if array.kept else ""
        return f"alignas(64) {c_type(tokens.port.dtype)} {name}[{whole}];{kept}"

    def _fields(self, array: Array) -> str:
        """Of each token its elements; tokens that stay, and those of a round."""
        return f"{array.writer.size}, {array.kept}, {array.in_round}"

    def _held(self, task: DeployedTask, array: Array) -> list[str]:
        """An array whose last tokens go on to other states."""
        tokens, name = array.writer, self._scope.members[id(array)]
        lines, holes = [self._memory_of(array)], "nullptr"
        if task.name in self._scope.lossy:
            holes = f"{name}_missing"
            lines.append(f"uint8_t {holes}[{array.tokens}];")
        initial = self._initial(array, array.delay, array.values)
        delay = f", {array.delay}, {name}_initial" if initial else ""
        app = self._scope.app(task)
        rounds = array.rounds_with_initial_tokens
        held = f"{array.zeroth}, {rounds}, {array.held}, {tokens.in_iteration}{delay}"
        given = f"{app}, {{{name}, {self._fields(array)}}}, {holes}, {held}"
        held_of = f"flow::Held<{c_type(tokens.port.dtype)}>"
        return [*lines, *initial, f"{held_of} {name}_round({given});"]

    def _array(self, task: DeployedTask, array: Array) -> list[str]:
        tokens, name = array.writer, self._scope.members[id(array)]
        kind, fields = c_type(tokens.port.dtype), self._fields(array)
        if id(array) in self._scope.on_gpu:
            whole = array.tokens * tokens.size
            lines = [f"flow::GpuArray<{kind}> {name}({whole}, {fields});"]
        else:
            lines = [self._memory_of(array)]
            if array.kept or array.rounds_with_initial_tokens:
                lines.append(f"const flow::Array<{kind}> {name}_round{{{name}, {fields}}};")
        if array.rounds_with_initial_tokens:
            lines += self._initial(array, array.delay, array.values)
        if task.name in self._scope.lossy:
            holes = f"{name}_missing"
            lines.append(f"uint8_t {holes}[{array.tokens}];")
            if array.kept:
                fields = f"{holes}, 1, {array.kept}, {array.in_round}"
                lines.append(f"const flow::Array<uint8_t> {holes}_round{{{fields}}};")
        return lines

    def id_of(self, task: str) -> str:
        """The namespace of a task."""
        return self._scope.tasks[task]

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
            name = self._scope.name(channel.source, found.of)
            if isinstance(found.of, Array):
                name += "_round"
            if isinstance(found.of, Ring) or found.of.held:
                places[f"&{name}"] = None
            if channel.delay or port.window:
                held = held_by(channel, port)
                kept += [f'{{"{number}", {name}, {held}}}'] if held else []
                number += 1
        return f"{{{self._scope.apps[app.name]}, {{{', '.join(places)}}}, {{{', '.join(kept)}}}}}"

    # -- what a firing does ------------------------------------------------------------------------
    def worker(self, number: int, worker: DeployedWorker) -> dict[str, Any]:
        """A worker: what its tasks do in a firing, and its order."""
        tasks = {t.name: t for t in self._deployment.tasks}
        fired = list(dict.fromkeys(e.task for e in worker.order))
        turns: dict[str, tuple[int, int]] = {}
        for entry in worker.order:
            app = self._scope.app_of[entry.task].name
            behind = max(entry.stage - entry.round[0], turns.get(app, (0, -entry.round[0]))[1])
            turns[app] = entry.round[1], behind
        begins: list[str] = []
        ends: list[str] = []
        for name in fired:
            for written in self._layout.writes[name]:
                for place in written.places:
                    if isinstance(place, Array):
                        begins += self._begins(place)
                        ends += self._ends(place, *turns[self._scope.app_of[name].name])
        return {
            "id": f"worker_{number + 1}",
            "processor": c_text.text(worker.processor),
            "name": worker.processor,
            "scheduling": _scheduling(worker, self._cores[worker.processor]),
            "turns": [
                f"{{&{self._scope.apps[a]}, {m}, {behind}}}" for a, (m, behind) in turns.items()
            ],
            "fires": [
                {
                    "id": self._scope.tasks[n],
                    "name": n,
                    "lines": list(FiringText(self._scope, tasks[n]).lines()),
                }
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
        name = self._scope.name(array.task, array)
        if array.held:
            app = self._scope.apps[self._scope.app_of[array.task].name]
            yield f"if ({app}.goes_on(round * {iterations} - {behind}))"
            yield f"    {name}_round.end();"
        elif array.kept:
            yield f"{name}.end(w);" if id(array) in self._scope.on_gpu else f"{name}_round.end();"
            if array.task in self._scope.lossy:
                yield f"{name}_missing_round.end();"

    def _begins(self, array: Array) -> Iterator[str]:
        rounds = array.rounds_with_initial_tokens
        if array.held:
            yield f"{self._scope.name(array.task, array)}_round.begin(round);"
        elif rounds:
            name = self._scope.name(array.task, array)
            zeroth = f"{array.zeroth} - round * {array.in_round}"
            here = (
                f"{name}.begin(w, " if id(array) in self._scope.on_gpu else f"{name}_round.begin("
            )
            yield f"if (round < {rounds})"
            yield f"    {here}round, {zeroth}, {array.delay}, {name}_initial);"

    def _entry(self, entry: Any, task: DeployedTask) -> str:
        (slot, iterations), name = entry.round, self._scope.tasks[task.name]
        k = "round" if iterations == 1 else f"round * {iterations}"
        shift = slot - entry.stage
        if shift:
            k += f" {'+' if shift > 0 else '-'} {abs(shift)}"
        ends = "true" if task.name in enders(self._scope.app_of[task.name]) else "false"
        which = f"{k}, {slot}, {entry.first}, {entry.times}"
        if task.code.batch > 1:
            which += f", {task.code.batch}"
        replica, replicas = entry.replica
        turn = f"if (flow::in_turn({k}, {replica}, {replicas})) " if replicas > 1 else ""
        return f"{turn}w.entry({name}::fires, {name}::task, {ends}, {which});"


# -- words -----------------------------------------------------------------------------------------
def _processors_of(whole: Deployment) -> dict[str, dict[str, None]]:
    """The processors of each task, in the order of workers."""
    found: dict[str, dict[str, None]] = {}
    for worker in whole.every_worker:
        for entry in worker.order:
            found.setdefault(entry.task, {})[worker.processor] = None
    return found


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


def _given(code: CCode) -> str:
    """The struct with the parameters, and their values."""
    fields = []
    values = []
    for (_, name, value), member in zip(code.parameters, _members(code), strict=True):
        kind = C_PARAMETERS[name]
        fields.append(f"{kind}{'' if kind.endswith('*') else ' '}{member};")
        values.append(_value(value))
    return f"struct Given {{ {' '.join(fields)} }} given = {{{', '.join(values)}}};"


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
    if worker.urgency is not None:
        return f"{{flow::Scheduling::ON_STREAM, {core}, {worker.urgency}}}"
    kind = f"ORDINARY, {core}" if worker.bound is None else f"BOUND, {worker.bound}"
    asked = worker.reservation
    if asked is None:
        return f"{{flow::Scheduling::{kind}, 0}}"
    reserved = f"{asked.work_ns}, {{{_exact(asked.period_ns)}}}, {asked.due_ns}"
    return f"{{flow::Scheduling::{kind}, 0, {reserved}}}"
