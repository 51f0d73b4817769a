"""Networks on CPUs through ncnn.

ncnn runs files of its own. pnnx makes them when a program first starts; they are kept in the build,
in the folder `engines`, and read again while the network has not changed. An inference runs in the
thread of its worker, which on several threads shares it with those that OpenMP starts from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .code import Network
from .memory import Rehearsal
from .tokens import Port, TaskError

#: Changes when other files are written.
FORMAT = 1
#: Seconds for a conversion, which takes about one.
CONVERSION = 600
#: What ncnn would compute in 16 bits on CPUs that can.
IN_16_BITS = (
    "use_fp16_packed",
    "use_fp16_storage",
    "use_fp16_arithmetic",
    "use_bf16_storage",
)


class Ncnn(Network):
    """Inference with ncnn in 32 bits; `file` to `outputs` and `threads` as in `Network`."""

    def __init__(
        self, file: str, inputs: Sequence[str], outputs: Sequence[str], threads: int = 1
    ) -> None:
        Network.__init__(self, file, inputs, outputs, threads=threads)
        self._net: Any = None
        self._engine = ""

    @property
    def engine(self) -> str:
        return self._engine

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        ncnn = imported()
        path = os.path.realpath(os.path.join(home, self.file))
        cores = len(os.sched_getaffinity(0))
        if self.threads > cores:  # they would wait for each other by spinning
            reason = "ncnn would run %s on %d threads: this program may use %d cores"
            raise TaskError(reason % (os.path.basename(path), self.threads, cores))
        self._inputs, self._outputs = inputs, outputs
        self._mat = ncnn.Mat
        with tempfile.TemporaryDirectory(prefix="flowc-ncnn-") as scratch:
            made, names = _kept_or_converted(path, os.path.join(home, "engines"), scratch)
            net = ncnn.Net()
            for option in IN_16_BITS:
                setattr(net.opt, option, False)
            net.opt.num_threads = self.threads
            if net.load_param(made + ".param") or net.load_model(made + ".bin"):
                raise TaskError("ncnn refuses %s: its reason is above" % os.path.basename(path))
        #: What ncnn calls the tensors of the ports.
        self._given = [names[name] for name in self._names]
        self._made_as = [names[name] for name in self._wanted]
        self._net = net
        self._engine = "ncnn %s, f32" % ncnn.__version__
        self.fire([np.ones(p.shape, p.dtype) for p in inputs], 0)  # the first one takes longer

    def rehearsals(self) -> List[Rehearsal]:
        return []

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return None

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        # ncnn reads them where they are, and does not keep them alive: this list does.
        given = [np.ascontiguousarray(a.reshape(a.shape[1:])) for a in inputs]
        extractor = self._net.create_extractor()
        for name, array in zip(self._given, given):
            if extractor.input(name, self._mat(array)):
                raise TaskError("ncnn refuses the input %s" % name)
        made = []
        for name, port in zip(self._made_as, self._outputs):
            failed, mat = extractor.extract(name)
            array = np.array(mat)
            if failed or array.size != np.prod(port.shape):
                raise TaskError("ncnn does not make %s of %s" % (port.name, self.file))
            made.append(array.reshape(port.shape))
        return tuple(made)

    def close(self) -> None:
        self._net = None


def imported() -> Any:
    """The package. Raises TaskError."""
    try:
        import ncnn
    except ImportError as error:
        raise TaskError("ncnn is missing: pip install ncnn") from error
    return ncnn


def _kept_or_converted(path: str, folder: str, scratch: str) -> Tuple[str, Dict[str, str]]:
    """The files of an earlier run, or else what pnnx makes now, without their endings, and what
    they call the tensors of the network. `folder` keeps them, where it can be written to. Raises
    TaskError."""
    name = "%s-%s.ncnn" % (os.path.basename(path), _key(path))
    kept = os.path.join(folder, name)
    names = _read(kept)
    if names is None:
        made, names = _converted(path, scratch)
        kept = _write(made, names, kept)
    return kept, names


def _key(path: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.sha256(b"%d" % FORMAT + stream.read()).hexdigest()[:16]


def _converted(path: str, scratch: str) -> Tuple[str, Dict[str, str]]:
    spec = find_spec("pnnx")
    if spec is None or spec.origin is None:
        raise TaskError("pnnx is missing: pip install --no-deps pnnx (it does not need torch here)")
    name = os.path.basename(path)
    shutil.copyfile(path, os.path.join(scratch, "network.onnx"))
    program = os.path.join(os.path.dirname(spec.origin), "pnnx")
    command = [program, "network.onnx", "fp16=0"]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, timeout=CONVERSION, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TaskError("pnnx cannot convert %s: %s" % (name, error)) from error
    made = os.path.join(scratch, "network.ncnn")
    if done.returncode or not os.path.exists(made + ".param"):
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        raise TaskError("pnnx refuses %s: %s" % (name, words[-1]))
    return made, _tensors(path)


def _tensors(path: str) -> Dict[str, str]:
    """What pnnx calls inputs and outputs: it counts them in the order of the file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {t.name: "in%d" % k for k, t in enumerate(session.get_inputs())}
    names.update((t.name, "out%d" % k) for k, t in enumerate(session.get_outputs()))
    return names


def _read(kept: str) -> Optional[Dict[str, str]]:
    """The names of tensors in files that are kept; None where there are none, or one is
    damaged."""
    try:
        with open(kept + ".json") as stream:
            document = json.load(stream)
        names: Dict[str, str] = document["names"]
        return names if document["digest"] == _digest(kept) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(made: str) -> str:
    digest = hashlib.sha256()
    for ending in (".param", ".bin"):
        with open(made + ending, "rb") as stream:
            digest.update(hashlib.sha256(stream.read()).digest())
    return digest.hexdigest()


def _write(made: str, names: Dict[str, str], kept: str) -> str:
    """Keep what was made; returns where it is: a folder that cannot be written to is no fault."""
    with open(made + ".json", "w") as stream:
        json.dump({"names": names, "digest": _digest(made)}, stream)
    with suppress(OSError):
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        for ending in (".param", ".bin", ".json"):  # the last one makes the others count
            handle, new = tempfile.mkstemp(dir=os.path.dirname(kept), prefix=".new-")
            os.close(handle)
            shutil.copyfile(made + ending, new)
            os.replace(new, kept + ending)
        return kept
    return made
