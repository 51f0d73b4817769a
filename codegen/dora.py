"""A program as a module of dora: a node for each of its parts, edges for its open ends.

In: a deployment and the program. Out: the same build with `module.yml`, which a dataflow of dora
takes as a node, and `dataflow.yml` if there are no inputs. Tokens between parts do not use dora
(see `runtime/transport.py`): the only edges between parts are those by which they find each other.
"""

from __future__ import annotations

from typing import Any

from ..model.types import DTYPES
from ..runtime.bridge import MOST, room
from ..runtime.dora import MEET, TAKEN
from .deploy import Deployed
from .emit import folder_of, readme
from .robots import Robot, RobotEnd, node_name, open_ends, own_ends, rendered, with_runtime
from .sources import Plan

#: The first dora with modules and lossless queues.
LEAST_DORA = "1.0"
#: Names with a meaning in dora.
_RESERVED = frozenset({"dora", "_mod"})


def _files(deployed: Deployed, program: Plan) -> Plan:
    whole = deployed.deployment
    ends = open_ends(whole, DORA.separator)
    name = node_name(whole.name, _RESERVED)
    incoming, outgoing = [e for e in ends if e.incoming], [e for e in ends if not e.incoming]
    plan = dict(program)
    nodes = []
    for part in deployed.parts.values() or (deployed,):
        machine = None if part.deployment.part is None else part.deployment.part.machine
        folder = "" if machine is None else f"{folder_of(machine)}/"
        own = own_ends(ends, part.deployment)
        plan |= with_runtime("dora", folder)
        words: dict[str, Any] = {"robot": "dora", "module": "dora", "ends": own, "name": None}
        plan[f"{folder}node.py"] = rendered("node.py", deployment=part.deployment, **words)
        requirements = program[f"{folder}requirements.txt"]
        assert isinstance(requirements, bytes)
        plan[f"{folder}requirements.txt"] = requirements + f"dora-rs>={LEAST_DORA}\n".encode()
        plan[f"{folder}README.md"] = readme(
            part, "dora", ("# a node that dora starts: see ../../README.md",)
        )
        nodes.append(_node(part, folder, own))
    own_words: dict[str, Any] = {
        "ends": ends,
        "inputs": incoming,
        "outputs": outgoing,
        "nodes": nodes,
        "taken": TAKEN,
    }
    start = ["# `module: PATH/module.yml` makes it a node of a dataflow"]
    if not incoming:
        start = [
            "dora run dataflow.yml             # `module: PATH/module.yml` makes it a node of"
            " another dataflow"
        ]
    plan["README.md"] = readme(deployed, "dora", start)
    plan["module.yml"] = rendered("module.yml", deployment=whole, name=name, **own_words)
    if not incoming:
        plan["dataflow.yml"] = rendered("dataflow.yml", deployment=whole, name=name)
    return dict(sorted(plan.items()))


def _node(part: Deployed, folder: str, ends: tuple[RobotEnd, ...]) -> dict[str, Any]:
    """A node of the module: its start command, and its edges."""
    inputs: list[dict[str, Any]] = []
    outputs = []
    for end in sorted(ends, key=lambda end: not end.incoming):
        capacity = room(end.dtype, end.shape) if end.incoming else MOST
        name = end.name if end.incoming else end.name + TAKEN
        inputs.append({"name": name, "source": f"_mod/{name}", "room": capacity})
    for end in ends:
        outputs.append(end.name + TAKEN if end.incoming else end.name)
    if part.deployment.part is None:
        return {"id": "program", "path": "node.py", "inputs": inputs, "outputs": outputs}
    for peer in part.deployment.part.peers:
        inputs.append({"name": f"{MEET}.{peer}", "source": f"{_id(peer)}/{MEET}", "room": 1})
    machine = part.deployment.part.machine
    return {
        "id": _id(machine),
        "path": f"{folder}node.py",
        "inputs": inputs,
        "outputs": [*outputs, MEET],
    }


def _id(machine: str) -> str:
    return f"{machine}_" if machine in _RESERVED else machine


#: `build --target dora`.
DORA = Robot(
    name="dora",
    messages="Arrow arrays",
    dtypes=frozenset(DTYPES) - {"complex64", "complex128"},
    files=_files,
    root=lambda deployment: "",
    separator=".",
    made_there=("out",),
    most_bytes=67_000_000,
)
