"""Deployment to files: everything of a build except compiled objects, as a plan {path: content}.

Same deployment, same bytes. The templates get strings that are ready to print; what to print is decided here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..machines.board import LEAST_NUMPY
from ..machines.whoami import version_of
from ..model.application import Task
from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedCrossing,
    DeployedPort,
    DeployedScenario,
    DeployedState,
    DeployedTask,
    DeployedWorker,
    Deployment,
    Entry,
)
from ..model.types import DTYPES
from ..templates import environment
from .deploy import Deployed
from .kinds import KINDS, Code, tensorrt
from .kinds.border import BorderCode
from .kinds.c import parameter_type
from .kinds.moving import MovingCode
from .layouts import chosen, place_of
from .names import identifiers, literal, one_line
from .sources import Plan

if TYPE_CHECKING:
    from jinja2 import Environment

#: The oldest version with which programs run, as flowc itself has it.
LEAST_ONNXRUNTIME = "1.17"
#: The first pyzmq with wheels for everything that parts run on, from Python 3.8 on ARM on.
LEAST_PYZMQ = "25"
RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
#: Files of the runtime that only other targets need.
ELSEWHERE = frozenset({"dora.py", "external.py", "face.py", "fmu.py", "hopes.py", "ros2.py"})
#: Names that main.py uses itself.
RESERVED = frozenset({"Fire", "HOME", "Port", "Program", "main", "os", "p", "program", "signal", "sys"}).union(
    {"Dropping", "Select"}, *(kind.words for kind in KINDS)
)


def emit(deployed: Deployed) -> Plan:
    """The files of a build, with its parts for several machines."""
    plan = _whole(deployed)
    for part in deployed.parts:
        assert part.deployment.part is not None
        plan |= {f"{folder_of(part.deployment.part.machine)}/{path}": data for path, data in _part(part).items()}
    return dict(sorted(plan.items()))


def folder_of(machine: str) -> str:
    """Where a build has the part of a machine."""
    return f"parts/{machine}"


def _part(deployed: Deployed) -> Plan:
    """What one machine of several needs: no package to open, and no harness of its own."""
    plan = _whole(deployed)
    return {path: data for path, data in plan.items() if path != "__init__.py" and not path.startswith("tests/")}


def _whole(deployed: Deployed) -> Plan:
    jinja = _jinja()
    deployment = deployed.deployment
    plan: Plan = dict(deployed.files)
    needs = _needs(deployment)
    plan["main.py"] = _main(jinja, deployment, needs)
    package = jinja.get_template("python/__init__.py.j2").render(deployment=deployment, ends=_ends(deployment))
    plan["__init__.py"] = package.encode()
    plan["deployment.json"] = deployment.to_json().encode()
    plan["README.md"] = readme(deployed)
    requirements = jinja.get_template("python/requirements.txt.j2").render(lines=_requirements(deployment))
    plan["requirements.txt"] = requirements.encode()
    apps = list(dict.fromkeys(a.name for a in deployment.every_app))
    for app, name in identifiers(apps, ()).items():
        text = jinja.get_template("python/test_app.py.j2").render(app=app, class_name=f"Test_{name}")
        plan[f"tests/test_{name}.py"] = text.encode()
    for file in sorted(f for f in RUNTIME.glob("*.py") if f.name not in ELSEWHERE):
        plan[f"runtime/{file.name}"] = file.read_bytes()
    for kind in KINDS:
        plan |= {} if kind.scripts is None else kind.scripts(jinja, deployment)
    if deployed.c_tasks:
        plan[FIRINGS] = (RUNTIME / "firings.c").read_bytes()
        units = [" ".join(_shell(word) for word in compile_command(FIRINGS))]
        for source, tasks in sorted(deployed.c_tasks.items()):
            stem = source.rsplit(".", 1)[0]
            plan[f"{stem}.flow.h"] = header(Path(source).name, tasks, jinja).encode()
            units.append(" ".join(_shell(word) for word in compile_command(source)))
        plan["compile.sh"] = jinja.get_template("c/compile.sh.j2").render(units=units).encode()
    return plan


def readme(deployed: Deployed, robot: str = "", start: Sequence[str] = ()) -> bytes:
    """What a program is and how it is started: by itself, or as a node of a `robot`, whose `start` is said."""
    deployment = deployed.deployment
    text = _jinja().get_template("python/README.md.j2")
    words = {"c_sources": deployed.c_tasks, "tensorrt": tensorrt.stages(deployment), "robot": robot, "start": start}
    needs, ends = _needs(deployment), _ends(deployment)
    return text.render(
        deployment=deployment, needs=needs, ends=ends, on_device=_on_device(deployment), **words
    ).encode()


def _codes(deployment: Deployment) -> list[Code]:
    return [cast(Code, t.code) for t in deployment.tasks]


def _libraries(deployment: Deployment) -> list[str]:
    """The inference libraries of a program."""
    found = dict.fromkeys(name for c in _codes(deployment) for name in c.libraries(deployment))
    if "onnxruntime-gpu" in found:  # it does what the other one does
        found.pop("onnxruntime", None)
    return sorted(found, key=lambda name: not name.startswith("onnxruntime"))


def _needs(deployment: Deployment) -> str:
    """The libraries of a program, in words."""
    cuda = ["cuda-python or PyCUDA"] if _on_device(deployment) else []
    return ", ".join(["numpy", *(["pyzmq"] if deployment.part else []), *_libraries(deployment), *cuda])


def _requirements(deployment: Deployment) -> list[str]:
    """The same for pip. The version of ONNX Runtime is that of this machine, where Python is as new as here."""
    lines = [f"numpy>={LEAST_NUMPY}", *([f"pyzmq>={LEAST_PYZMQ}"] if deployment.part else [])]
    for name in _libraries(deployment):
        version = version_of(name)
        if not name.startswith("onnxruntime"):
            lines.append(f"# {name}: NVIDIA's package, part of JetPack on a Jetson")
        elif version is None:
            lines.append(f"{name}>={LEAST_ONNXRUNTIME}")
        else:
            lines.append(f'{name}=={version}; python_version >= "3.11"')
            lines.append(f'{name}>={LEAST_ONNXRUNTIME}; python_version < "3.11"')
    return [*lines, *(["cuda-python  # or PyCUDA"] if _on_device(deployment) else [])]


def _ends(deployment: Deployment) -> list[str]:
    """The open ends, one to a line."""
    return [
        f"{t.code.kind} {t.name}: {p.dtype}{list(p.shape) if p.shape else ''}"
        for t in deployment.tasks
        for p in (*t.inputs, *t.outputs)
        if isinstance(t.code, BorderCode)
    ]


def _on_device(deployment: Deployment) -> bool:
    return any(c.on_device for c in _codes(deployment))


def digest(plan: Plan) -> str:
    """A hash over all paths and contents."""
    total = hashlib.sha256()
    for path, content in sorted(plan.items()):
        data = content if isinstance(content, bytes) else content.read_bytes()
        total.update(f"{path}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()


#: A wrong pointer type in C is a wrong token: these warnings are errors.
STRICT_C = ("-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=implicit-function-declaration")


#: What fires C tasks one after another, beside their own sources.
FIRINGS = "runtime/firings.c"


def compile_command(source: str) -> list[str]:
    """The compiler call for one C source of a build, with paths relative to the build."""
    stem = source.rsplit(".", 1)[0]
    flags = ["-std=gnu++17" if is_cpp(source) else "-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall"]
    if source != FIRINGS:
        # A function of the task that is called like one of libc is meant wherever the source calls it.
        flags += ["-Wl,-Bsymbolic", *(() if is_cpp(source) else STRICT_C), "-include", f"{stem}.flow.h"]
    libraries = ["-lstdc++", "-lm"] if is_cpp(source) else ["-lm"]
    return ["${CC:-cc}", "$CFLAGS", *flags, "-o", f"{stem}.so", source, *libraries]


def is_cpp(source: str) -> bool:
    """Is it C++, as its name says?"""
    return source.endswith((".cpp", ".cc", ".cxx"))


def _shell(word: str) -> str:
    if word.startswith("$"):
        return word
    return word if re.fullmatch(r"[\w./=+,-]+", word, re.ASCII) else "'" + word.replace("'", "'\\''") + "'"


def _jinja() -> Environment:
    jinja = environment()
    jinja.filters["py"] = literal
    jinja.filters["line"] = one_line
    jinja.filters["cell"] = lambda text: one_line(str(text)).replace("|", "\\|")
    jinja.filters["steps"] = _step_in_words
    jinja.filters["comment"] = lambda text: one_line(str(text)).replace("*/", "* /").replace("/*", "/ *")
    return jinja


# -- main.py -----------------------------------------------------------------------------------------------------------
def _main(jinja: Environment, deployment: Deployment, needs: str) -> bytes:
    if deployment.scenario is not None:
        return _main_with_states(jinja, deployment, deployment.scenario, needs)
    several = len(deployment.apps) > 1
    names = [a.name for a in deployment.apps]
    tasks = [t.name for a in deployment.apps for t in a.tasks]
    ids = identifiers([*(f"app {n}" for n in names), *(n if several else n.partition(".")[2] for n in tasks)], RESERVED)
    app_ids = {n: ids[f"app {n}"] for n in names}
    task_ids = {n: ids[n if several else n.partition(".")[2]] for n in tasks}
    text = jinja.get_template("python/main.py.j2").render(
        deployment=deployment,
        needs=needs,
        apps=[_app(app, app_ids, task_ids) for app in deployment.apps],
        workers=[_worker(worker, task_ids) for worker in deployment.processors],
        words=_words(deployment),
        part=deployment.part,
        crossings=[] if deployment.part is None else [_crossing(c, task_ids) for c in deployment.part.crossings],
    )
    return text.encode()


def _crossing(crossing: DeployedCrossing, task_ids: dict[str, str]) -> str:
    """The call in main.py for a channel between two parts."""
    here, channel = f"{task_ids[crossing.task]}, {literal(crossing.port)}", _channel_text(crossing.channel)
    call = "outgoing" if crossing.outgoing else "incoming"
    return f"{call}({crossing.number}, {here}, {literal(crossing.peer)}, {literal(crossing.other)}, {channel})"


def _channel_text(channel: DeployedChannel) -> str:
    """Its name, its capacity and its initial tokens in main.py."""
    text = f"{literal(channel.name)}, capacity={channel.capacity}"
    text += f", delay={channel.delay}" if channel.delay else ""
    return text + (f", values={literal(list(channel.values))}" if channel.values else "")


def _main_with_states(jinja: Environment, deployment: Deployment, scenario: DeployedScenario, needs: str) -> bytes:
    """Code of tasks is made once, for all states; apps, channels and processors are made for each."""
    apps = list(dict.fromkeys(a.name for a in deployment.every_app))
    tasks = {t.name: t for t in deployment.tasks}
    names = [*(f"app {n}" for n in apps), *tasks, *(f"code of {n}" for n in tasks)]
    ids = identifiers(names, RESERVED)
    codes = {n: ids[f"code of {n}"] for n in tasks}
    app_ids = {n: ids[f"app {n}"] for n in apps}
    states: list[dict[str, Any]] = []
    for state in scenario.states:
        if state.like is not None:
            states.append({**_meant_for(state), "like": state.like, "apps": [], "workers": []})
            continue
        choices = _choices([s for s in scenario.states if state.name in (s.name, s.like)], codes)
        made = [_app(app, app_ids, ids) for app in state.apps]
        for app, found in zip(state.apps, made, strict=True):
            for task, line in zip(app.tasks, found["tasks"], strict=True):
                line["name"], line["code"] = choices.get(task.name, (task.name, codes[task.name]))
            kept = [c for c, line in zip(app.channels, found["channels"], strict=True) if _kept(app, c)]
            for key, c in enumerate(kept):
                found["channels"][app.channels.index(c)]["delay"] += f', key="{key}"'
        workers = [_worker(worker, ids) for worker in state.processors if worker.order]
        states.append({**_meant_for(state), "like": None, "apps": made, "workers": workers})
    text = jinja.get_template("python/main_with_states.py.j2").render(
        deployment=deployment,
        scenario=scenario,
        needs=needs,
        codes=[{"id": codes[n], "doc": t.doc, "text": _task(t, ids)["code"]} for n, t in tasks.items()],
        states=states,
        words=_words(deployment),
    )
    return text.encode()


def _meant_for(state: DeployedState) -> dict[str, Any]:
    """A state with its clock rates, its power, and of what it is a level."""
    clocks = {c.pool: (c.kind, c.hz, c.highest_hz) for c in state.clocks}
    return {"name": state.name, "clocks": clocks, "mw": state.energy_mw, "level_of": state.level_of}


def _choices(states: list[DeployedState], codes: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Tasks of the first state that are others in one that is like it: the name of their place, and their code."""
    named: dict[str, list[tuple[str, str]]] = {}
    for state in states:
        place = place_of(state)
        for task in chosen(state):
            named.setdefault(place(task.name), []).append((state.name, task.name))
    found = {}
    for place_name, alternatives in named.items():
        if len({task for _, task in alternatives}) > 1:
            parts = [f"({literal(state)}, {literal(task)}, {codes[task]})" for state, task in alternatives]
            found[alternatives[0][1]] = place_name, f"Select([{', '.join(parts)}])"
    return found


