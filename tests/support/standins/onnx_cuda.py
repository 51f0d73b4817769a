"""A stand-in for ONNX Runtime's CUDA provider: sessions that run on the CPU, late, as operations of
a stream.

In: the real library, and the stand-in of CUDA. Out: the same library with a provider more. Bound
tensors have to lie in living device memory that is large enough. Violations are a session that is
not told its stream, or that multiplies in TF32, as the real one does unless it is told not to; and a
run that does not wait at its end: the real library frees pinned memory only there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from .cuda import Access, Operation, StandIn

QUIET = "disable_synchronize_execution_providers"


class _Binding:
    def __init__(self) -> None:
        self.inputs: dict[str, tuple[Any, tuple[int, ...], int]] = {}
        self.outputs: dict[str, tuple[Any, tuple[int, ...], int]] = {}

    def bind_input(
        self, name: str, device: str, number: int, dtype: Any, shape: Sequence[int], pointer: int
    ) -> None:
        assert (device, number) == ("cuda", 0)
        self.inputs[name] = np.dtype(dtype), tuple(shape), int(pointer)

    def bind_output(
        self, name: str, device: str, number: int, dtype: Any, shape: Sequence[int], pointer: int
    ) -> None:
        assert (device, number) == ("cuda", 0)
        self.outputs[name] = np.dtype(dtype), tuple(shape), int(pointer)


def install(cuda: StandIn, setattr_: Any) -> None:
    """Put the provider into the library."""
    real = onnxruntime.InferenceSession

    class Session:
        """With the CUDA provider late, with any other one as it was."""

        def __new__(
            cls, path: Any, options: Any = None, providers: Sequence[Any] = (), **rest: Any
        ) -> Any:
            first = providers[0] if providers else ""
            if first != "CUDAExecutionProvider" and not (
                isinstance(first, tuple) and first[0] == "CUDAExecutionProvider"
            ):
                return real(path, options, providers=list(providers), **rest)
            return super().__new__(cls)

        def __init__(
            self, path: Any, options: Any = None, providers: Sequence[Any] = (), **rest: Any
        ) -> None:
            given = providers[0][1] if isinstance(providers[0], tuple) else {}
            self._stream = int(given.get("user_compute_stream", 0))
            self._name = str(path).rpartition("/")[2]
            if not self._stream:
                cuda.complain(
                    f"a session of {self._name} has a stream of its own that is not waited for"
                )
            if str(given.get("use_tf32", "1")) != "0":
                cuda.complain(f"a session of {self._name} multiplies in TF32")
            self._session = real(path, options, providers=["CPUExecutionProvider"])

        def get_providers(self) -> list[str]:
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

        def io_binding(self) -> _Binding:
            return _Binding()

        def run_with_iobinding(self, binding: _Binding, options: Any = None) -> None:
            if options is not None and options.get_run_config_entry(QUIET) == "1":
                cuda.complain(f"a run of {self._name} does not wait at its end")
            known = {
                x.name: tuple(x.shape)
                for x in (*self._session.get_inputs(), *self._session.get_outputs())
            }
            accesses, places = [], {}
            for writes, group in ((False, binding.inputs), (True, binding.outputs)):
                for name, (dtype, shape, pointer) in group.items():
                    fixed = [
                        (a, b)
                        for a, b in zip(known[name], shape, strict=True)
                        if isinstance(a, int)
                    ]
                    if any(a != b for a, b in fixed):
                        cuda.complain(
                            f"tensor {name} of {self._name} is {known[name]}, and is bound as {shape}"
                        )
                    accesses.append(Access(pointer, int(np.prod(shape)) * dtype.itemsize, writes))
                    places[name] = dtype, shape, pointer
            missing = set(known) - set(places)
            if missing:
                cuda.complain(f"{self._name} runs without {', '.join(sorted(missing))}")

            def action() -> None:
                feeds = {n: cuda.view(places[n][2], *places[n][:2]).copy() for n in binding.inputs}
                wanted = list(binding.outputs)
                for name, result in zip(wanted, self._session.run(wanted, feeds), strict=True):
                    dtype, shape, pointer = places[name]
                    cuda.view(pointer, dtype, shape)[...] = result

            cuda.put(self._stream, Operation(self._name, f"network {self._name}", accesses, action))

    providers = [*onnxruntime.get_available_providers()]
    setattr_(onnxruntime, "InferenceSession", Session)
    setattr_(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", *providers])
