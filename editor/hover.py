"""Hover information for a name: types, rates, firings in an iteration, measured times; layers of a
network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..dsl.index import Named, Symbol
from ..dsl.template import beside
from ..model.application import Port, Task
from ..networks.onnx.interface import NetworkError, read_network
from .code import layers, line_of
from .session import CheckedText, Session

#: Most instances of one definition, and layers of a network, that are listed.
MOST = 8


def hover(session: Session, seen: CheckedText, path: str, line: int, column: int) -> str | None:
    """Markdown for a place in a text, or None if nothing is known about it."""
    named = seen.index.quoted_at(path, line, column)
    if named is not None:
        return _quoted(named)
    found = seen.index.at(path, line, column)
    return None if found is None else "\n\n".join(_symbol(session, seen, found[1]))


def _symbol(session: Session, seen: CheckedText, symbol: Symbol) -> Iterator[str]:
    yield f"```flow\n{_declaration(session, symbol)}\n```"
    if symbol.doc:
        yield symbol.doc
    if symbol.kind == "port":
        port = _port_of(tasks_of(seen, _owner(seen, symbol)), symbol.name)
        if port is not None:
            yield f"- {_port(port)}"
        return
    tasks = tasks_of(seen, symbol)
    if tasks:
        ports = (*tasks[0].inputs, *tasks[0].outputs)
        yield "\n".join(f"- {_port(port)}" for port in ports)
    lines: list[str] = []
    for task in tasks[:MOST]:
        lines += _task(seen, task)
    if lines:
        yield "\n".join(lines)


def _port_of(tasks: Iterable[Task], name: str) -> Port | None:
    """The first port of that name."""
    for task in tasks:
        for port in (*task.inputs, *task.outputs):
            if port.name == name:
                return port
    return None


def _owner(seen: CheckedText, symbol: Symbol) -> Symbol:
    return seen.index.declared(symbol.owner) or symbol


def _declaration(session: Session, symbol: Symbol) -> str:
    """The first line of a declaration, as it was written."""
    lines = session.lines(symbol.whole.file).lines
    first = lines[symbol.whole.line - 1][symbol.whole.column - 1 :]
    if symbol.whole.line == symbol.whole.end_line:
        first = first[: symbol.whole.end_column - symbol.whole.column]
    return first.strip()


def tasks_of(seen: CheckedText, symbol: Symbol) -> list[Task]:
    """The tasks that a definition, or an instance, has become."""
    tasks: list[Task] = []
    for app in seen.checked.system.apps:
        if symbol.kind in ("task", "network"):
            tasks += [task for task in app.tasks if task.definition == symbol.name]
        elif symbol.kind == "instance":
            tasks += [task for task in app.tasks if _is_instance(task, app.name, symbol)]
    return tasks


def _is_instance(task: Task, app: str, symbol: Symbol) -> bool:
    last = task.name.rpartition(".")[2].partition("[")[0]
    inside = task.name.count(".") > 1
    return last == symbol.name and task.definition == symbol.of and (inside or app == symbol.owner)


def _port(port: Port) -> str:
    rates = port.rates[0] if len(port.rates) == 1 else list(port.rates)
    rate = "" if rates == 1 else f", rate {rates}"
    if port.count:
        rate = f", rate up to {rates}"
    window = f", window {port.window}" if port.window else ""
    return f"`{port.direction} {port.name}`: {port.type or 'any type'}{rate}{window}"


def _task(seen: CheckedText, task: Task) -> Iterator[str]:
    verdicts = seen.checked.verdicts.get(task.name.partition(".")[0])
    firings = verdicts.repetition.get(task.name) if verdicts is not None else None
    facts = []
    if firings:
        count = "1 firing" if firings == 1 else f"{firings} firings"
        facts.append(f"{count} in an iteration")
    time = measured(seen, task.name)
    if time:
        facts.append(time)
    if facts:
        yield f"- `{task.name}`: {'; '.join(facts)}"


def measured(seen: CheckedText, task: str) -> str:
    """The measured times of a task in the stored profile; empty if there are none."""
    entries = seen.profile.entries if seen.profile is not None else ()
    entry = next((e for e in entries if e.subject == task and e.processor == "cpu"), None)
    if entry is None:
        return ""
    return f"measured {entry.mean_ns / 1e3:.4g} us, at most {entry.max_ns / 1e3:.4g} us"


def _quoted(named: Named) -> str | None:
    if named.kind == "onnx":
        return _network(beside(named.span, named.value))
    if named.kind not in ("python", "c", "cuda"):
        return None
    located = line_of(named)
    if located is None:
        return None
    file, number = located
    lines = file.read_text(errors="replace").splitlines()
    language = "python" if named.kind == "python" else "c"
    return f"```{language}\n{lines[number - 1].strip()}\n```\n{file.name}, line {number}"


def _network(file: Path) -> str | None:
    """Tensors and layers of an .onnx file."""
    try:
        interface = read_network(file, {}, None)
    except NetworkError as error:
        return error.message
    borders = [("in", b) for b in interface.inputs] + [("out", b) for b in interface.outputs]
    lines = [f"- `{way}` {b.name}: {b}" for way, b in borders]
    names = layers(file)
    shown = ", ".join(names[:MOST])
    if len(names) > MOST:
        shown += f" and {len(names) - MOST} more"
    return "\n".join([*lines, "", f"{len(names)} layers: {shown}"])