def _kept(app: DeployedApp, channel: DeployedChannel) -> bool:
    """Does something lie on it between two frames, or stay with its reader?"""
    reader = next(t for t in app.tasks if t.name == channel.destination)
    return bool(channel.delay or next(p.window for p in reader.inputs if p.name == channel.destination_port))


def _words(deployment: Deployment) -> list[str]:
    """What main.py takes from the runtime."""
    words = {"Fire", "Port", "Program", "main"}.union(*(c.words for c in _codes(deployment)))
    if any(t.keep is not None for t in deployment.tasks):
        words.add("Dropping")
    if deployment.scenario is not None and any(s.like is not None for s in deployment.scenario.states):
        words.add("Select")
    return sorted(words)


def _app(app: DeployedApp, app_ids: dict[str, str], task_ids: dict[str, str]) -> dict[str, Any]:
    channels = []
    for c in app.channels:
        delay = f", delay={c.delay}" if c.delay else ""
        if c.values:
            delay += f", values={literal(list(c.values))}"
        channels.append(
            {
                "source": task_ids[c.source], "source_port": c.source_port, "destination": task_ids[c.destination],
                "destination_port": c.destination_port, "capacity": c.capacity, "delay": delay,
            }
        )  # fmt: skip
    return {
        "name": app.name,
        "doc": app.doc,
        "id": app_ids[app.name],
        "pace": _pace(app),
        "period": app.period_ns,
        "deadline": app.deadline_ns,
        "cuts": _cuts(app, task_ids),
        "tasks": [_task(t, task_ids) for t in app.tasks],
        "channels": channels,
        "paths": [
            {
                "source": task_ids[path.source],
                "sink": task_ids[path.sink],
                "newest": _offsets(path.newest),
                "deadline": path.deadline_ns,
            }
            for path in app.paths
        ],
    }


