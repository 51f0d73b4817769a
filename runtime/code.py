"""The three kinds of code that a task may have: Python, C, and an ONNX network."""

from __future__ import annotations

import abc
import ctypes
import os
import sys
from functools import lru_cache
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .failures import ENDS
from .memory import Outputs, Rehearsal, crowded, share
from .modules import load
from .session import opened
from .tokens import Port, TaskError


class Shut:
    """Code that is to be opened again: tries that have failed in a row, the time of the next one
    in ns of perf_counter_ns, and why the last one failed."""

    def __init__(self) -> None:
        self.tries = self.due = 0
        self.why = ""


class Code(abc.ABC):
    """What a task does when it fires. `open` is called once before the first firing, `close` once
    at the end."""

    batch = 1
    #: Where its firings run, if they are only put into a queue there (`device.Device`); None: in
    #: the worker's thread.
    device: Any = None
    #: The same for a CPU, where a device is not there.
    twin: Optional[Code] = None
    #: The code around which this one is: its parameters are those of that one.
    inner: Optional[Code] = None
    #: Of code that only passes tokens on: how often each, or how many of the last ones; None: it is
    #: no such code.
    passes_on: Optional[Tuple[int, Optional[int]]] = None
    #: Does it only hand on what other tasks have written? Tokens are recorded where they are made.
    hands_on = False
    #: The mailbox whose tokens it finds (`link.Link`); None: it reads none.
    finds_in: Any = None
    #: Are the parts of its firings noted, for a trace?
    traced = False
    #: Do equal inputs give equal outputs on every machine, to the last digit?
    exact = True
    #: Does it walk through large weights at every firing?
    has_weights = False
    #: Can it compute fewer firings than its batch?
    computes_fewer = True
    #: Tokens that it has written and dropped, where it drops any.
    place: Any = None
    #: Set while it is closed after an error, and could not be opened again yet.
    shut: Optional[Shut] = None
    #: Bytes for what lies between its layers, which it shares with other code of its worker.
    arena_bytes = 0
    #: May it be closed while a firing that waits has not returned? Not where that would free what
    #: the firing uses.
    closes_inside = True

    def alternatives(self) -> List[Tuple[str, "Code"]]:
        """Codes that are opened and closed in its place, by the names of tasks; empty: it is one
        itself."""
        return []

    @property
    def innermost(self) -> Code:
        """The code inside of all that is around it."""
        code: Code = self
        while code.inner is not None:
            code = code.inner
        return code

    @property
    def layout(self) -> str:
        """How a network lies in memory, in words, where it may do so in several ways; else
        empty."""
        return ""

    @property
    def engine(self) -> str:
        """After `open`: the inference engine, its version and precision, where a pin named it."""
        return ""

    @property
    def shares(self) -> Dict[str, Any]:
        """What each of its alternatives has done, by the names of tasks."""
        return {}

    def meet(self, task: Any, run: Any) -> None:  # noqa: B027 - most code need not know
        """Before `open`, and before tasks know their readers: the task whose code this is."""

    def wired(self, task: Any, program: Any) -> None:  # noqa: B027
        """Before `open`: tasks know their channels now."""

    def requests(self, outputs: Sequence[Port]) -> int:
        """How many requests it takes in a batch at most; 0: it takes none."""
        return 0

    def read_on_host(self, output: int) -> None:  # noqa: B027
        """A task on a CPU reads what this code on a device makes; before `open`."""

    def fired_by(self, workers: int) -> None:  # noqa: B027
        """So many workers fire it, in turns."""

    def fired_per_iteration(self, firings: int) -> None:  # noqa: B027
        """It is fired so often in an iteration."""

    def starter(self, app: str, task: str) -> Optional[Callable[[], None]]:
        """What begins its start before anything is opened, if that takes long and need not be
        waited for."""
        return None

    def named(self, firing: int) -> Optional[Tuple[str, int]]:
        """Of alternatives: what the task is called that does a firing, and the firing's number
        under this name."""
        return None

    def kill(self) -> bool:
        """End a firing that runs in another process, which then counts as never begun. Was there
        any?"""
        return False

    @abc.abstractmethod
    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Load everything that a firing needs; paths are below `home`."""

    @abc.abstractmethod
    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        """One firing: what the task returns."""

    def arrived(self) -> Optional[int]:
        """Of a source, after a firing: when its data came, in ns of time.perf_counter_ns; None:
        just now."""
        return None

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        """After `open`: a faster function of the inputs for the firings of that phase; None: there
        is none."""
        return None

    def rehearsals(self) -> List[Rehearsal]:
        """After `open`: what runs once before the program starts, so that its memory is known and
        taken."""
        return []

    def close(self) -> None:  # noqa: B027 - most code has nothing to release
        """Release what `open` took."""


class Python(Code):
    """A function, or a class that is made once and called at every firing."""

    def __init__(self, file: str, name: str, /, **parameters: Any) -> None:
        self.file, self.name, self.parameters = file, name, parameters
        self._fire: Callable[..., Any] = _not_open
        self._object: Any = None
        self._rest: Dict[str, Any] = {}

    def give(self, parameter: str, value: Any) -> None:
        """Another value of a parameter, before `open`."""
        self.parameters[parameter] = value

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        target = getattr(load(os.path.join(home, self.file)), self.name)
        if isinstance(target, type):
            self._object = target(**self.parameters)
            self._fire = self._object
        else:
            self._fire, self._rest = target, self.parameters

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        return self._fire(*inputs, **self._rest)

    def arrived(self) -> Optional[int]:
        return getattr(self._object, "timestamp", None)

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        if self._rest:
            fire, rest = self._fire, self._rest

            def call_with(*inputs: np.ndarray) -> Any:
                return fire(*inputs, **rest)

            return call_with
        fire = self._fire

        def call(*inputs: np.ndarray) -> Any:
            return fire(*inputs)

        return call

    def close(self) -> None:
        close = getattr(self._object, "close", None)
        if callable(close):
            close()


def _not_open(*inputs: Any) -> Any:
    raise AssertionError("fired before it was opened")


def _plain_address(array: np.ndarray) -> int:
    return array.ctypes.data


def _quick_address(array: np.ndarray) -> Any:
    return _word_at(id(array) + _DATA).value


#: Where an array of numpy says where its data is, behind the two words that begin every object of
#: CPython.
_DATA = object.__basicsize__
_word_at = ctypes.c_void_p.from_address


def _address() -> Callable[[np.ndarray], int]:
    """How to find the data of an array: numpy's own way takes longer than many a C function."""
    samples: List[np.ndarray] = [np.zeros(3), np.ones((2, 5), np.uint8)[:, 1:], np.zeros((4, 0))]
    if sys.implementation.name == "cpython" and all(
        _quick_address(a) == _plain_address(a) for a in samples
    ):
        return _quick_address
    return _plain_address


