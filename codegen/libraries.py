"""The packages that generated programs need beside numpy, in words and for pip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..machines.whoami import version_of
from ..model.tensorrt import TensorRTVersion

#: The oldest version with which programs run, the same as flowc's own.
LEAST_ONNXRUNTIME = "1.17"
LEAST_OPENVINO = "2025.0"
LEAST_NCNN = "1.0.20250503"
#: The first provider for NPUs on Linux that is a package of its own, and what it plugs into.
LEAST_QNN, LEAST_PLUG_INS = "2.3", "1.24.2"
#: The first one for boards that pip installs, under Linux on aarch64 alone.
LEAST_RKNN = "2.3"


@dataclass(frozen=True, slots=True)
class Library:
    """A package, with its `lines` in requirements.txt. It contains the one called `includes`.

    Lists have packages of smaller `rank` first: inference from pip, from a vendor, and bindings.
    """

    name: str
    lines: tuple[str, ...]
    includes: str = ""
    rank: int = 0


def cuda_python(tensorrt: tuple[int, ...] = ()) -> Library:
    """Calls of CUDA from Python, for all code on a GPU or DLA. The TensorRT of a board says which
    CUDA it has: JetPack 5 has 11.4, JetPack 6 has 12.6, and later releases of cuda-python need a
    newer driver."""
    bound = ""
    if tensorrt:
        bound = {"trt8": "<12.4", "trt10": "<13"}.get(TensorRTVersion(tensorrt).dialect, "")
    return Library("cuda-python or PyCUDA", (f"cuda-python{bound}  # or PyCUDA",), rank=2)


def onnxruntime() -> Library:
    """ONNX Runtime for CPUs."""
    return Library("onnxruntime", _from_pip("onnxruntime"))


def onnxruntime_gpu() -> Library:
    """ONNX Runtime for CPUs and GPUs."""
    return Library("onnxruntime-gpu", _from_pip("onnxruntime-gpu"), includes="onnxruntime")


def openvino() -> Library:
    """OpenVINO, and ONNX Runtime, with which the harness compares it."""
    lines = (*_from_pip("openvino", LEAST_OPENVINO), *_from_pip("onnxruntime"))
    return Library("openvino", lines, includes="onnxruntime")


def onnxruntime_qnn() -> Library:
    """ONNX Runtime with its provider for Qualcomm's NPUs, beside it."""
    lines = (*_from_pip("onnxruntime-qnn", LEAST_QNN), *_from_pip("onnxruntime", LEAST_PLUG_INS))
    return Library("onnxruntime-qnn", lines, includes="onnxruntime")


def ncnn() -> Library:
    """ncnn and what converts networks for it, and ONNX Runtime, with which the harness compares
    it."""
    pnnx = "# pnnx: python3 -m pip install --no-deps pnnx (torch, which it names, is not needed)"
    lines = (*_from_pip("ncnn", LEAST_NCNN), pnnx, *_from_pip("onnxruntime"))
    return Library("ncnn", lines, includes="onnxruntime")


def rknn_toolkit_lite2() -> Library:
    """RKNN for Rockchip's boards, and ONNX Runtime, with which the harness compares it."""
    line = f'rknn-toolkit-lite2>={LEAST_RKNN}; platform_machine == "aarch64"'
    lines = (line, *_from_pip("onnxruntime"))
    return Library("rknn-toolkit-lite2", lines, includes="onnxruntime")


def _from_pip(name: str, least: str = LEAST_ONNXRUNTIME) -> tuple[str, ...]:
    """The version is that of this machine, if Python is at least as new as here."""
    version = version_of(name)
    if version is None:
        return (f"{name}>={least}",)
    return (
        f'{name}=={version}; python_version >= "3.11"',
        f'{name}>={least}; python_version < "3.11"',
    )


def distinct(libraries: Iterable[Library]) -> list[Library]:
    """Each once, without those that another one includes."""
    by_name = {library.name: library for library in libraries}
    for library in list(by_name.values()):
        by_name.pop(library.includes, None)
    return sorted(by_name.values(), key=lambda library: library.rank)
