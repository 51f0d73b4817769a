"""Tasks in Python and networks of a Functional Mock-up Unit, for its C code, which calls init,
execute and wrapup.

In: the resources of a unit, whose deployment.json describes one app. Out: for each instance of the
unit and each task that is not in C an object with the state of its own. Order and channels are the
C code's.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from .code import Code
from .failures import describe
from .reference import load_deployment, make_code, make_ports
from .tokens import TaskError, split_outputs

#: Bytes of the value of a parameter; texts end with a zero.
_SIZES = {bool: 1, int: 8, float: 8, str: -1}
_DTYPES = {bool: np.bool_, int: np.int64, float: np.float64}


def load(home: str) -> Tasks:
    """The tasks of the unit whose resources lie in `home`. Raises TaskError."""
    try:
        (app,) = load_deployment(home)["apps"]
    except (OSError, ValueError, KeyError) as error:
        raise TaskError("the unit lacks its resources: %s" % error) from error
    return Tasks(home, [t for t in app["tasks"] if t["code"]["kind"] not in ("c", "in", "out")])


class Tasks:
    """By number: instance of the unit x tasks + task, in the order of the file. They are made when
    first asked for."""

    def __init__(self, home: str, documents: List[Dict[str, Any]]) -> None:
        self._home, self._documents = home, documents
        self._open: Dict[int, Called] = {}

    def __getitem__(self, number: int) -> Called:
        found = self._open.get(number)
        if found is None:
            document = self._documents[number % len(self._documents)]
            found = Called(self._home, document, lambda: self._open.pop(number, None))
            self._open[number] = found
        return found


class Called:
    """One task of one instance of the unit, which calls it from one thread at a time."""

    def __init__(self, home: str, document: Dict[str, Any], forget: Callable[[], Any]) -> None:
        self._home, self._document, self._forget = home, document, forget
        self._inputs, self._outputs = (
            make_ports(document["inputs"]),
            make_ports(document["outputs"]),
        )
        self._parameters = [
            (name, type(value))
            for name, value in document["code"].get("parameters", ())
            if type(value) in _SIZES
        ]
        self._code: Optional[Code] = None
        self._firing = 0

    @property
    def given(self) -> List[int]:
        """Bytes of each parameter that `init` gets; -1: a text that ends with a zero."""
        return [_SIZES[kind] for _, kind in self._parameters]

    @property
    def sizes(self) -> List[int]:
        """Bytes of each input, then of each output, of the next firing."""
        shapes = [(p, p.block_shape(self._firing)) for p in self._inputs + self._outputs]
        return [int(np.prod(shape, dtype=np.int64)) * p.dtype.itemsize for p, shape in shapes]

    def init(self, values: Sequence[Any]) -> None:
        """Begin, with these values of the parameters. Raises TaskError."""
        code = make_code(self._document["code"], self._home)
        for (name, kind), value in zip(self._parameters, values):
            given = value.decode() if kind is str else np.frombuffer(value, _DTYPES[kind])[0].item()
            code.give(name, given)
        try:
            code.open(self._home, self._inputs, self._outputs)
        except Exception as error:
            raise TaskError(describe(error)) from error
        self._code, self._firing = code, 0

    def execute(self, buffers: Sequence[Any]) -> None:
        """One firing: read the inputs and write the outputs, each a buffer of its size. Raises
        TaskError.

        Inputs are copied: the memory is the caller's, and a task may keep what it has seen.
        """
        if self._code is None:
            raise TaskError("it has not begun")
        firing = self._firing
        arrays = [
            _array(b, p.dtype).reshape(p.block_shape(firing))
            for p, b in zip(self._inputs + self._outputs, buffers)
        ]
        count = len(self._inputs)
        inputs = [a.copy() for a in arrays[:count]]
        for array in inputs:
            array.setflags(write=False)
        try:
            returned = self._code.fire(inputs, firing)
            values = split_outputs(returned, self._outputs) if self._outputs else ()
            results = [p.accept(v, firing) for p, v in zip(self._outputs, values)]
        except StopIteration as error:
            raise TaskError("its stream has ended, and a step needs more of it") from error
        except Exception as error:
            raise TaskError(describe(error)) from error
        for target, result in zip(arrays[count:], results):
            target[...] = result
        self._firing += 1

    def wrapup(self) -> None:
        """End it. Raises TaskError."""
        code, self._code = self._code, None
        self._forget()
        try:
            if code is not None:
                code.close()
        except Exception as error:
            raise TaskError(describe(error)) from error


def _array(buffer: Any, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(buffer, dtype) if len(buffer) else np.zeros(0, dtype)