#: The address of the data of an array.
address = _address()

#: What a source in C returns when its stream has ended: FLOWC_END in its header.
END = 0x454E44
C_TYPES = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_bool}


class C(Code):
    """`int NAME(void *state, const T *in..., T *out..., const NAME_params *p)` in a shared library.

    The call runs without the GIL. State comes from `NAME_init` when the library has it, otherwise
    it is zeroed memory of the declared size. What went wrong is asked of `NAME_error`, where there
    is one.
    """

    closes_inside = False

    def __init__(
        self,
        library: str,
        name: str,
        parameters: Sequence[Tuple[str, str, Any]] = (),
        state: Sequence[Tuple[str, str, Tuple[int, ...]]] = (),
    ) -> None:
        self.library, self.name = library, name
        self._parameters, self._state_fields = parameters, state
        self._outputs: Sequence[Port] = ()
        self._inputs: Sequence[Port] = ()
        self._state: Any = None
        self._exit: Any = None
        self._error: Any = None

    def give(self, parameter: str, value: Any) -> None:
        """Another value of a parameter, before `open`."""
        self._parameters = [(n, t, value if n == parameter else v) for n, t, v in self._parameters]

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = os.path.join(home, self.library)
        if not os.path.exists(path):
            raise TaskError("%s is not compiled: run `sh compile.sh` in %s" % (self.library, home))
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise TaskError(
                "%s does not load here (%s): run `sh compile.sh`" % (self.library, error)
            ) from error
        self._function = getattr(library, self.name)
        self._function.restype = ctypes.c_int
        self._function.argtypes = [ctypes.c_void_p] * (2 + len(inputs) + len(outputs))
        self._inputs, self._outputs = inputs, outputs
        self._params = self._struct()
        self._exit = getattr(library, self.name + "_exit", None)
        self._error = getattr(library, self.name + "_error", None)
        if self._error is not None:
            self._error.restype = ctypes.c_char_p
        init = getattr(library, self.name + "_init", None)
        if init is not None:
            init.restype = ctypes.c_void_p
            self._state = ctypes.c_void_p(init(self._params))
            if not self._state:
                raise TaskError("%s_init returned NULL" % self.name)
        elif self._state_fields:
            size = sum(
                (int(np.prod(s)) * np.dtype(d).itemsize + 63) // 64 * 64
                for _, d, s in self._state_fields
            )
            self._memory = np.zeros(size, np.uint8)
            self._state = ctypes.c_void_p(self._memory.ctypes.data)
        if self._exit is not None:
            self._exit.restype = None

    def _struct(self) -> Any:
        if not self._parameters:
            return None
        fields = [(name, C_TYPES.get(kind, ctypes.c_char_p)) for name, kind, _ in self._parameters]
        struct = type(self.name + "_params", (ctypes.Structure,), {"_fields_": fields})
        values = [v.encode() if isinstance(v, str) else v for _, _, v in self._parameters]
        self._values = struct(*values)
        return ctypes.byref(self._values)

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        contiguous = [np.ascontiguousarray(a) for a in inputs]
        outputs = [np.zeros(p.block_shape(firing), p.dtype) for p in self._outputs]
        status = self._function(
            self._state, *[address(a) for a in contiguous + outputs], self._params
        )
        if status:
            raise self.failed(status)
        return tuple(outputs)

    def failed(self, status: int) -> Exception:
        """What it means that the function returned that."""
        if status == END:
            return TaskError("%s %s" % (self.name, ENDS)) if self._inputs else StopIteration()
        return TaskError("%s returned %d%s" % (self.name, status, self._said()))

    def _said(self) -> str:
        """Why, in the words of the code itself."""
        words = None if self._error is None else self._error(self._state)
        return ": %s" % words.decode(errors="replace") if words else ""

    def parts(self) -> Tuple[int, int, int]:
        """After `open`: the addresses of the function, the state and the parameters (0: none)."""
        function = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        state = self._state.value if self._state is not None else 0
        return function, state or 0, ctypes.addressof(self._values) if self._parameters else 0

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        if len(self._inputs) > 1 or len(self._outputs) > 1 or not (self._inputs or self._outputs):
            return super().caller(phase)
        function, state, params, zeros = self._function, self._state, self._params, np.zeros
        shapes, failed = [(p.block_shape(phase), p.dtype) for p in self._outputs], self.failed

        if not shapes:

            def sink(array: np.ndarray) -> Any:
                if not array.flags.c_contiguous:
                    array = np.ascontiguousarray(array)
                status = function(state, address(array), params)
                if status:
                    raise failed(status)

            return sink
        ((shape, dtype),) = shapes
        if not self._inputs:

            def source() -> Any:
                made = zeros(shape, dtype)
                status = function(state, address(made), params)
                if status:
                    raise failed(status)
                return made

            return source

        def call(array: np.ndarray) -> Any:
            if not array.flags.c_contiguous:
                array = np.ascontiguousarray(array)
            made = zeros(shape, dtype)
            status = function(state, address(array), address(made), params)
            if status:
                raise failed(status)
            return made

        return call

    def close(self) -> None:
        if self._exit is not None:
            self._exit(self._state)
            self._exit = None


