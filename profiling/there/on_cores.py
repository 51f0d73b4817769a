"""Runs another module of flowc on some cores of a machine, where its cores differ."""

from __future__ import annotations

import os
import runpy
import sys


def main(cores: str, module: str, *arguments: str) -> None:
    """Run a module as a program on the cores with these numbers, separated by commas."""
    numbers = map(int, cores.split(","))
    os.sched_setaffinity(0, set(numbers))
    sys.argv = [module, *arguments]
    package = (__package__ or "").partition(".profiling")[0]
    name = f"{package}.{module}"
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
