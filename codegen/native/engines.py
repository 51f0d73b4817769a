"""The libraries of inference engines in the build of a native program.

In: which engines its runtime has. Out: files, as the Python packages here have them. On a board the
program gets those of the Python there (`machines/board.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path

from ..sources import Plan

#: Where a program looks for ONNX Runtime, and for OpenVINO.
ONNXRUNTIME, OPENVINO = "lib/libonnxruntime.so.1", "lib/openvino"
#: What programs need of OpenVINO: its interface for C, its core, what runs networks on CPUs, what
#: reads ONNX files, and what has its threads.
_OF_OPENVINO = (
    "libopenvino_c.so*",
    "libopenvino.so*",
    "libopenvino_*_cpu_plugin.so",
    "libopenvino_onnx_frontend.so*",
    "libtbb.so*",
)
#: Texts about the licenses of a package and of its parts.
_NOTICES = ("LICENSE", "ThirdPartyNotices.txt", "third-party-programs.txt")


def engine_libraries(engines: Iterable[str]) -> Plan:
    """The libraries of these engines, by their files in the runtime; nothing of one that is not
    installed here."""
    plan: Plan = {}
    for engine in engines:
        for path, file in _LIBRARIES[engine]():
            plan[path] = file
    return plan


def onnxruntime_library() -> Path | None:
    """The shared library in the package of ONNX Runtime; None if the package has none."""
    for folder in _folders("onnxruntime"):
        for file in sorted((folder / "capi").glob("libonnxruntime.so.*")):
            return file
    return None


def _onnxruntime() -> Iterator[tuple[str, Path]]:
    library = onnxruntime_library()
    if library is None:
        return
    yield ONNXRUNTIME, library
    for name in _NOTICES:
        notice = library.parent.parent / name
        if notice.is_file():
            yield f"lib/onnxruntime/{name}", notice


def _openvino() -> Iterator[tuple[str, Path]]:
    for folder in _folders("openvino"):
        for pattern in _OF_OPENVINO:
            for file in sorted((folder / "libs").glob(pattern)):
                yield f"{OPENVINO}/{file.name}", file
    try:
        listed = files("openvino") or []
    except PackageNotFoundError:  # it is here without what pip knows of it
        return
    for text in listed:
        if text.parts[0].endswith(".dist-info") and text.name.endswith(_NOTICES):
            yield f"{OPENVINO}/licenses/{text.name}", Path(str(text.locate()))


def _folders(package: str) -> list[Path]:
    found = find_spec(package)
    return [Path(f) for f in (found.submodule_search_locations or ())] if found is not None else []


_LIBRARIES: Mapping[str, Callable[[], Iterator[tuple[str, Path]]]] = {
    "network": _onnxruntime,
    "openvino": _openvino,
}