class Network(Code):
    """Inference with ONNX Runtime. `batch` firings are grouped into one run (first dimension).

    `threads` share the work of one inference; `spin` lets them wait actively for their next part.
    `block` bytes are planned for what lies between its layers; `library` has its own operators.
    The tensors `half` are float16 outside,
    and float32 in the model.
    """

    exact = False
    has_weights = True

    def __init__(
        self,
        file: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        batch: int = 1,
        threads: int = 1,
        spin: bool = False,
        block: int = 0,
        library: str = "",
        half: Sequence[str] = (),
    ) -> None:
        self.file, self.library, self.batch, self.block = file, library, batch, block
        self._half = frozenset(half)
        self.threads, self.spin = threads, spin
        self._names, self._wanted = list(inputs), list(outputs)
        self._session: Any = None
        self._inputs: Sequence[Port] = ()
        self._outputs: Sequence[Port] = ()

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = os.path.realpath(os.path.join(home, self.file))
        library = self.library and os.path.realpath(os.path.join(home, self.library))
        self._session = session(path, self.threads, self.spin, library)
        self._inputs = [self._wide(n, p) for n, p in zip(self._names, inputs)]
        self._outputs = [self._wide(n, p) for n, p in zip(self._wanted, outputs)]
        self._made = Outputs(self._wanted, self._outputs)

    def _wide(self, name: str, port: Port) -> Port:
        """A port as the model has it."""
        if name not in self._half:
            return port
        return Port(port.name, "float32", port.shape, port.rates, port.stacked)

    def _cast(self, names: Sequence[str], arrays: Sequence[Any], dtype: Any) -> List[Any]:
        """Arrays, those of `half` in that type."""
        return [
            array.astype(dtype) if name in self._half else array
            for name, array in zip(names, arrays)
        ]

    def rehearsals(self) -> List[Rehearsal]:
        batch, feeds = self.batch, {}
        for name, port in zip(self._names, self._inputs):
            feeds[name] = stacked_shape(batch, port.shape), port.dtype
        ports = [Port(p.name, p.dtype.name, stacked_shape(batch, p.shape)) for p in self._outputs]
        made = Outputs(self._wanted, ports, own=True)
        return [Rehearsal(self._session, self.batch * self.block, feeds, made)]

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        if not self._half:
            return tuple(self._made.of(self._session, self._names, inputs, options))
        given = self._cast(self._names, inputs, np.float32)
        made = self._made.of(self._session, self._names, given, options)
        return tuple(self._cast(self._wanted, made, np.float16))

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        names, wanted = self._names, self._wanted
        if self._half or len(names) > 1 or len(wanted) > 1 or self._made.large:
            return super().caller(phase)
        (name,) = names
        # Names of inputs are right, or the first firing would have failed; looking again takes a
        # microsecond.
        run = getattr(getattr(self._session, "_sess", None), "run", self._session.run)

        def call(array: np.ndarray) -> Any:
            return run(wanted, {name: array}, None)[0]

        def call_and_copy(array: np.ndarray) -> Any:
            return run(wanted, {name: array}, None)[0].copy()

        return call_and_copy if crowded() else call

    def fire_batch(self, inputs: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Inputs and outputs have a leading axis of firings, in front of the network's first
        dimension."""
        count = len(inputs[0])
        joined = [a.reshape(stacked_shape(count, p.shape)) for a, p in zip(inputs, self._inputs)]
        given = self._cast(self._names, joined, np.float32)
        results = self._session.run(self._wanted, dict(zip(self._names, given)))
        for result, port in zip(results, self._outputs):
            Port(port.name, port.dtype.name, stacked_shape(count, port.shape)).accept(result, 0)
        made = [r.reshape((count,) + p.shape) for r, p in zip(results, self._outputs)]
        return self._cast(self._wanted, made, np.float16)


def stacked_shape(count: int, shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """The shape of so many tensors behind each other in their first dimension."""
    return tuple(count * n for n in shape[:1]) + shape[1:]


@lru_cache(maxsize=None)
def session(path: str, threads: int, spin: bool, library: str = "") -> Any:
    """Usually one thread per inference and no spinning: the workers are the parallelism.

    Instances of one network share its session; running it is thread-safe.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise TaskError("onnxruntime is missing: pip install onnxruntime") from error

    def options() -> Any:
        made = onnxruntime.SessionOptions()
        made.intra_op_num_threads = threads
        made.inter_op_num_threads = 1
        made.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
        made.log_severity_level = 3
        share(made, path)
        if library:
            made.register_custom_ops_library(library)
        return made

    try:
        return opened(path, options)
    except Exception as error:
        raise TaskError("ONNX Runtime refuses %s: %s" % (os.path.basename(path), error)) from error


def value_of(parameter: Optional[Any], home: str) -> Any:
    """Resolve a parameter of deployment.json: files are stored as {"file": path}."""
    if isinstance(parameter, dict):
        return os.path.join(home, parameter["file"])
    return parameter
