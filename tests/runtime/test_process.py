"""Tasks in processes: nothing may differ from threads except who holds whom up."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from flowc.runtime import Code, Fire, Port, Process, Program, Python
from flowc.runtime import process as farewells
from flowc.runtime.lifecycle import execute
from flowc.runtime.reference import Reference, load_deployment

from builds import HANGS, ROOT, Write, build, harness, run, with_processes
from limits import ended

TASKS = """
import ctypes, os, sys, threading, time
import numpy as np

class Count:
    def __init__(self, limit=0):
        self.n, self.limit = 0, limit

    def __call__(self):
        if self.limit and self.n == self.limit:
            raise StopIteration
        self.n += 1
        return self.n - 1

class Frames:
    "Arrays whose every byte tells the firing."
    def __init__(self, shape, limit=0):
        self.n, self.shape, self.limit = 0, shape, limit

    def __call__(self):
        if self.limit and self.n == self.limit:
            raise StopIteration
        self.n += 1
        return np.full(self.shape, self.n % 251, np.uint8)

class Keep:
    def __init__(self):
        self.seen = []

    def __call__(self, n):
        self.seen.append(n)

    def close(self):
        print("seen", [n.tolist() if n.size < 9 else [n.shape, int(n.min()), int(n.max())] for n in self.seen])

class Total:
    def __init__(self, start=0):
        self.total = start

    def __call__(self, n):
        self.total += int(n)
        return self.total

    def close(self):
        print("total", self.total)

class Window:
    "Holds on to its inputs, which must stay what they were."
    def __init__(self, length):
        self.length, self.last = length, []

    def __call__(self, x):
        self.last = (self.last + [x])[-self.length:]
        return np.stack([y[:3] for y in self.last]).max(0) - self.last[0][:3] + 0 * x[:3]

def double(n):
    return 2 * n

def same(n):
    return n

def say(n, name, stream="stdout"):
    print(name, int(n), file=getattr(sys, stream), flush=True)
    return n

def hang(n):
    say(n, "in")
    while True:
        pass

def hold(n):
    "In C code that never lets go of the interpreter."
    say(n, "in")
    sum(range(10**12))
"""
INT = Port("n", "int64")
Wrap = Callable[[Code], Code]
Born = Callable[[], list[int]]


def thread(code: Code) -> Code:
    return code


def process(code: Code) -> Code:
    return Process(code)


def port(shape: tuple[int, ...] = (), dtype: str = "int64", rates: tuple[int, ...] = (1,)) -> Port:
    return Port("n", dtype, shape, rates)


def chain(
    home: Path, *stages: Code, ports: Port | tuple[Port, ...] = INT, capacity: int = 3
) -> Program:
    """A program: source, stages, sink, each on a processor of its own. Every port is the same, or
    the one given."""
    program = Program("t", str(home))
    app = program.app("A")
    between = ports if isinstance(ports, tuple) else (ports,) * (len(stages) - 1)
    tasks = []
    for i, code in enumerate(stages):
        inputs, outputs = between[i - 1 : i] if i else (), between[i : i + 1]
        tasks.append(app.task(f"A.{'abcdefgh'[i]}", code, inputs, outputs))
    for one, other in pairwise(tasks):
        program.channel(one, "n", other, "n", capacity)
    for i, task in enumerate(tasks):
        program.processor(f"cpu[{i}]", [Fire(task, len(between[0].rates))])
    return program


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the file of tasks lies."""
    (tmp_path / "t.py").write_text(TASKS)
    return tmp_path


def py(name: str, file: str = "t.py", /, **parameters: object) -> Python:
    return Python(file, name, **parameters)


def outcome(program: Program, frames: int | None = None, **options: object) -> tuple[str, str]:
    """Run; the failure with its traceback, empty where there was none."""
    good = execute(program, frames, **options)  # type: ignore[arg-type]
    assert good == (program.run.failure is None)
    failure = program.run.failure
    return (str(failure), failure.details) if failure else ("", "")


