"""How often Python changes threads while a program runs: a setting of the whole process."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterator

#: A thread that computes in Python may keep the interpreter this long; ONNX Runtime's threads wait
#: for it.
SECONDS = 0.0005

#: Programs of one process share it, also those with a copy of the runtime of their own.
_shared: Dict[str, Any] = vars(sys).setdefault(
    "_flowc_interval", {"lock": threading.Lock(), "programs": 0, "before": 0.0}
)


@contextmanager
def short_interval() -> Iterator[None]:
    """Change threads often until the last program that asked for it has ended."""
    with _shared["lock"]:
        if not _shared["programs"]:
            _shared["before"] = sys.getswitchinterval()
            sys.setswitchinterval(SECONDS)
        _shared["programs"] += 1
    try:
        yield
    finally:
        with _shared["lock"]:
            _shared["programs"] -= 1
            if not _shared["programs"]:
                sys.setswitchinterval(_shared["before"])
