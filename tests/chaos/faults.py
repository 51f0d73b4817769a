"""The tasks of the programs that are hurt: a source that counts, a middle that passes on, a sink
that prints.

FAULT=POSITION:MOMENT:KIND in the environment says which of them goes wrong, when (start, fire,
close), and how. A firing goes wrong at the third token.
"""

import ctypes
import os
import signal
import sys
import time

import numpy as np

AT = 3


class Wordless(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


def say(line):
    """In one piece: threads print at the same time."""
    if "QUIET" not in os.environ:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def hang():
    say("hangs")
    while True:
        time.sleep(0.05)


def hold(library):
    say("hangs")
    while True:
        library.pause()


def fail(error):
    raise error


KINDS = {
    "raise": lambda: fail(ValueError("no luck")),
    "wordless": lambda: fail(Wordless()),
    "sysexit": lambda: sys.exit(0),
    "stop": lambda: fail(StopIteration()),
    "interrupt": lambda: fail(KeyboardInterrupt()),
    "memory": lambda: np.ones(1 << 50),
    "recursion": lambda: KINDS["recursion"](),
    "os_exit": lambda: os._exit(0),
    "c_exit": lambda: ctypes.CDLL(None).exit(0),
    "segv": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "sigstop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "kill": lambda: os.kill(os.getpid(), 9),
    "hang": hang,
    "c_hang": lambda: hold(ctypes.CDLL(None)),
    "hold": lambda: hold(ctypes.PyDLL(None)),
    "shape": lambda: np.zeros(3, np.int64),
    "dtype": lambda: np.zeros((), np.float32),
    "count": lambda: (1, 2),
    "none": lambda: None,
}
WHERE, MOMENT, KIND = (os.environ.get("FAULT") or "::").split(":")


class Task:
    name = ""

    def __init__(self):
        self.n = 0
        self.at("start")

    def at(self, moment):
        if (self.name, moment) == (WHERE, MOMENT):
            KINDS[KIND]()

    def close(self):
        say("closes " + self.name)
        self.at("close")

    def fired(self, n):
        """What goes out with the number `n`."""
        self.n += 1
        if self.n == AT and (self.name, "fire") == (WHERE, MOMENT):
            return KINDS[KIND]()
        return n


class Source(Task):
    name = "source"

    def __call__(self):
        return self.fired(self.n)


class Middle(Task):
    name = "middle"

    def __call__(self, n):
        return self.fired(n)


class Sink(Task):
    name = "sink"

    def __call__(self, n):
        self.fired(None)
        say(f"saw {int(n)}")
