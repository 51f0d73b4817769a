"""flowc: from a dataflow text with neural networks in it to a checked, mapped, running program.

From Python, every verb is a function of its name, and does what the verb does: `check`, `analyze`, `profile`, `map`,
`build`, `run`, `test`, `import_`, `export`; `load` gives the model of a faultless text, and `open` starts a program in
this process, to put frames in and get results out. They print nothing, but for what programs print. What is wrong with
a text is raised as `Errors`, whose `diagnostics` say where and why; `check` and `analyze` return what they found.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .driver.analyze import analyze
    from .driver.build import build
    from .driver.check import check
    from .driver.export import export
    from .driver.import_ import import_
    from .driver.map import find_mapping as map
    from .driver.measure import profile
    from .driver.open import open_program as open
    from .driver.run import run, test
    from .model.diagnostic import Errors
    from .model.system import System

# As `runtime` has it, for all other uses of ONNX Runtime: it looks when it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
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
    "analyze": ("driver.analyze", "analyze"),
    "build": ("driver.build", "build"),
    "check": ("driver.check", "check"),
    "export": ("driver.export", "export"),
    "import_": ("driver.import_", "import_"),
    "map": ("driver.map", "find_mapping"),
    "open": ("driver.open", "open_program"),
    "profile": ("driver.measure", "profile"),
    "run": ("driver.run", "run"),
    "test": ("driver.run", "test"),
}


def __getattr__(name: str) -> object:
    if name not in _FACES:
        raise AttributeError(f"module `flowc` has no attribute `{name}`")
    from importlib import import_module

    module, own = _FACES[name]
    return getattr(import_module(f"{__name__}.{module}"), own)


def load(path: str | Path, *, platform: str = "host") -> System:
    """The model of a text, networks cut as it pins them. Raises `flowc.Errors` when it has errors."""
    from .driver.check import check

    return check(path, platform=platform).require().system
