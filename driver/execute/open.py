"""A program in this process: built if it is given as a text, and loaded as the package of its
folder."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...model.diagnostic import Diagnostic, Errors
from ...runtime.modules import made_by
from ..build.build import BuildOptions, build_with

if TYPE_CHECKING:
    from ...runtime.embed import Running

_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a program in this process runs; see the options of `main.py`. `spans` is a tracer of
    OpenTelemetry, which gets frames as spans."""

    frames: int | None = None
    full_speed: bool = False
    twin: bool = False
    watchdog: float = 60.0
    settings: Sequence[str] = ()
    record: str | Path | None = None
    channels: str | None = None
    spans: Any = None


def open_program(path: str | Path, output: str | Path | None = None, **asked: Any) -> Running:
    """Start a program in threads of this process: a build directory, or a text, which is built
    first if needed.

    `asked` are fields of `BuildOptions` and of `OpenOptions`. Raises Errors of the build, `Failed`
    (of the program's own copy of the runtime) if it cannot start, ValueError for invalid `settings`
    and `channels`, and OSError for a file that cannot be written.
    """
    building = BuildOptions.taken_from(asked)
    options = OpenOptions(**asked)
    directory = Path(path)
    if not directory.is_dir():
        directory = build_with(building, path, output).directory
    running: Running = _package(directory).open(
        options.frames,
        options.full_speed,
        options.twin,
        options.watchdog,
        options.settings,
        options.record,
        options.channels,
        options.spans,
    )
    return running


def _package(directory: Path) -> ModuleType:
    """The package of a build, under a unique name: loaded once, and again after each new build."""
    directory = directory.resolve()
    init, deployment = directory / "__init__.py", directory / "deployment.json"
    if not init.is_file() or not deployment.is_file():
        help_text = "`flowc build APP.flow -o DIRECTORY` makes one"
        raise Errors([Diagnostic("F002", f"`{directory}` holds no program", None, help=help_text)])
    stamps = [(str(f), f.stat().st_mtime_ns) for f in sorted(directory.rglob("*.py"))]
    name = f"flowc_program_{hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]}"
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        loader = SourceFileLoader(name, str(init))
        package = sys.modules[name] = made_by(loader, folder=str(directory))
        try:
            loader.exec_module(package)
        except BaseException:
            del sys.modules[name]
            raise
        return package