def seen(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("seen "))


def both(
    make: Callable[[Wrap], Program], frames: int | None = None, **options: object
) -> tuple[str, str]:
    """The same outcome, whether tasks are threads or processes."""
    there, here = (outcome(make(wrap), frames, **options) for wrap in (process, thread))
    assert there == here
    return there


# -- other processes -------------------------------------------------------------------------------
def children(parent: int) -> list[int]:
    """Processes that this one has started, and not those that are only waiting to be buried."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, mother = (place / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(mother) == parent and state != "Z":
            found.append(int(place.name))
    return found


def tasks_of(program: subprocess.Popen[str]) -> list[int]:
    """The processes of its tasks. What was started is its supervisor, whose only child it is."""
    (pid,) = children(program.pid)
    return children(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def born() -> Born:
    """Processes that this test has started and that are still there."""
    before = children(os.getpid())
    return lambda: [p for p in children(os.getpid()) if p not in before]


def gone(pids: list[int]) -> bool:
    """Wait until all of them are gone."""
    deadline = time.monotonic() + HANGS
    while any(alive(p) for p in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def main_py(home: Path, *stages: str, app: str = 'p.app("A")') -> Path:
    """A main.py as it would be generated, for a chain of tasks that pass whole numbers."""
    (home / "runtime").symlink_to(ROOT / "runtime")
    names = "abcdefgh"[: len(stages)]
    lines = []
    for i, (name, code) in enumerate(zip(names, stages, strict=True)):
        ends = ", inputs=[n]" * (i > 0) + ", outputs=[n]" * (i < len(stages) - 1)
        lines.append(f'{name} = app.task("A.{name}", {code}{ends})')
    lines += [f'p.channel({a}, "n", {b}, "n", capacity=3)' for a, b in pairwise(names)]
    lines += [f'p.processor("cpu[{i}]", [Fire({name})])' for i, name in enumerate(names)]
    body = "\n    ".join(lines)
    text = f"""
import os, sys
HOME = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HOME)
from runtime import Fire, Port, Process, Program, Python, main
print("main is", __name__, flush=True)

def program():
    p = Program("t", HOME)
    app = {app}
    n = Port("n", "int64")
    {body}
    return p

if __name__ == "__main__":
    sys.exit(main(program))