def _pace(app: DeployedApp) -> str:
    if app.period_ns is None:
        return "As fast as data allows."
    text = f"One iteration every {_ms(app.period_ns)}"
    if app.deadline_ns is not None and app.deadline_ns != app.period_ns:
        text += f", to be done within {_ms(app.deadline_ns)}"
    return text + "."


def _ms(ns: str) -> str:
    return f"{float(Fraction(ns)) / 1e6:g} ms"


def _task(task: DeployedTask, task_ids: dict[str, str]) -> dict[str, Any]:
    code = cast(Code, task.code).text(task_ids)
    return {
        "name": task.name,
        "doc": task.doc,
        "id": task_ids[task.name],
        "code": code if task.keep is None else f"Dropping(p, {code}, keep={task.keep})",
        "live": task.live,
        "on_error": task.on_error,
        "inputs": [_port(p) for p in task.inputs],
        "outputs": [_port(p) for p in task.outputs],
    }


def _cuts(app: DeployedApp, task_ids: dict[str, str]) -> list[dict[str, Any]]:
    """The cuts that move at run time, each defined in front of the two tasks that share it."""
    return [
        {
            "id": t.code.cut_id(task_ids),
            "name": t.code.network,
            "variants": t.code.variant_texts(),
            "start": t.code.start,
            "others": t.code.others,
        }
        for t in app.tasks
        if isinstance(t.code, MovingCode) and t.code.side == "front"
    ]


