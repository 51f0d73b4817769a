"""Run an entry point of a package on the stand-ins for ROS 2: `run.py FOLDER MODULE ARGUMENT...`
calls its `main`."""

from __future__ import annotations

import importlib
import os
import sys

if __name__ == "__main__":
    folder, module = sys.argv[1:3]
    sys.argv[:] = sys.argv[2:]
    sys.path[:0] = [folder, os.path.dirname(os.path.abspath(__file__))]
    sys.exit(importlib.import_module(module).main())
