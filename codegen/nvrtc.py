"""Compiles `.cu` files for a GPU that is not here, to find errors before the board does.

NVRTC comes with the extra `cuda` (NVIDIA's wheels) or with a CUDA toolkit; without it nothing is
checked. Version 13 starts with compute capability 7.5, version 12 supports 7.2 as well: both are
tried.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterable, Iterator
from ctypes.util import find_library
from functools import lru_cache
from pathlib import Path

from ..model.diagnostic import Diagnostic
from ..model.span import Span

#: Folders of wheels with the library, from new to old.
_WHEELS = (("nvidia.cu13", "libnvrtc.so.13"), ("nvidia.cuda_nvrtc", "libnvrtc.so.12"))


_OLD_GPU = re.compile(r"nvrtc: warning: Architectures prior to .*\n?")


class Nvrtc:
    """One NVRTC library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def supports(self, compute: tuple[int, int]) -> bool:
        """Does it compile for that compute capability?"""
        count = ctypes.c_int()
        if self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)):
            return False
        archs = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(archs)
        return 10 * compute[0] + compute[1] in list(archs)

    def compile(
        self, path: Path, compute: tuple[int, int], folders: Iterable[str]
    ) -> tuple[bytes, str]:
        """The machine code (empty if it does not compile) and the compiler's output."""
        from ..runtime.cuda import HEADERS

        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        source, name = path.read_bytes(), path.name.encode(errors="replace")
        texts = (ctypes.c_char_p * len(HEADERS))(*[t.encode() for t in HEADERS.values()])
        names = (ctypes.c_char_p * len(HEADERS))(*[n.encode() for n in HEADERS])
        create = self._library.nvrtcCreateProgram
        status = create(ctypes.byref(program), source, name, len(HEADERS), texts, names)
        if status:
            return b"", f"NVRTC takes no programs (status {status})"
        options = [f"--gpu-architecture=sm_{compute[0]}{compute[1]}", "--std=c++14"]
        options += [f"--include-path={folder}" for folder in folders]
        given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        try:
            failed = self._library.nvrtcCompileProgram(program, len(options), given)
            self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self._library.nvrtcGetProgramLog(program, log)
            said = _OLD_GPU.sub("", log.value.decode(errors="replace")).strip()
            if failed:
                return b"", said or f"NVRTC fails with status {failed}"
            self._library.nvrtcGetCUBINSize(program, ctypes.byref(size))
            code = ctypes.create_string_buffer(size.value)
            self._library.nvrtcGetCUBIN(program, code)
            return code.raw, said
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))


@lru_cache(maxsize=1)
def libraries() -> tuple[Nvrtc, ...]:
    """All that are installed."""
    return tuple(Nvrtc(library) for library in _loaded())


def _loaded() -> Iterator[ctypes.CDLL]:
    names = []
    for package, name in _WHEELS:
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        if spec is not None:
            for folder in spec.submodule_search_locations or []:
                names.append(str(Path(folder) / "lib" / name))
    system = find_library("nvrtc")
    if system:
        names.append(system)
    for name in names:
        try:
            # some wheels do not find a part of theirs by themselves
            for part in sorted(Path(name).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(part))
            yield ctypes.CDLL(name)
        except OSError:
            continue


def compiled(path: Path, compute: tuple[int, int]) -> tuple[bytes, str] | None:
    """The code of a `.cu` file for that GPU and the compiler's output; None if no compiler for it
    is installed."""
    from ..runtime.cuda import include_folders

    for library in libraries():
        if library.supports(compute):
            return library.compile(path, compute, include_folders(str(path)))
    return None


def faults(path: Path, file: str, compute: tuple[int, int]) -> Diagnostic | None:
    """The error that a `.cu` file (`file` as the user wrote it) does not compile for that GPU, at
    its place."""
    found = compiled(path, compute)
    if found is None or found[0]:
        return None
    said = found[1]
    place = re.search(re.escape(path.name) + r"\((\d+)\): (?:catastrophic )?error", said)
    span = None
    if place is not None:
        lines = path.read_text(errors="replace").splitlines()
        line = min(int(place[1]), max(len(lines), 1))
        text = lines[line - 1] if lines else ""
        span = Span(
            str(path), line, len(text) - len(text.lstrip()) + 1, line, len(text.rstrip()) + 1
        )
    missing = re.search(r'cannot open source file "([^"]+)"', said)
    if missing is not None and not (path.parent / missing[1]).exists():
        # of a toolkit that the target has
        help_text = "the target searches for it again, in CUDA's own folders"
        message = f"`{file}` is not checked: `{missing[1]}` is not here"
        return Diagnostic("F310", message, span, help=help_text, severity="warning")
    message = f"`{file}` does not compile for sm_{compute[0]}{compute[1]}\n{said}"
    return Diagnostic("F310", message, span)
