"""Which local files a C or CUDA source includes."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from ..model.files import read_bytes

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def c_includes(path: Path) -> tuple[Path, ...]:
    """The local files that a C source includes, directly or through each other."""
    headers: dict[Path, None] = {}
    waiting = [Path(os.path.abspath(path))]
    texts = {waiting[0]: _text(waiting[0])}
    while waiting:
        current = waiting.pop()
        for name in _INCLUDE.findall(texts.pop(current)):
            included = Path(os.path.abspath(current.parent / name))
            if included in headers:
                continue
            with contextlib.suppress(OSError):  # the compiler reports missing and unreadable files
                texts[included] = _text(included)
                headers[included] = None
                waiting.append(included)
    return tuple(sorted(headers))


def _text(path: Path) -> str:
    return read_bytes(path).decode(errors="replace")
