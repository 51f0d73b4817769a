"""The Python of a board with a GPU and TensorRT, on stand-ins: what it is given runs as on the
board.

    python tests/support/standins/python.py -m flowc.profiling.there.child ...   # or a script of a
    build, or -c CODE

Options come from the environment, as for `run.py`. What needs no stand-ins is handed on to Python
as it is.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path

import run  # the module beside this one

CHILD = "flowc.profiling.there.child"


def main(words: list[str]) -> int:
    """The exit status; does not come back where Python goes on."""
    if words[:1] and words[0].endswith("_engines.py"):
        return run.main(Path.cwd(), words[0], words[1:])
    if words[:2] != ["-m", CHILD]:
        os.execv(sys.executable, [sys.executable, *words])
    run.adopt(Path(words[2]))
    importlib.import_module("runtime.supervisor").__dict__["keep"] = lambda program, watchdog: None
    sys.path.insert(0, os.getcwd())
    sys.argv = words[1:]
    runpy.run_module(CHILD, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
