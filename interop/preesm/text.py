"""A design as a text of the language, in the layout of `flowc fmt`.

In: a `PreesmDesign`, and which tasks have code. Out: the text, and the names that declarations got,
for the C code and pins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...dsl.format import format_text
from ..names import capitalised, identifiers, shown
from .code import PreesmCode
from .design import PreesmDesign, PreesmGraph, PreesmTask

#: Widest declaration on one line.
WIDEST = 110


def declarations(design: PreesmDesign) -> tuple[tuple[PreesmTask, ...], tuple[PreesmGraph, ...]]:
    """All different ones, those inside of others first; the top graph is not among them."""
    tasks: dict[PreesmTask, None] = {}
    graphs: dict[PreesmGraph, None] = {}

    def visit(graph: PreesmGraph) -> None:
        for instance in graph.instances:
            found = instance.declaration
            if isinstance(found, PreesmTask):
                tasks.setdefault(found)
            elif found not in graphs:
                visit(found)
                graphs.setdefault(found)

    visit(design.top)
    return tuple(tasks), tuple(graphs)


@dataclass(frozen=True, slots=True)
class Names:
    """Names in the text."""

    app: str
    tasks: Mapping[PreesmTask, str]
    graphs: Mapping[PreesmGraph, str]


def names_of(design: PreesmDesign, title: str) -> Names:
    """Constants keep their names; the app has that of the graph."""
    tasks, graphs = declarations(design)
    constants = [name for name, _, _ in design.constants]
    wanted = [
        capitalised(title, "app"),
        *(t.wanted for t in tasks),
        *(capitalised(g.wanted, "graph") for g in graphs),
    ]
    app, *made = identifiers([*constants, *wanted], "task")[len(constants) :]
    return Names(
        app,
        dict(zip(tasks, made, strict=False)),
        dict(zip(graphs, made[len(tasks) :], strict=True)),
    )


def text_of(
    design: PreesmDesign, names: Names, codes: Mapping[PreesmTask, PreesmCode], about: Iterable[str]
) -> str:
    """The text of the application."""
    lines = [*(f"// {line}" for line in about), ""]
    lines += list(_constants(design))
    for task, name in names.tasks.items():
        lines += _task(task, name, codes.get(task))
    for graph, name in names.graphs.items():
        lines += [
            "",
            f"/// {shown(graph.file)}.",
            *_graph(f"graph {name}{_formals(graph.formals)}", graph, names),
        ]
    top = design.top
    lines += ["", f"/// {shown(top.file)}."]
    period = []
    if design.period is not None:
        period.append(f"    period {design.period} ns")
    lines += _graph(f"app {names.app}", top, names, period)
    return format_text("", "\n".join(lines) + "\n")


def _constants(design: PreesmDesign) -> Iterator[str]:
    for name, text, said in design.constants:
        comment = f"  // {shown(said)[1:-1]}"
        if "".join(said.split()) == "".join(text.split()) or said.strip() == f"{text}.0":
            comment = ""
        yield f"const {name} = {text}{comment}"
    if design.constants:
        yield ""


def _formals(formals: Iterable[tuple[str, str, str]]) -> str:
    inside = ", ".join(f"{name}: {kind}" for _, name, kind in formals)
    if inside:
        return f"({inside})"
    return ""


def _task(task: PreesmTask, name: str, code: PreesmCode | None) -> list[str]:
    items = []
    for p in task.ports:
        item = f"{p.direction} {p.name}: {p.token.text}"
        if p.rate != "1":
            item += f" rate {p.rate}"
        items.append(item)
    if task.stateless:
        items.append("stateless")
    if code is not None:
        items.append(f"c {quoted(f'{code.file}:{code.symbol}')}")
    head = f"task {name}{_formals(task.formals)}"
    doc = _origin(task)
    if task.loop is not None:
        doc = f"/// {shown(task.loop.name)} in {shown(task.refinement)}."
    line = f"{head} {{ }}"
    if items:
        line = f"{head} {{ {'   '.join(items)} }}"
    if len(line) > WIDEST:
        return [doc, f"{head} {{", *(f"    {item}" for item in items), "}"]
    return [doc, line]


def quoted(text: str) -> str:
    """A string of the language."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _origin(task: PreesmTask) -> str:
    what = {
        "actor": "Without code in PREESM.",
        "broadcast": "Fills its outputs with copies of its input, from the first token on.",
        "fork": "Splits its input among its outputs, in order.",
        "join": "Concatenates its inputs.",
        "roundbuffer": "Forwards the last tokens.",
    }
    return f"/// {what[task.kind]}"


def _graph(head: str, graph: PreesmGraph, names: Names, items: Iterable[str] = ()) -> list[str]:
    lines = [*_wrapped(f"{head} {{"), *items]
    lines += [f"    {way} {name}: {kind}" for way, name, kind in graph.ports]
    for instance in graph.instances:
        found = instance.declaration
        if isinstance(found, PreesmTask):
            name = names.tasks[found]
        else:
            name = names.graphs[found]
        line = f"    {instance.name}: {name}"
        arguments = ", ".join(f"{n} = {text}" for n, text in instance.arguments)
        if arguments:
            line += f"({arguments})"
        lines += _wrapped(line)
    if graph.arrows:
        lines += ["", *(f"    {arrow}" for arrow in graph.arrows)]
    return [*lines, "}"]


def _wrapped(line: str) -> list[str]:
    """A line with a list in brackets that is too long gets a line for each of its parts."""
    if len(line) <= WIDEST or "(" not in line:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    head, _, rest = line.partition("(")
    inside, _, tail = rest.rpartition(")")
    *parts, last = (f"{indent}        {part.strip()}" for part in inside.split(","))
    return [f"{head}(", *(f"{part}," for part in parts), last, f"{indent}){tail}"]
