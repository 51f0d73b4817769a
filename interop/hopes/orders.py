"""The execution policy of a HOPES project: its configuration and static orders, beside a mapping
(`back`).

In: a project in the form of the translator, the tasks of the text under their names in HOPES, with
their processors. Out: `NAME_configuration.xml` with the policy and, for `self-timed`, a file of
orders. A program of HOPES waits if a channel is full, and sizes of channels stay: so the orders are
those of one sequence for which all channels have room. Programs can follow their parts of it
without deadlock, because more room and more processors never delay a firing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ...analysis.dataflow.order import TooLong, iteration_order
from ...analysis.dataflow.repetition import repetition
from ...model.application import Application, Channel
from ...model.diagnostic import Diagnostic
from ...templates import environment
from ..names import listed
from ..xml_tree import Element, as_text
from .files import HopesCollector, read_xml
from .importer import Understood
from .text import Part
from .words import ORDERS, PACKAGE, POLICIES, SCHEMA

#: Diagnostic: there are no static orders for this project.
NO_ORDERS = "F735"


@dataclass(frozen=True, slots=True)
class HopesOrder:
    """The runs of a processor, which is number `number` of the element `pool`: full names of tasks,
    and how often."""

    pool: str
    number: int
    runs: tuple[tuple[str, int], ...]


def running(
    policy: str,
    found: Understood,
    apps: tuple[Application, ...],
    names: Mapping[str, Part],
    places: Mapping[str, tuple[str, int] | None],
    faults: list[Diagnostic],
) -> dict[Path, str]:
    """The files of the policy. `places` are element and number of each task of the text, None for
    other processors than CPUs."""
    project = found.project
    if not project.translated:
        message = (
            f"`{project.name}` is in the form of HOPES' tool, which has no file for a policy or for"
            " orders"
        )
        help_text = (
            "the tool adds them when it writes for its translator: name the `NAME_algorithm.xml`"
            " that it has made"
        )
        faults.append(_no(message, help_text))
        return {}
    files = {project.files / f"{project.name}_configuration.xml": _configuration(found, policy)}
    if policy != "self-timed":
        return files
    say = HopesCollector()
    root = read_xml(project.graph, say, "CIC_Algorithm")
    if root is None:
        raise say.errors()  # it was read before
    wrong = [*_beyond(found, apps), *_elsewhere(places)]
    file = _file(found, root)
    if wrong or file is None:
        if wrong:
            message = (
                "HOPES has static orders for a dataflow graph on CPUs alone, and"
                f" {' and '.join(wrong)}"
            )
            faults.append(_no(message, "`--policy static-assignment` does without orders"))
        if file is None:
            message = (
                f"there are several files of orders for `{project.name}` in `{ORDERS}`, and HOPES"
                " runs all of them"
            )
            faults.append(_no(message, "keep at most one of them"))
        return files
    (app,) = apps
    cpus = {task: place for task, place in places.items() if place is not None}
    try:
        orders = _orders(app, names, cpus, _room(app, root, found, names))
    except _Blocked as why:
        faults.append(_no(str(why), "make it larger in HOPES, or use `--policy static-assignment`"))
        return files
    jinja = environment(PACKAGE)
    jinja.filters["xml"] = quoteattr
    schedule = {"graph": file.name.partition(",")[0], "orders": orders}
    files[file] = jinja.get_template("schedule.xml.j2").render(schema=SCHEMA, schedule=schedule)
    return files


class _Blocked(Exception):
    """No sequence fits into the channels; the message names the channel."""


def _no(message: str, help_text: str) -> Diagnostic:
    return Diagnostic(NO_ORDERS, message, None, help=help_text)


# -- what cannot be --------------------------------------------------------------------------------
def _beyond(found: Understood, apps: tuple[Application, ...]) -> Iterator[str]:
    """Features of a project for which HOPES has no orders."""
    tasks = found.tasks.values()
    if found.graph.process_network:
        yield "this is a process network"
    if any(t.kind == "control" for t in tasks):
        yield "there is a control task"
    if any(t.kind == "network" for t in tasks):
        yield "there is a network"
    if any(t.loop is not None for t in tasks):
        yield "there is a loop"
    if any(t.modes for t in tasks):
        yield "there is a task with modes"
    if len(apps) != 1 and not found.graph.process_network:
        yield "there are parts that nothing joins"


def _elsewhere(places: Mapping[str, tuple[str, int] | None]) -> Iterator[str]:
    others = [task for task, place in places.items() if place is None]
    if others:
        verb = "is" if len(others) == 1 else "are"
        yield f"{listed(others, 4)} {verb} mapped elsewhere"


def _file(found: Understood, root: Element) -> Path | None:
    """The file of orders: the existing one for the whole graph, else a new one; None if there are
    several."""
    folder = found.project.files / ORDERS
    tasks = len([*root.within("tasks", "task")])
    there = sorted(folder.glob(f"SDF_{tasks},*schedule.xml"))
    if len(there) > 1:
        return None
    if there:
        return there[0]
    cpus = 0
    if found.board is not None:
        cpus = sum(p.count for p in found.board.pools if p.kind == "cpu")
    return folder / f"SDF_{tasks},Default,{cpus},0,schedule.xml"


# -- the policy ------------------------------------------------------------------------------------
def runs_as(found: Understood, policy: str) -> bool:
    """Does a project have the policy, with orders if it needs them?"""
    root = _read_configuration(found)
    policies = []
    if root is not None:
        policies = [n.attributes.get("runtimeExecutionPolicy") for n in root.all("codeGeneration")]
    ordered = policy != "self-timed" or any((found.project.files / ORDERS).glob("*schedule.xml"))
    return ordered and policies == [POLICIES[policy]]


def _read_configuration(found: Understood) -> Element | None:
    """The project's configuration; None if there is none."""
    path = found.project.files / f"{found.project.name}_configuration.xml"
    if not path.is_file():
        return None
    return read_xml(path, HopesCollector(), "CIC_Configuration")


