"""A sequential execution of the same graph, straight from deployment.json: the referee of the
harness.

It shares no channel, worker or order with the program: tokens lie in plain lists, and any task that
can fire does. Sources are not run again (a camera would show something else): what they produced is
played back. Sinks are not run either: what matters is what reaches them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
from contextlib import suppress
from importlib import import_module
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Type

import numpy as np

from .code import C, Code, Network, Python, value_of
from .ends import Inlet, Outlet
from .noise import Noise
from .tokens import Port, TaskError, apart, initial_tokens, split_outputs

Key = Tuple[str, str]
#: Stands for a token that a firing did not write, since it may write fewer.
NULL = object()
#: The same in a list that was not written, since its firing did not take place.
ABSENT = object()


def load_deployment(home: str) -> Dict[str, Any]:
    """The document deployment.json."""
    with open(os.path.join(home, "deployment.json")) as stream:
        return json.load(stream)  # type: ignore[no-any-return]


def every(deployment: Dict[str, Any], what: str) -> List[Dict[str, Any]]:
    """Its apps or processors, those of all states."""
    states = deployment["scenario"]["states"] if "scenario" in deployment else [deployment]
    return [found for state in states for found in state[what]]


def _unheard() -> None:
    """Stands for an event: the reference follows what the program has done."""


class _Border(Code):
    """What another app gives or gets: a source or a sink, which the reference does not run."""

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        raise AssertionError("sources are played back")


def make_code(document: Dict[str, Any], home: str, libraries: str = "") -> Any:
    """The code of one task of deployment.json; C comes from copies in the folder `libraries`, if
    that is given."""
    kind = document["kind"]
    if kind == "cuda":
        return make_code(_twin(document), home, libraries)
    if kind == "python":
        return _in_python(document, home)
    if kind == "c":
        return _in_c(document, home, libraries)
    if kind in ("moving", "moving_engine"):
        return _moving_stage(document)
    if kind == "segments":
        segments = [(s["file"], s["reads"], s["makes"]) for s in document["segments"]]
        return _made("Segments", segments, document["outputs"])
    if kind in ("repeat", "last"):
        return _made(kind.capitalize(), document["count"], document["block"])
    if kind == "transfer":
        return _made("Forward")
    if kind in _ENDS:
        return _ENDS[kind]()
    # Of a network in bands the file is the whole: what it makes is what bands have to make.
    options = {name: document[name] for name in ("library", "half") if name in document}
    return Network(document["file"], document["inputs"], document["outputs"], 1, **options)


#: What came in is played back, and what goes out is all that matters.
_ENDS: Dict[str, Type[Code]] = {"in": Inlet, "out": Outlet, "link": _Border}


def _twin(document: Dict[str, Any]) -> Any:
    """What stands in for code on a GPU. Raises TaskError where nothing does."""
    if document["twin"] is None:
        raise TaskError(
            "it has code for a GPU only, and no `reference` in its .flow to compare with"
        )
    return document["twin"]


def _in_python(document: Dict[str, Any], home: str) -> Python:
    parameters = {k: value_of(v, home) for k, v in document["parameters"]}
    parameters.update((event, _unheard) for event in document.get("events", ()))
    return Python(document["file"], document["name"], **parameters)


def _in_c(document: Dict[str, Any], home: str, libraries: str) -> C:
    values = [(n, t, value_of(v, home)) for n, t, v in document["parameters"]]
    state = [(n, d, tuple(s)) for n, d, s in document["state"]]
    return C(_copied(document["library"], home, libraries), document["name"], values, state)


def _moving_stage(document: Dict[str, Any]) -> Any:
    """A stage of a network whose cut moves while it runs."""
    variants = [_made("Variant", v["layers"], v["parts"], v["work"]) for v in document["variants"]]
    cut = _made("Cut", document["network"], variants, document["start"], document["others"])
    return _made("Stage", cut, document["stage"], document["tensors"])


def _made(name: str, *given: Any) -> Any:
    """What is called so in this package: a build has what its main.py takes from there, and no
    more."""
    return getattr(import_module(__package__), name)(*given)


def _copied(library: str, home: str, folder: str) -> str:
    """A library of its own: the one that the program has loaded keeps its static variables as they
    are."""
    source, copy = os.path.join(home, library), os.path.join(folder, library)
    if not folder or not os.path.exists(source):
        return library
    if not os.path.exists(copy):
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copyfile(source, copy)
    try:
        ctypes.CDLL(copy)
    except OSError:  # nothing can be executed there
        return library
    return copy


def make_ports(documents: Sequence[Dict[str, Any]]) -> List[Port]:
    """The ports of one side of a task."""
    return [_made_port(document) for document in documents]


def _made_port(d: Dict[str, Any]) -> Port:
    kind, rates = (d["name"], d["dtype"], tuple(d["shape"])), tuple(d["rates"])
    if d["bounded"] and d["count"]:
        return _made("SizedUpTo", *kind, tuple(d["bounded"]), rates[0], d["count"])  # type: ignore[no-any-return]
    if d["bounded"]:
        return _made("Sized", *kind, tuple(d["bounded"]), rates, d["stacked"])  # type: ignore[no-any-return]
    if d["count"]:
        return _made("UpTo", *kind, rates[0], d["count"])  # type: ignore[no-any-return]
    return Port(*kind, rates, d["stacked"], d["window"])


def merged(versions: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """An app with all tasks and channels that it has in some state."""
    first = versions[0]
    tasks = {t["name"]: t for a in versions for t in a["tasks"]}
    channels = {c["name"]: c for a in versions for c in a["channels"]}
    return {**first, "tasks": list(tasks.values()), "channels": list(channels.values())}


class Reference:
    """One app, executed sequentially. `expected[task]` lists the inputs of each firing, None where
    it was left out."""

    def __init__(self, app: Dict[str, Any], home: str) -> None:
        self.expected: Dict[str, List[Optional[List[np.ndarray]]]] = {}
        #: Of networks in fewer bits, how near the program's results are to those here: by task.
        self.noise = {
            t["name"]: Noise() for t in app["tasks"] if t["code"].get("noise_db") is not None
        }
        #: Firings that have failed in the program, whose frames it has skipped.
        self.failed: Dict[str, Set[int]] = {}
        self._home = home
        self._tasks: Dict[str, Tuple[List[Port], List[Port], Code]] = {}
        self._tokens: Dict[Key, List[Optional[np.ndarray]]] = {}
        self._skipped: Dict[str, Set[int]] = {}
        #: Tasks that begin anew after a failure.
        self._anew = {t["name"] for t in app["tasks"] if t["on_error"] == "restart"}
        self._readers: Dict[Key, List[Key]] = {}
        #: Where the channels lead in whose delays and windows something lies between two frames.
        self._kept: List[Key] = []
        self._seen: Dict[Key, List[Optional[np.ndarray]]] = {}
        self._libraries = tempfile.TemporaryDirectory(prefix="flowc-reference-")
        for task in app["tasks"]:
            ports = make_ports(task["inputs"]), make_ports(task["outputs"])
            code = make_code(task["code"], home, self._libraries.name)
            self._tasks[task["name"]] = (*ports, code)
            self.expected[task["name"]] = []
            for port in (p for p in ports[0] if p.window):
                zero = np.zeros(port.shape, port.dtype)
                self._seen[task["name"], port.name] = [zero] * port.window
        for c in app["channels"]:
            destination = (c["destination"], c["destination_port"])
            port = next(p for p in self._tasks[c["source"]][1] if p.name == c["source_port"])
            first = initial_tokens(port, c["delay"], c["values"])
            self._tokens[destination] = [] if first is None else list(first)

    def run(
        self,
        stays: Sequence[Tuple[Dict[str, Any], int]],
        produced: Dict[str, Dict[int, List[np.ndarray]]],
        skipped: Dict[str, Set[int]],
    ) -> None:
        """Execute the app as it is in each stay, for so many frames; `produced` has the outputs of
        sources and of networks in fewer bits by firing.

        A network in fewer bits is compared where it is, and the tokens of the program go on from
        there: what follows is compared to the last digit.

        `skipped` holds what the program has not done, because it failed or because something was
        missing: who has failed there is told from that, and fails here as well.
        """
        self._skipped = skipped
        for inputs, outputs, code in self._tasks.values():
            if inputs and outputs:
                code.open(self._home, inputs, outputs)
        done = dict.fromkeys(self._tasks, 0)
        for app, frames in stays:
            self._join(app)
            last = {t["name"]: done[t["name"]] + t["firings"] * frames for t in app["tasks"]}
            progress = True
            while progress:
                progress = False
                for name, most in last.items():
                    while done[name] < most and self._fire(name, done[name], produced):
                        done[name] += 1
                        progress = True
        for _, _, code in self._tasks.values():
            code.close()

    def _join(self, app: Dict[str, Any]) -> None:
        """The channels of a state; what lay in delays and windows of the one before goes on to the
        same ones there."""
        self._readers = {}
        kept: List[Key] = []
        for c in app["channels"]:
            destination = (c["destination"], c["destination_port"])
            self._readers.setdefault((c["source"], c["source_port"]), []).append(destination)
            if c["delay"] or destination in self._seen:
                kept.append(destination)
        if self._kept:
            lay = [(self._tokens[k], self._seen.get(k)) for k in self._kept]
            for key, (tokens, seen) in zip(kept, lay):
                self._tokens[key] = tokens
                if seen is not None:
                    self._seen[key] = seen
        self._kept = kept

    def _fire(
        self, name: str, firing: int, produced: Dict[str, Dict[int, List[np.ndarray]]]
    ) -> bool:
        """Does a firing have its tokens? Then it takes place."""
        inputs, outputs, _ = self._tasks[name]
        if any(len(self._tokens[name, p.name]) < p.rate(firing) for p in inputs):
            return False
        taken = [self._taken(name, port, firing) for port in inputs]
        missing = any(array is None or _stands_in(array) for array in taken)
        self.expected[name].append(None if missing else [apart(array) for array in taken])
        failed = not missing and firing in self._skipped.get(name, ())
        if failed:
            self.failed.setdefault(name, set()).add(firing)
        if not outputs:
            return True
        if failed and inputs:
            self._fail(name, firing, taken)
        if missing or failed:
            self._leave_out(name, firing, next(filter(_stands_in, taken), None))
        else:
            self._write(name, firing, self._results(name, firing, taken, produced))
        return True

    def _write(self, name: str, firing: int, results: Any) -> None:
        """The results go to the readers."""
        for port, value in zip(self._tasks[name][1], results):
            rate = port.rate(firing)
            for reader in self._readers.get((name, port.name), ()):
                block = port.accept(value, firing)
                tokens: List[Any]
                tokens = [np.array(one) for one in (block if port.stacked else [block])]
                if port.count:
                    tokens += [NULL] * (rate - len(tokens))
                self._tokens[reader].extend(tokens)

    def _leave_out(self, name: str, firing: int, stand_in: Any) -> None:
        """Readers get this instead of results, None where a frame is skipped."""
        for port in self._tasks[name][1]:
            absent = stand_in is not None and port.count
            tokens: List[Any] = [ABSENT if absent else stand_in] * port.rate(firing)
            for reader in self._readers.get((name, port.name), ()):
                self._tokens[reader] += tokens

    def _taken(self, name: str, port: Port, firing: int) -> Optional[Any]:
        """What a firing takes through an input; None where a token is missing, NULL where it does
        not take place, ABSENT where a list around it was not written."""
        tokens = self._tokens_of(name, port, firing)
        if any(token is None for token in tokens):
            return None
        if tokens and all(token is ABSENT for token in tokens):
            return NULL if port.count else ABSENT
        there = [token for token in tokens if not _stands_in(token)]
        if len(there) < len(tokens) and not port.count:
            return NULL
        return _block(port, firing, there)

    def _tokens_of(self, name: str, port: Port, firing: int) -> List[Any]:
        """The tokens that a firing takes through an input, with those that a window keeps."""
        waiting = self._tokens[name, port.name]
        taken, waiting[:] = waiting[: port.rate(firing)], waiting[port.rate(firing) :]
        if port.window:
            seen = self._seen[name, port.name] + taken
            taken = self._seen[name, port.name] = seen[-port.window :]
        return taken

    def _results(
        self,
        name: str,
        firing: int,
        arrays: List[Any],
        produced: Dict[str, Dict[int, List[np.ndarray]]],
    ) -> Any:
        """What the firing returns."""
        inputs, outputs, code = self._tasks[name]
        if not inputs:
            return produced[name][firing]
        _protect(arrays)
        made = split_outputs(code.fire(arrays, firing), outputs)
        mine = produced.get(name, {}).get(firing) if name in self.noise else None
        if mine is None:
            return made
        self.noise[name].add(made, mine)
        return mine

    def _fail(self, name: str, firing: int, arrays: List[Any]) -> None:
        """Try a firing that has failed in the program: only what it does to the state is wanted."""
        inputs, outputs, code = self._tasks[name]
        _protect(arrays)
        with suppress(Exception):
            code.fire(arrays, firing)
        if name in self._anew:
            code.close()
            code.open(self._home, inputs, outputs)


def _block(port: Port, firing: int, tokens: Sequence[Any]) -> Any:
    """Tokens as a firing reads them through an input."""
    if port.bounded:
        return [np.array(token) for token in tokens] if port.stacked else np.array(tokens[0])
    if port.count:
        return np.asarray(tokens, port.dtype).reshape((len(tokens),) + port.shape)
    if port.stacked:
        return np.asarray(tokens, port.dtype).reshape(port.block_shape(firing))
    return np.array(tokens[0], port.dtype)


def _stands_in(array: Any) -> bool:
    """Does it stand for a token that was not written?"""
    return array is NULL or array is ABSENT


def _protect(arrays: List[Any]) -> None:
    """Let a task not change what it is given."""
    for given in arrays:
        for array in given if isinstance(given, list) else [given]:
            array.setflags(write=False)