def _port(port: DeployedPort) -> str:
    text = f"Port({literal(port.name)}, {literal(port.dtype)}"
    if port.shape or port.rates != (1,) or port.stacked:
        text += f", {literal(port.shape)}"
    if port.rates != (1,) or port.stacked:
        text += f", rates={_rates(port.rates)}"
    if port.window:
        text += f", window={port.window}"
    elif port.stacked and port.rates == (1,):
        text += ", stacked=True"
    return text + ")"


def _rates(rates: tuple[int, ...]) -> str:
    """Long repetitive lists are written as sums of repeated parts."""
    parts: list[tuple[int, int]] = []
    for rate in rates:
        if parts and parts[-1][0] == rate:
            parts[-1] = (rate, parts[-1][1] + 1)
        else:
            parts.append((rate, 1))
    if len(rates) > 8 and len(parts) < len(rates) // 2:
        return " + ".join(f"({rate},) * {count}" for rate, count in parts)
    return literal(rates)


def _offsets(numbers: tuple[int, ...]) -> str:
    """Long lists that go up in equal steps are written as ranges."""
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 8 and len(steps) == 1 and 0 not in steps:
        (step,) = steps
        return f"range({numbers[0]}, {numbers[-1] + step}{f', {step}' if step != 1 else ''})"
    return literal(list(numbers))