def _configuration(found: Understood, policy: str) -> str:
    """The project's configuration with the policy changed, or a new one without an end of the
    run."""
    old = _read_configuration(found)
    made = {"policy": POLICIES[policy]}
    if old is None:
        return (
            environment(PACKAGE)
            .get_template("configuration.xml.j2")
            .render(schema=SCHEMA, project=made)
        )
    for node in old.all("codeGeneration"):
        node.attributes["runtimeExecutionPolicy"] = made["policy"]
    if not any(old.all("codeGeneration")):
        said = {"runtimeExecutionPolicy": made["policy"], "threadOrFunctioncall": "Function-call"}
        old.children.append(Element("codeGeneration", said, [], old.span))
    old.attributes["xmlns"] = SCHEMA
    return (
        "\n".join(['<?xml version="1.0" encoding="UTF-8" standalone="yes"?>', *as_text(old)]) + "\n"
    )


# -- orders ----------------------------------------------------------------------------------------
def _room(
    app: Application, root: Element, found: Understood, names: Mapping[str, Part]
) -> dict[str, int]:
    """The capacity of each channel of the text in tokens, by the project; arrows without channel
    have no limit."""
    stated = _stated_room(root)
    room = {}
    for c in app.channels:
        way, role = names[c.destination]
        port = found.texts.ports[way, role].get(c.destination_port, c.destination_port)
        type_ = app.task(c.destination).port(c.destination_port).type
        whole = stated.get(("_".join(way), port))
        if whole is not None and type_ is not None:
            room[c.name] = whole // type_.bytes
    return room


def _stated_room(root: Element) -> dict[tuple[str, str], int]:
    """The bytes of channels, by task and port of their readers."""
    stated = {}
    for channel in root.within("channels", "channel"):
        size, each = (channel.attributes.get(key, "") for key in ("size", "sampleSize"))
        if size.isdecimal() and each.isdecimal():
            for end in channel.all("dst"):
                reader = (end.attributes.get("task", ""), end.attributes.get("port", ""))
                stated[reader] = int(size) * int(each)
    return stated


def _orders(
    app: Application,
    names: Mapping[str, Part],
    places: Mapping[str, tuple[str, int]],
    room: Mapping[str, int],
) -> list[HopesOrder]:
    """The orders of all processors. Raises _Blocked."""
    vector = repetition(app).vector
    try:
        made = iteration_order(_bounded(app, room), vector)
    except TooLong as why:
        raise _Blocked(str(why)) from why
    if made.blocked:
        full = next(b.channel.name for b in made.blocked if b.channel.source_port.startswith(_ROOM))
        raise _Blocked(
            f"`{full}` has room for {room[full]} tokens, which is too little for any order"
        )
    runs: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for task, times in made.firings:
        order, name = runs.setdefault(places[task], []), "_".join(names[task][0])
        if order and order[-1][0] == name:
            order[-1] = (name, order[-1][1] + times)
        else:
            order.append((name, times))
    return [
        HopesOrder(pool, number, tuple(order)) for (pool, number), order in sorted(runs.items())
    ]


#: Prefix of ports for arrows that lead capacity back to a writer; no port of a text has a space.
_ROOM = "room "


def _bounded(app: Application, room: Mapping[str, int]) -> Application:
    """The app with an arrow back for each channel that has a size: its tokens are the free room.

    The app by itself does not block, so if this one does, some of these arrows are among the
    reasons.
    """
    tasks = {t.name: t for t in app.tasks}
    channels = list(app.channels)
    for c in app.channels:
        if c.name in room:
            name = f"{_ROOM}{c.name}"
            reader = tasks[c.destination]
            given = replace(reader.port(c.destination_port), name=name, direction="out", window=0)
            tasks[reader.name] = replace(reader, outputs=(*reader.outputs, given))
            writer = tasks[c.source]
            taken = replace(writer.port(c.source_port), name=name, direction="in", window=0)
            tasks[writer.name] = replace(writer, inputs=(*writer.inputs, taken))
            left = max(0, room[c.name] - c.delay)
            channels.append(Channel(c.name, c.destination, name, c.source, name, left, (), c.span))
    return replace(app, tasks=tuple(tasks.values()), channels=tuple(channels))