"""
    (home / "main.py").write_text(text)
    return home / "main.py"


@contextmanager
def started(main: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running program, leader of a group of its own as behind a terminal."""
    command = [sys.executable, str(main), "--quiet", *arguments]
    with subprocess.Popen(
        command,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def interrupted_again(program: subprocess.Popen[str]) -> str:
    """Send Ctrl-C to its group until it has ended; what it wrote to standard error.

    Two within a moment count as one, and a busy machine may hand two over at once: so there may be
    a third.
    """
    for _ in range(HANGS):
        os.killpg(program.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return program.communicate(timeout=1)[1]
    raise AssertionError("does not end")


def wait_for(program: subprocess.Popen[str], start: str) -> str:
    """Read its output up to that line."""
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith(start):
            return line
    raise AssertionError(f"no line {start}")


# -- results ---------------------------------------------------------------------------------------
def test_results_state_and_close_are_those_of_threads(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for wrap in (process, thread):
        total = wrap(py("Total", start=5))
        assert outcome(
            chain(home, wrap(py("Count", limit=30)), total, wrap(py("double")), wrap(py("Keep")))
        ) == (
            "",
            "",
        )
        said.append(sorted(capsys.readouterr().out.splitlines()))
    assert said[0] == said[1]
    expected = [2 * (5 + i * (i + 1) // 2) for i in range(30)]
    assert said[0] == [f"seen {expected}", f"total {expected[-1] // 2}"]


@pytest.mark.parametrize("shape", [(8_000_000,), (3, 0, 2), (100_000,)])
def test_tokens_of_any_size(
    home: Path, capsys: pytest.CaptureFixture[str], shape: tuple[int, ...]
) -> None:
    said = []
    for wrap in (process, thread):
        frames = wrap(py("Frames", shape=shape, limit=4))
        program = chain(
            home,
            frames,
            wrap(py("double" if 0 in shape else "same")),
            py("Keep"),
            ports=port(shape, "uint8"),
        )
        assert outcome(program) == ("", "")
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    if 0 not in shape:
        assert seen(said[0]) == f"seen {[[shape, i, i] for i in (1, 2, 3, 4)]}"


def test_rates_that_vary_from_firing_to_firing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0, 1 and 3 blocks in turn; of a size where slots are lent."""
    (home / "r.py").write_text(
        "import numpy as np\nclass Deal:\n"
        "    def __init__(self): self.n = 0\n"
        "    def __call__(self):\n"
        "        k = (0, 1, 3)[self.n % 3]\n        self.n += 1\n"
        "        return np.full((k, 20000), self.n, np.uint8)\n"
        "def more(x):\n    return x + np.uint8(len(x))\n"
    )
    said = []
    for wrap in (process, thread):
        ports = port((20000,), "uint8", (0, 1, 3))
        stages = [wrap(py("Deal", "r.py")), wrap(py("more", "r.py")), wrap(py("Keep"))]
        assert outcome(chain(home, *stages, ports=ports, capacity=8), 3, strict=True) == ("", "")
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    # Block after block: its number, and how many tokens it has.
    blocks = [
        [],
        [(1, 20000), 3, 3],
        [(3, 20000), 6, 6],
        [],
        [(1, 20000), 6, 6],
        [(3, 20000), 9, 9],
    ]
    assert seen(said[0]) == f"seen {[*blocks, [], [(1, 20000), 9, 9], [(3, 20000), 12, 12]]}"


def test_inputs_that_a_task_keeps_stay_what_they_were(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even more of them than there are slots; and outputs that a sink keeps."""
    said = []
    for wrap in (process, thread):
        ports = (port((20000,), "uint8"), port((3,), "uint8"))
        stages = [
            wrap(py("Frames", shape=(20000,), limit=30)),
            wrap(py("Window", length=12)),
            wrap(py("Keep")),
        ]
        assert outcome(chain(home, *stages, ports=ports)) == ("", "")
        stages = [wrap(py("Frames", shape=(20000,), limit=30)), wrap(py("same")), wrap(py("Keep"))]
        assert outcome(chain(home, *stages, ports=port((20000,), "uint8"))) == ("", "")
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and said[0].count("20000") == 30


def test_a_slot_is_used_again_as_soon_as_nothing_refers_to_it(home: Path) -> None:
    from flowc.runtime.pipes import LENT

    (home / "k.py").write_text(
        "import numpy as np\n\nclass Where:\n    kept = []\n    def __call__(self, x):\n"
        "        if x[0] == 7: self.kept.append(x[5:])\n        if x[0] == 8: self.kept.clear()\n"
        "        y = x.copy()\n        y[1] = x.ctypes.data // 4096 % 251\n        return y\n"
    )
    code, ports = Process(py("Where", "k.py")), [port((20000,), "uint8")]
    code.open(str(home), ports, ports)
    try:
        places = []
        for i in (1, 2, 7, 1, 1, 8, 1):
            (y,) = code.fire([np.full(20000, i, np.uint8)], 0)
            assert not y.flags.writeable and not y.flags.owndata and y[0] == i
            places.append(int(y[1]))
        first, second = places[0], places[3]
        assert first != second and places == [first, first, first, second, second, second, first]
        kept = [code.fire([np.full(20000, i, np.uint8)], 0)[0] for i in range(LENT + 3)]
        # `y` still has one
        assert [bool(y.flags.owndata) for y in kept] == [False] * (LENT - 1) + [True] * 4
        assert [int(y[0]) for y in kept] == list(range(LENT + 3))
        part = kept[0][100:]
        where = kept[0].ctypes.data
        del kept
        assert code.fire([np.zeros(20000, np.uint8)], 0)[0].ctypes.data != where and not part.any()
        del part
        assert code.fire([np.zeros(20000, np.uint8)], 0)[0].ctypes.data == where
    finally:
        code.close()


def test_replicas_fire_at_once_in_copies(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No firing ends before the other two of its three have begun."""
    (home / "w.py").write_text(
        "import os, time\nHOME = os.path.dirname(os.path.abspath(__file__))\n"
        "def who(n):\n"
        "    open(os.path.join(HOME, 'begun %d' % n), 'w').close()\n"
        "    first = n - n % 3\n"
        f"    give_up = time.monotonic() + {HANGS}\n"
        "    while not all(os.path.exists(os.path.join(HOME, 'begun %d' % (first + i))) for i in range(3)):\n"
        "        assert time.monotonic() < give_up, 'one after the other'\n"
        "        time.sleep(0.001)\n"
        "    return n\n"
    )
    program = Program("t", str(home))
    app = program.app("A")
    source = app.task("A.a", py("Count", limit=15), outputs=[INT])
    shared = app.task("A.b", Process(py("who", "w.py")), inputs=[INT], outputs=[INT])
    sink = app.task("A.c", py("Keep"), inputs=[INT])
    program.channel(source, "n", shared, "n", 6)
    program.channel(shared, "n", sink, "n", 6)
    program.processor("cpu[0]", [Fire(source)])
    for i in range(3):
        program.processor(f"cpu[{i + 1}]", [Fire(shared, replica=(i, 3))])
    program.processor("cpu[4]", [Fire(sink)])
    assert outcome(program) == ("", "")
    assert seen(capsys.readouterr().out) == f"seen {list(range(15))}"


def test_the_harness_and_the_reference_take_processes(write: Write, tmp_path: Path) -> None:
    flow = write(
        'type N = int64\ntask Count(limit: int = 0) { out n: N   python "t.py:Count" }\n'
        'task Total { in n: N   out m: N   python "t.py:Total" }\ntask Keep { in n: N   python "t.py:Keep" }\n'
        "app A { c: Count  t: Total  u: Total  k: Keep   c -> t -> u -> k }\n"
        "platform two { cpu core[2] }\n"
        "mapping on two { A.c -> core[0]  A.t -> core[0]  A.u -> core[1]  A.k -> core[0] }",
        t_py=TASKS,
    )
    out = build(flow, tmp_path / "out", platform="two")
    plain = run(out, "--frames", "9", "--quiet")
    main = out / "main.py"
    text, count = re.subn(
        r"^( +)(Python\(.*\)),$", r"\1Process(\2),", main.read_text(), flags=re.MULTILINE
    )
    assert count == 4 and "import Fire, Port, Program" in text
    with_processes(out, text)
    done = run(out, "--frames", "9", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    tested = harness(out)
    assert tested.returncode == 0, tested.stderr

    document = load_deployment(str(out))["apps"][0]
    reference = Reference(document, str(out))
    for name, (inputs, outputs, code) in reference._tasks.items():
        reference._tasks[name] = (inputs, outputs, Process(code))
    reference.run([(document, 6)], {"A.c": {i: [np.asarray(i)] for i in range(6)}}, {})
    assert [int(a[0]) for a in reference.expected["A.k"]] == [0, 1, 4, 10, 20, 35]


# -- where it runs ---------------------------------------------------------------------------------
def test_the_child_imports_the_task_and_not_the_program(home: Path) -> None:
    code = "import os, sys\nimport beside\nprint('imported by', os.getpid() == int(os.environ['MAIN']), sys.argv[1:], os.getcwd())\n"
    code += "def f(n):\n    return n + beside.ONE\n"
    (home / "f.py").write_text(code)
    (home / "beside.py").write_text("ONE = 1\n")
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "json.py").write_text(
        "raise SystemExit('not the library, but what lies where one starts')\n"
    )
    main = main_py(
        home,
        'Python("t.py", "Count", limit=3)',
        'Process(Python("f.py", "f"))',
        'Python("t.py", "Keep")',
    )
    main.write_text("import os\nos.environ['MAIN'] = str(os.getpid())\n" + main.read_text())
    command = [sys.executable, str(main), "--quiet"]
    done = subprocess.run(
        command, cwd=home / "elsewhere", capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "main is __main__", f"imported by False ['--quiet'] {home / 'elsewhere'}", "seen [1, 2, 3]"
    ]  # fmt: skip


def test_the_child_has_the_priority_of_its_worker(home: Path) -> None:
    (home / "p.py").write_text(
        "import os\ndef f():\n    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, len(os.sched_getaffinity(0))\n"
    )
    code, ports = Process(py("f", "p.py")), [Port(n, "int64") for n in "abc"]
    code.open(str(home), [], ports)
    got: list[object] = []

    def worker() -> None:
        tid = threading.get_native_id()
        try:
            os.sched_setscheduler(tid, os.SCHED_FIFO, os.sched_param(3))
            os.sched_setaffinity(tid, {min(os.sched_getaffinity(0))})
        except PermissionError as error:
            got.append(error)
        else:
            got.extend(int(x) for x in code.fire([], 0))

    one = threading.Thread(target=worker)
    one.start()
    ended(one)
    code.close()
    if isinstance(got[0], PermissionError):
        pytest.skip("no real-time priorities here")
    assert got == [os.SCHED_FIFO, 3, 1]


# -- failures --------------------------------------------------------------------------------------
BODIES = {
    "raises": "if n == 2: raise ValueError('no\\nmore ü')\n    return n",
    "chained": "try:\n        1 / 0\n    except ZeroDivisionError as e:\n        raise KeyError('k') from e",
    "shape": "import numpy as np\n    return np.zeros(3)",
    "count": "return n, n",
    "nothing": "return None",
    "read_only": "n += 1\n    return n",
    "stop": "raise StopIteration",
    "exit": "import sys\n    sys.exit(3)",
    "list": "return [1.5]",
    "lossless": "return [int(n)][0]",
    "late": "import numpy as np\n    return np.zeros(2, np.int64) if n == 2 else n",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_firing_fails_in_the_same_words(home: Path, body: str) -> None:
    (home / "bad.py").write_text(f"def bad(n):\n    {BODIES[body]}\n")

    def make(wrap: Wrap) -> Program:
        return chain(home, py("Count", limit=4), wrap(py("bad", "bad.py")), py("Keep"))

    reason, details = both(make, strict=True)
    if body == "lossless":
        assert reason == ""
    else:
        at = 2 if body in ("raises", "late") else 0
        assert reason.startswith(f"app A, task A.b failed at firing {at}: ")
        assert details.count("bad.py") == {
            "raises": 1,
            "chained": 1,
            "read_only": 1,
            "exit": 1,
        }.get(body, 0)


OPENINGS = {
    "module": ("import no_such_module\ndef f(n):\n    return n\n", {}),
    "syntax": ("def f(n:\n", {}),
    "module_code": ("def g():\n    return 1 / 0\ng()\n", {}),
    "constructor": ("class f:\n    def __init__(self):\n        raise OSError('no device')\n", {}),
    "parameters": ("class f:\n    def __init__(self, a):\n        pass\n", {"b": 1}),
    "file": (None, {}),
}


@pytest.mark.parametrize("kind", OPENINGS)
def test_a_task_cannot_start_in_the_same_words(home: Path, born: Born, kind: str) -> None:
    text, parameters = OPENINGS[kind]
    if text is not None:
        (home / "f.py").write_text(text)

    def make(wrap: Wrap) -> Program:
        return chain(home, py("Count"), wrap(py("f", "f.py", **parameters)), wrap(py("Keep")))

    reason, _ = both(make)
    assert reason.startswith("app A, task A.b failed: cannot start: ")
    assert not born()


def test_parameters_that_cannot_be_sent_are_told(home: Path) -> None:
    program = chain(home, Process(py("Count", limit=lambda: 4)), py("Keep"))
    assert outcome(program)[0].startswith(
        "app A, task A.a failed: cannot start: its parameters cannot be sent to a process: "
    )


def test_what_reaches_a_process_is_checked_where_it_is_made(home: Path) -> None:
    """It would not fit into the memory."""
    (home / "w.py").write_text(
        "import numpy as np\ndef wide(n):\n    return n if n < 2 else np.zeros(9)\n"
    )
    program = chain(home, py("Count", limit=4), py("wide", "w.py"), Process(py("same")), py("Keep"))
    assert (
        outcome(program)[0]
        == "app A, task A.b failed at firing 2: returned float64[9] for port `n`, which is int64[]"
    )


DEATHS = {
    "os._exit(3)": "its process exited with status 3",
    "os.kill(os.getpid(), 9)": "its process was ended by SIGKILL (Killed)",
    "ctypes.string_at(0)": "its process was ended by SIGSEGV (Segmentation fault)",
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_child_that_dies_stops_everything(
    home: Path, born: Born, capfd: pytest.CaptureFixture[str], death: str
) -> None:
    (home / "d.py").write_text(
        f"import ctypes, os, time\ndef die(n):\n    if n == 2:\n        print('last words')\n        {death}\n    return n\n"
    )
    reason = f"app A, task A.b failed at firing 2: {DEATHS[death]}"
    program = chain(home, py("Count"), Process(py("die", "d.py")), py("Keep"))
    assert outcome(program) == (reason, "")
    assert "last words" in capfd.readouterr().out.splitlines()
    assert gone(born())


def test_no_process_waits_for_what_a_dead_child_has_started(home: Path, born: Born) -> None:
    """A process forked by the task lives on, and has all that its mother had."""
    (home / "d.py").write_text(
        "import os, signal, time\ndef die(n):\n    heir = os.fork()\n    if heir:\n"
        f"        open({str(home / 'heir')!r}, 'w').write(str(heir))\n        os.kill(os.getpid(), 9)\n"
        f"    time.sleep({HANGS})\n    os._exit(0)\n"
    )
    program = chain(home, py("Count"), Process(py("die", "d.py")), py("Keep"))
    reason, _ = outcome(program)
    heir = int((home / "heir").read_text())
    try:
        assert (
            reason
            == "app A, task A.b failed at firing 0: its process was ended by SIGKILL (Killed)"
        )
        assert gone(born()) and alive(heir)
    finally:
        os.kill(heir, signal.SIGKILL)


def test_a_child_that_is_killed_between_firings_stops_everything(home: Path) -> None:
    main = main_py(
        home,
        'Python("t.py", "Count")',
        'Process(Python("t.py", "say", name="b"))',
        app='p.app("A", period="100000000")',
    )
    with started(main) as program:
        wait_for(program, "b 1")
        (child,) = tasks_of(program)
        os.kill(child, signal.SIGKILL)
        _, stderr = program.communicate(timeout=HANGS)
    assert program.returncode == 1
    assert re.search(
        r"app A, task A\.b failed at firing \d+: its process was ended by SIGKILL", stderr
    ), stderr


def test_a_failing_close_is_told(home: Path) -> None:
    (home / "c.py").write_text(
        "class Close:\n    def __call__(self, n):\n        pass\n    def close(self):\n        1 / 0\n"
    )
    reason, details = both(
        lambda wrap: chain(home, py("Count", limit=2), wrap(py("Close", "c.py")))
    )
    assert (
        reason == "app A, task A.b failed: close: ZeroDivisionError: division by zero"
        and "line 5" in details
    )


def test_the_watchdog_ends_a_child_that_hangs(
    home: Path, born: Born, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other tasks are closed, although one never returned."""
    program = chain(home, py("Count"), Process(py("Total")), Process(py("hold")))
    reason, _ = outcome(program, watchdog=2.0)  # enough for the others on a busy machine
    assert re.match(r"app A, task A\.c failed at firing 0: did not return for \d+ s; ", reason), (
        reason
    )
    assert not born()
    assert "total " in capsys.readouterr().out


# -- signals ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrap", ["Process(%s)", "%s"])
def test_ctrl_c_reaches_the_children_and_changes_nothing(home: Path, wrap: str) -> None:
    stages = [
        'Python("t.py", "Count")',
        'Python("t.py", "say", name="b")',
        'Python("t.py", "Keep")',
    ]
    main = main_py(home, *[wrap % s for s in stages], app='p.app("A", period="10000000")')
    with started(main) as program:
        wait_for(program, "b 3")
        born = tasks_of(program)
        assert len(born) == (3 if "Process" in wrap else 0)
        os.killpg(program.pid, signal.SIGINT)
        stdout, stderr = program.communicate(timeout=HANGS)
    assert (program.returncode, stderr) == (130, "")
    kept = eval(seen(stdout)[5:])
    assert kept == list(range(len(kept))) and len(kept) > 3
    assert gone(born)


@pytest.mark.parametrize("what", ["hang", "hold"])
def test_a_second_signal_ends_a_child_that_hangs(home: Path, what: str) -> None:
    main = main_py(home, 'Python("t.py", "Count")', f'Process(Python("t.py", "{what}"))')
    with started(main) as program:
        wait_for(program, "in 0")
        born = tasks_of(program)
        stderr = interrupted_again(program)
    assert program.returncode == 130, stderr
    assert len(born) == 1 and gone(born)


@pytest.mark.parametrize("what", ["say", "hang", "hold"])
def test_nothing_is_left_when_the_program_is_killed(home: Path, what: str) -> None:
    """Between firings, in Python code, and in C code that does not let the interpreter go."""
    before = set(os.listdir("/dev/shm"))
    stages = [
        'Process(Python("t.py", "Count"))',
        f'Process(Python("t.py", "{what}"%s))' % (', name="in"' * (what == "say")),
    ]
    main = main_py(home, *stages, app='p.app("A", period="1000000000")')
    with started(main) as program:
        wait_for(program, "in 0")
        born = tasks_of(program)
        assert len(born) == 2 and set(os.listdir("/dev/shm")) <= before
        program.kill()
        program.wait(HANGS)
        assert gone(born)


def test_a_signal_while_a_task_is_opened_leaves_nothing(home: Path) -> None:
    (home / "slow.py").write_text(
        f"import time\nprint('opening', flush=True)\ntime.sleep({HANGS})\n"
    )
    main = main_py(home, 'Process(Python("t.py", "Count"))', 'Process(Python("slow.py", "f"))')
    with started(main) as program:
        wait_for(program, "opening")
        born = tasks_of(program)
        os.killpg(program.pid, signal.SIGINT)
        _, stderr = program.communicate(timeout=HANGS)
    assert (program.returncode, stderr) == (130, "")
    assert len(born) == 2 and gone(born)


# -- what tasks print ------------------------------------------------------------------------------
def test_lines_come_in_the_order_in_which_they_are_printed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One task after the other prints a line, here and there, to both streams; a part of a line,
    and no ASCII."""
    (home / "s.py").write_text(
        "import sys\ndef part(n):\n    print('part', end=' ')\n    sys.stderr.write('ü€')\n    return n\n"
        "def thread_part(n):\n    import threading\n    t = threading.Thread(target=print, args=('thread', int(n)))\n"
        "    t.start()\n    t.join()\n    return n\n"
    )

    def make(wrap: Wrap) -> Program:
        stages = [
            py("Count", limit=20),
            wrap(py("say", name="b")),
            py("say", name="c"),
            wrap(py("say", name="d", stream="stderr")),
            wrap(py("part", "s.py")),
            wrap(py("thread_part", "s.py")),
            wrap(py("Keep")),
        ]
        program = chain(home, *stages, capacity=1)
        entries = [processor.order[0] for processor in program.processors]
        program.processors.clear()
        # one worker: one order of all lines
        program.processor("cpu", entries)
        return program

    said = []
    for wrap in (process, thread):
        assert outcome(make(wrap)) == ("", "")
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert said[0].err == "".join(f"d {i}\nü€" for i in range(20))
    assert said[0].out.startswith("b 0\nc 0\npart thread 0\nb 1\nc 1\n")


def test_no_process_reads_what_the_program_prints(home: Path) -> None:
    for wrap in ("Process(%s)", "%s"):
        main = main_py(home, 'Python("t.py", "Count")', wrap % 'Python("t.py", "say", name="b")')
        with started(main) as program:
            wait_for(program, "b 0")
            assert program.stdout is not None and program.stderr is not None
            program.stdout.close()
            assert program.wait(HANGS) == 1
            stderr = program.stderr.read()  # no limit: it has ended
        assert re.search(
            r"task A\.b failed at firing \d+: BrokenPipeError: \[Errno 32\] Broken pipe", stderr
        ), stderr
        (home / "runtime").unlink()


def test_what_a_task_leaves_to_its_exit(
    home: Path, born: Born, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last lines arrive; a thread of its own does not keep it alive."""
    code = "import atexit, os, sys, threading, time\natexit.register(print, 'at exit')\n"
    code += (
        f"def f(n):\n    threading.Thread(target=time.sleep, args=({HANGS} * int(n),)).start()\n"
    )
    (home / "e.py").write_text(code)
    start = time.monotonic()
    assert outcome(chain(home, py("Count", limit=2), Process(py("f", "e.py")))) == ("", "")
    assert "at exit" not in capfd.readouterr().out
    assert time.monotonic() - start < HANGS and not born()
    monkeypatch.setattr(farewells, "FAREWELL", HANGS)
    assert outcome(chain(home, py("Count", limit=1), Process(py("f", "e.py")))) == ("", "")
    assert "at exit" in capfd.readouterr().out
    assert not born()


def test_without_memory_files_another_file_without_a_name_does(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(os.listdir("/dev/shm"))
    monkeypatch.delattr(os, "memfd_create")
    code, ports = Process(py("same")), [port((20000,), "uint8")]
    code.open(str(home), ports, ports)
    assert set(os.listdir("/dev/shm")) <= before
    (same,) = code.fire([np.full(20000, 7, np.uint8)], 0)
    code.close()
    assert same.min() == same.max() == 7  # memory is there as long as an array needs it


# -- where there is no room ------------------------------------------------------------------------
WITHOUT_MEMFD = """
import os, runpy, sys
del os.memfd_create
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SMALL_FOLDER = 'mount -t tmpfs -o size=256k none /dev/shm && exec "$@"'


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))


@pytest.mark.parametrize("way", ["limit", "folder"])
def test_memory_that_is_too_small_is_told_at_the_start(home: Path, way: str) -> None:
    """By a limit, or because /dev/shm is full, where a kernel has no memory without a name."""
    main = main_py(
        home, 'Python("t.py", "Frames", shape=(100_000,))', 'Process(Python("t.py", "Keep"))'
    )
    main.write_text(
        main.read_text().replace('Port("n", "int64")', 'Port("n", "uint8", (100_000,))')
    )
    words = [sys.executable, str(main), "--frames", "3"]
    if way == "folder":
        words = [
            "unshare",
            "-rm",
            "sh",
            "-c",
            SMALL_FOLDER,
            "sh",
            sys.executable,
            "-c",
            WITHOUT_MEMFD,
            *words[1:],
        ]
        mounted = ["unshare", "-rm", "sh", "-c", SMALL_FOLDER, "sh", "true"]
        if subprocess.run(mounted, timeout=HANGS, check=False).returncode:
            pytest.skip("nothing can be mounted here")
    limit = _small_files if way == "limit" else None
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=HANGS, check=False, preexec_fn=limit
    )
    assert done.returncode == 1
    said = r"flowc: app A, task A\.b failed: cannot start: no room for tokens in shared memory \(\d\.\d MB\): .*\n"
    assert re.fullmatch(said, done.stderr), done.stderr
