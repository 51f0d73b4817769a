"""Python processes that cost little: forks of one that has imported what they need.

Starting Python and importing numpy takes longer than most programs of the tests run, and flowc
takes twice as long. A fork has modules already, and is otherwise what `python SCRIPT` or `python -m
MODULE` would be: a process of its own, with its own arguments, folder, environment and output, and
an ordinary end. Tests of what happens when Python starts, of signals, and of what is imported start
Python itself.

A fork has none of the threads that a library has started, and onnxruntime waits for its own for
ever: it is not among the modules.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from limits import HANGS, MOMENT

#: What programs and their harnesses import; nothing of flowc is with them.
PROGRAM = (
    "argparse",
    "ctypes",
    "json",
    "logging",
    "numpy.random",
    "platform",
    "subprocess",
    "tempfile",
    "unittest.main",
)
#: What most verbs import.
FLOWC = (
    "flowc.cli._diagnostics",
    "flowc.driver.build.build",
    "flowc.driver.measure.measure",
    "flowc.driver.execute.run",
    "networkx",
    "onnx",
    "pydantic",
    "typer._adapters",
)


class Forks:
    """Starts processes that have imported these modules; one caller at a time."""

    def __init__(self, *modules: str, **environment: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__, *modules], env={**os.environ, **environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._said = b""
        atexit.register(self.close)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: str | Path,
        timeout: float,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `SCRIPT ARGUMENT...`, or `-m MODULE ARGUMENT...`, as `subprocess.run` would. Raises
        TimeoutExpired."""
        (done,) = self.at_once([command], cwd=cwd, timeout=timeout, env=env)
        return done

    def at_once(
        self,
        commands: Sequence[Sequence[str | Path]],
        *,
        cwd: str | Path,
        timeout: float,
        env: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
    ) -> list[subprocess.CompletedProcess[str]]:
        """The same for several at a time; each may have an environment of its own."""
        words = [[str(w) for w in command] for command in commands]
        own = [env or os.environ] * len(words) if isinstance(env, Mapping | None) else env
        cases = [
            {"words": w, "cwd": str(cwd), "environment": dict(e)}
            for w, e in zip(words, own, strict=True)
        ]
        assert self._server.stdin is not None
        print(json.dumps(cases), file=self._server.stdin, flush=True)
        pids = self._answer(timeout)
        try:
            ended = self._answer(timeout)
        except TimeoutError:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            self._answer(timeout)
            raise subprocess.TimeoutExpired(words[0], timeout) from None
        return [subprocess.CompletedProcess(w, *end) for w, end in zip(words, ended, strict=True)]

    def _answer(self, timeout: float) -> Any:
        """The next line that the server says. Raises TimeoutError."""
        assert self._server.stdout is not None
        end = time.monotonic() + timeout
        while b"\n" not in self._said:
            if not select.select([self._server.stdout], [], [], max(0.0, end - time.monotonic()))[
                0
            ]:
                raise TimeoutError
            # no limit: `select` says that there is something
            more = os.read(self._server.stdout.fileno(), 1 << 16)
            assert more, "the server has ended"
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the server."""
        atexit.unregister(self.close)
        self._server.communicate(timeout=HANGS)


@functools.cache
def forks(*modules: str) -> Forks:
    """Those that all tests of this process share."""
    return Forks(*modules)


# -- the server, a process of its own --------------------------------------------------------------
def _forked(case: dict[str, Any], outputs: Sequence[int]) -> int:
    """The number of the process, or 0 in it; it writes to these files."""
    child = os.fork()
    if child:
        return child
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *outputs)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(case["environment"])
    os.chdir(case["cwd"])
    sys.orig_argv = [sys.executable, *case["words"]]
    return 0


def _next() -> list[str]:
    """Start what is asked for. Comes back in each process that was started, and in the server at
    the end."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        cases = json.loads(line)
        outputs = [[_output() for _ in range(2)] for _ in cases]
        children = []
        for case, files in zip(cases, outputs, strict=True):
            children.append(_forked(case, files))
            if not children[-1]:
                requests.close()
                answers.close()
                words: list[str] = case["words"]
                return words
        print(json.dumps(children), file=answers, flush=True)
        # no limit: who asked for them kills those that take too long
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        ended = [
            [status, *map(_written, files)] for status, files in zip(statuses, outputs, strict=True)
        ]
        print(json.dumps(ended), file=answers, flush=True)
    return []


def _output() -> int:
    """A file in memory. It is appended to: two threads that write at once would otherwise write
    over each other, for the position of such a file has no lock.
    """
    file = os.memfd_create("output")
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


def _written(file: int) -> str:
    """All that is in it; it is closed."""
    with open(file, errors="surrogateescape") as text:
        text.seek(0)
        return text.read()


def _compile_once() -> None:
    """Each build has a copy of the runtime, which Python would compile anew in each of them."""
    made = {
        content: compile(content, str(file), "exec", dont_inherit=True)
        for file in (Path(__file__).resolve().parents[2] / "runtime").glob("*.py")
        for content in [file.read_bytes()]
    }
    loader: Any = SourceFileLoader
    compiled = loader.source_to_code

    def source_to_code(self: SourceFileLoader, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        known = made.get(bytes(data)) if isinstance(data, (bytes, bytearray, memoryview)) else None
        if known is None:
            return compiled(self, data, path, _optimize=_optimize)
        return _in_file(known, os.fspath(path))

    loader.source_to_code = source_to_code


def _prepare() -> None:
    """What the first build of a process reads and compiles: the grammar, and the templates of
    programs."""
    from flowc.codegen.printing import printing
    from flowc.dsl.parse import Parser

    Parser().parse("", "")
    templates = printing()
    for name in templates.list_templates(filter_func=lambda name: name.startswith("python/")):
        templates.get_template(name)


def _in_file(code: CodeType, path: str) -> CodeType:
    """The same code, as if it came from there."""
    constants = tuple(_in_file(c, path) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=path, co_consts=constants)


def _main(*modules: str) -> None:
    _compile_once()
    sys.dont_write_bytecode = True  # most builds run once
    for name in modules:
        with contextlib.suppress(ImportError):  # then no program will import it either
            importlib.import_module(name)
    if "flowc.cli._common" in sys.modules:
        # what is said every few seconds says how busy the machine is
        sys.modules["flowc.cli._common"].progress.between = float("inf")
        measuring: Any = sys.modules["flowc.driver.measure.measure"]
        measuring.SHORT = MOMENT
        _prepare()
    words = _next()
    if words[:1] == ["-m"]:
        sys.argv, sys.path[0] = words[1:], os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words:
        sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _main(*sys.argv[1:])
