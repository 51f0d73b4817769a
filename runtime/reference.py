"""A sequential execution of the same graph, straight from deployment.json: the referee of the harness.

It shares no channel, worker or order with the program: tokens lie in plain lists, and any task that can fire does.
Sources are not run again (a camera would show something else): what they produced is played back. Sinks are not run
either: what matters is what reaches them.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .adapt import Back, Cut, Front, Variant
from .code import C, Code, Network, Python, value_of
from .ends import Inlet, Outlet
from .tokens import Port, TaskError, initial_tokens, split_outputs

Key = Tuple[str, str]


def load_deployment(home: str) -> Dict[str, Any]:
    """The document deployment.json."""
    with open(os.path.join(home, "deployment.json")) as stream:
        return json.load(stream)  # type: ignore[no-any-return]


def make_code(document: Dict[str, Any], home: str) -> Code:
    """The code of one task of deployment.json."""
    kind = document["kind"]
    if kind == "cuda":
        if document["twin"] is None:
            raise TaskError("it has code for a GPU only, and no `reference` in its .flow to compare with")
        return make_code(document["twin"], home)
    if kind in ("in", "out"):  # what came in is played back, and what goes out is all that matters
        return Inlet() if kind == "in" else Outlet()
    if kind == "python":
        parameters = {k: value_of(v, home) for k, v in document["parameters"]}
        return Python(document["file"], document["name"], **parameters)
    if kind == "c":
        values = [(n, t, value_of(v, home)) for n, t, v in document["parameters"]]
        state = [(n, d, tuple(s)) for n, d, s in document["state"]]
        return C(document["library"], document["name"], values, state)
    if kind == "moving":
        variants = [Variant(v["layer"], v["front"], v["back"], v["work"]) for v in document["variants"]]
        cut = Cut(document["network"], variants, document["start"])
        return Front(cut, document["tensors"]) if document["side"] == "front" else Back(cut, document["tensors"])
    return Network(document["file"], document["inputs"], document["outputs"], 1)


def make_ports(documents: Sequence[Dict[str, Any]]) -> List[Port]:
    """The ports of one side of a task."""
    return [Port(d["name"], d["dtype"], tuple(d["shape"]), tuple(d["rates"]), d["stacked"]) for d in documents]


class Reference:
    """One app, executed sequentially. `expected[task]` lists the inputs of each firing, in order."""

    def __init__(self, app: Dict[str, Any], home: str) -> None:
        self.expected: Dict[str, List[List[np.ndarray]]] = {}
        self._home = home
        self._tasks: Dict[str, Tuple[List[Port], List[Port], Code]] = {}
        self._tokens: Dict[Key, List[np.ndarray]] = {}
        self._readers: Dict[Key, List[Key]] = {}
        for task in app["tasks"]:
            ports = make_ports(task["inputs"]), make_ports(task["outputs"])
            self._tasks[task["name"]] = (*ports, make_code(task["code"], home))
            self.expected[task["name"]] = []
        for c in app["channels"]:
            source, destination = (c["source"], c["source_port"]), (c["destination"], c["destination_port"])
            port = next(p for p in self._tasks[c["source"]][1] if p.name == c["source_port"])
            first = initial_tokens(port, c["delay"], c["values"])
            self._tokens[destination] = [] if first is None else list(first)
            self._readers.setdefault(source, []).append(destination)

    def run(self, firings: Dict[str, int], produced: Dict[str, List[List[np.ndarray]]]) -> None:
        """Fire every task `firings[task]` times; `produced` holds the outputs of sources, firing by firing."""
        for inputs, outputs, code in self._tasks.values():
            if inputs and outputs:
                code.open(self._home, inputs, outputs)
        done = dict.fromkeys(self._tasks, 0)
        progress = True
        while progress:
            progress = False
            for name in self._tasks:
                while done[name] < firings[name] and self._fire(name, done[name], produced):
                    done[name] += 1
                    progress = True
        for _, _, code in self._tasks.values():
            code.close()

    def _fire(self, name: str, firing: int, produced: Dict[str, List[List[np.ndarray]]]) -> bool:
        inputs, outputs, code = self._tasks[name]
        if any(len(self._tokens[name, p.name]) < p.rate(firing) for p in inputs):
            return False
        arrays = []
        for port in inputs:
            waiting = self._tokens[name, port.name]
            taken, waiting[:] = waiting[: port.rate(firing)], waiting[port.rate(firing) :]
            # numpy would look into objects for more dimensions
            block = np.stack(taken) if port.dtype == object else np.asarray(taken, port.dtype)
            arrays.append(block.reshape(port.block_shape(firing)))
        self.expected[name].append([a.copy() for a in arrays])
        if not outputs:
            return True
        if not inputs:
            results: Any = produced[name][firing]
        else:
            for array in arrays:
                array.setflags(write=False)
            results = split_outputs(code.fire(arrays, firing), outputs)
        for port, value in zip(outputs, results):
            block = port.accept(value, firing)
            for reader in self._readers.get((name, port.name), ()):
                self._tokens[reader].extend(np.array(block) if port.stacked else [np.array(block)])
        return True
