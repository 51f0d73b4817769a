"""flowc: from a dataflow text with neural networks in it to a checked, mapped, running program.

From Python, every verb is a function of its name, and does what the verb does: `check`, `analyze`,
`profile`, `map`, `build`, `run`, `test`, `import_`, `export`; `load` gives the model of a faultless
text, and `open` starts a program in this process, to put frames in and get results out. They print
nothing, but for what programs print. What is wrong with a text is raised as `Errors`, whose
`diagnostics` say where and why; `check` and `analyze` return what they found.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .model.version import __version__

if TYPE_CHECKING:
    from .driver.build.build import build
    from .driver.exchange.export import export
    from .driver.exchange.import_ import import_
    from .driver.execute.open import open_program as open
    from .driver.execute.run import run, test
    from .driver.measure.measure import profile
    from .driver.show.analyze import analyze
    from .driver.solve.map import find_mapping as map
    from .driver.text.measured import check
    from .model.diagnostic import Errors
    from .model.system import System

# As `runtime` has it, for all other uses of ONNX Runtime: it looks when it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = [
    "Errors",
    "__version__",
    "analyze",
    "build",
    "check",
    "export",
    "import_",
    "load",
    "map",
    "open",
    "profile",
    "run",
    "test",
]

#: Where each name is, and what it is called there: nothing is imported before it is asked for.
_FACES = {
    "Errors": ("model.diagnostic", "Errors"),
    "analyze": ("driver.show.analyze", "analyze"),
    "build": ("driver.build.build", "build"),
    "check": ("driver.text.measured", "check"),
    "export": ("driver.exchange.export", "export"),
    "import_": ("driver.exchange.import_", "import_"),
    "map": ("driver.solve.map", "find_mapping"),
    "open": ("driver.execute.open", "open_program"),
    "profile": ("driver.measure.measure", "profile"),
    "run": ("driver.execute.run", "run"),
    "test": ("driver.execute.run", "test"),
}


def __getattr__(name: str) -> object:
    if name not in _FACES:
        raise AttributeError(f"module `flowc` has no attribute `{name}`")
    from importlib import import_module

    module, own = _FACES[name]
    return getattr(import_module(f"{__name__}.{module}"), own)


def load(path: str | Path, *, platform: str = "host") -> System:
    """The model of a text, networks cut as it pins them. Raises `flowc.Errors` when it has
    errors."""
    from .driver.text.check import check

    return check(path, platform=platform).require().system
