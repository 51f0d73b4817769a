"""Networks without their application, for a program that calls init, execute and wrapup of each
(external.json).

The stages of a network run one after the other for each frame, in the thread that calls.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .bands import Bands, forget
from .code import Code, Network, session
from .failures import describe
from .tokens import Port, TaskError

VERSION = 1


def load(home: str) -> "List[External]":
    """The networks of a build directory, in the order of the file. Raises TaskError."""
    path = os.path.join(home, "external.json")
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
    except (OSError, ValueError) as error:
        raise TaskError(
            "%s cannot be read (%s): the library belongs beside it" % (path, error)
        ) from error
    if document.get("version") != VERSION:
        raise TaskError("%s is of another version of flowc" % path)
    return [External(home, network) for network in document["networks"]]


class External:
    """One network of external.json. Calls from several threads take turns."""

    def __init__(self, home: str, description: Dict[str, Any]) -> None:
        self.name = str(description["name"])
        self._home, self._stages = home, description["stages"]
        self._inputs = [
            (p["tensor"]["name"], _port(p["name"], p["tensor"])) for p in description["inputs"]
        ]
        self._outputs = [
            (p["tensor"]["name"], _port(p["name"], p["tensor"])) for p in description["outputs"]
        ]
        self._lock = threading.Lock()
        self._open: Optional[List[Tuple[str, Code, List[str], List[str]]]] = None

    @property
    def sizes(self) -> List[int]:
        """Bytes of each input, then of each output, in port order."""
        return [int(np.prod(p.shape)) * p.dtype.itemsize for _, p in self._inputs + self._outputs]

    @property
    def given(self) -> List[int]:
        """Bytes of each value that `init` gets: none."""
        return []

    def init(self, values: Sequence[Any] = ()) -> None:
        """Load every stage; nothing happens if that was done. Raises TaskError."""
        with self._lock:
            if self._open is None:
                self._open = [self._loaded(stage) for stage in self._stages]

    def _loaded(self, stage: Dict[str, Any]) -> Tuple[str, Code, List[str], List[str]]:
        kind: Any = Bands if stage["bands"] else Network
        code: Code = kind(
            stage["file"], stage["inputs"], stage["outputs"], threads=stage["threads"]
        )
        try:
            if not os.path.exists(os.path.join(self._home, stage["file"])):
                raise TaskError("%s is missing in %s" % (stage["file"], self._home))
            code.open(self._home, (), ())  # single firings: shapes are not asked for
        except Exception as error:
            raise TaskError(
                "task %s cannot start: %s" % (stage["name"], describe(error))
            ) from error
        return stage["name"], code, stage["inputs"], stage["outputs"]

    def execute(self, buffers: Sequence[Any]) -> None:
        """One frame: read the inputs and write the outputs, each a buffer of its size, or None.
        Raises TaskError.

        Inputs are not changed; outputs only if all of them could be made.
        """
        with self._lock:
            if self._open is None:
                raise TaskError("not initialized: call init first")
            ports = self._inputs + self._outputs
            for (_, port), buffer in zip(ports, buffers):
                if buffer is None:
                    raise TaskError("the pointer for port `%s` is NULL" % port.name)
            arrays = [
                np.frombuffer(buffer, port.dtype).reshape(port.shape)
                for (_, port), buffer in zip(ports, buffers)
            ]
            count = len(self._inputs)
            # A pointer into the middle of something may lie where no number of that type may.
            tensors = {
                name: np.require(a, requirements="A") for (name, _), a in zip(self._inputs, arrays)
            }
            for name, code, reads, makes in self._open:
                try:
                    tensors.update(zip(makes, code.fire([tensors[t] for t in reads], 0)))
                except Exception as error:
                    raise TaskError("task %s failed: %s" % (name, describe(error))) from error
            try:
                results = [port.accept(tensors[name], 0) for name, port in self._outputs]
            except TaskError as error:
                raise TaskError("task %s %s" % (self.name, error)) from error
            for target, result in zip(arrays[count:], results):
                target[...] = result

    def wrapup(self) -> None:
        """Release the memory of the network; init may be called again."""
        with self._lock:
            for _, code, _, _ in self._open or []:
                code.close()
            self._open = None
            forget()
            session.cache_clear()  # those of other networks stay as long as they are in use


def _port(name: str, tensor: Dict[str, Any]) -> Port:
    return Port(name, tensor["dtype"], tuple(tensor["shape"]))