def _worker(worker: DeployedWorker, task_ids: dict[str, str]) -> dict[str, Any]:
    fixed = f", fixed_priority={worker.fixed_priority}" if worker.fixed_priority is not None else ""
    return {
        "processor": worker.processor,
        "order": [_entry(e, task_ids) for e in worker.order],
        "fixed_priority": fixed,
    }


def _entry(entry: Entry, task_ids: dict[str, str]) -> str:
    parts = [task_ids[entry.task]]
    if entry.times != 1:
        parts.append(f"times={entry.times}")
    if entry.first:
        parts.append(f"first={entry.first}")
    if entry.stage:
        parts.append(f"stage={entry.stage}")
    if entry.replica[1] > 1:
        parts.append(f"replica={entry.replica}")
    if entry.round[1] > 1:
        parts.append(f"round={entry.round}")
    return ", ".join(parts)


def _step_in_words(entry: Entry) -> str:
    times = f" x {entry.times}" if entry.times > 1 else ""
    share = f" (every {entry.replica[1]}. iteration)" if entry.replica[1] > 1 else ""
    return one_line(entry.task).replace("|", "\\|") + times + share


# -- C headers ---------------------------------------------------------------------------------------------------------
C_PARAMETERS = {"int": "int64_t", "float": "double", "bool": "bool", "string": "const char *"}


def header(file: str, tasks: tuple[Task, ...], jinja: Environment | None = None) -> str:
    """Prototypes of all tasks in one C file."""
    unique: dict[str, tuple[Task, str]] = {}
    for task in tasks:
        code = task.implementation_on("cpu")
        assert code is not None
        unique.setdefault(code.symbol, (task, code.symbol))
    guard = "FLOWC_" + re.sub(r"\W", "_", file, flags=re.ASCII).upper() + "_H"
    template = (jinja or _jinja()).get_template("c/task.h.j2")
    found = [_prototype(t, s, is_cpp(file)) for t, s in unique.values()]
    return template.render(file=file, guard=guard, cpp=is_cpp(file), tasks=found)


def _prototype(task: Task, symbol: str, cpp: bool) -> dict[str, Any]:
    arguments, ports = "", []
    for port in (*task.inputs, *task.outputs):
        if port.type is None:
            continue
        const = "const " if port.direction == "in" else ""
        arguments += f"{const}{DTYPES[port.type.dtype][0]} *{c_name(port.name, cpp)}, "
        rates = str(port.rates[0]) if len(port.rates) == 1 else f"{list(port.rates)} (one entry per phase)"
        tokens = f" x {rates}" if port.stacked else ""
        if port.window:
            tokens = f" x {port.window}, of which the last {rates} are new"
        ports.append(f"{port.direction} {port.name}: {port.type}{tokens}")
    return {
        "definition": task.definition,
        "doc": task.doc,
        "symbol": symbol,
        "parameters": [(C_PARAMETERS[parameter_type(v)], c_name(n, cpp)) for n, v in task.parameters],
        "state": [
            (DTYPES[f.type.dtype][0], c_name(f.name, cpp), "".join(f"[{n}]" for n in f.type.shape)) for f in task.state
        ],
        "ports": ports,
        "arguments": arguments,
    }


#: Words of C++ that are none of C.
_CPP_KEYWORDS = """
alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t class compl const_cast constexpr decltype
delete dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq
protected public reinterpret_cast static_assert static_cast template this thread_local throw true try typeid typename
private using virtual wchar_t xor xor_eq
"""
_C_KEYWORDS = frozenset(
    [
        "I",
        "NULL",
        "errno",
        "i386",
        "linux",
        "unix",
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "bool",
        "true",
        "false",
        "complex",
        "state",
        "p",
    ]
)


def c_name(name: str, cpp: bool = False) -> str:
    """A port or parameter as an identifier of C, or C++."""
    return f"{name}_" if name in _C_KEYWORDS or (cpp and name in _CPP_KEYWORDS.split()) else name
