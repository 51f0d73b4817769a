"""Building the engines of a program (plans of TensorRT, models of RKNN) on the machine that it runs
on.

In: a build, and its path there. Out: nothing, or why that is not possible. They are named after
what they depend on and stay on the machine, so that only missing ones are built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from ..machines.board import BUILDER
from ..machines.host import Host, last_words


def build_engines(
    directory: Path, tree: str, host: Host, report: Callable[[str], None] | None = None
) -> str:
    """Build the engines of the build in `directory` on `host`, where it is `tree`; returns why not,
    or nothing."""
    script = directory / BUILDER
    if not script.exists():
        return ""
    wanted = hashlib.sha256(script.read_bytes()).hexdigest()  # it names all of them
    if wanted in host.made:
        return ""
    if report is not None:
        report("building engines, which takes minutes the first time")
    done = host.execute([*host.python, BUILDER], cwd=tree)
    if not done.status:
        host.made.add(wanted)
        return ""
    return (
        "the engines cannot be built"
        f" there\n{last_words(done.stderr) or f'exit status {done.status}'}"
    )
