"""Programs inside of this process: what is put in comes out, for each caller and at each end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.runtime.embed import Running

import models
from builds import HANGS, Write, build, harness, run
from limits import ended, next_line

TASKS = """
import os, time
import numpy as np

def halve(image):
    return image.astype(np.float32) / 2

def total(x):
    if x[0, 0] == 77:
        raise ValueError("no luck with 77")
    return x.sum(axis=0)

def more(y):
    return y + 1

class Number:
    def __init__(self):
        self.n = 0

    def __call__(self, *inputs):
        self.n += 1
        return np.float32(self.n)

class Gate:
    '''Waits for a file at its first firing; says that it does.'''

    def __init__(self, folder):
        self.folder, self.fired = folder, 0

    def __call__(self, y):
        self.fired += 1
        if self.fired == 1:
            open(os.path.join(self.folder, "began"), "w").close()
            while not os.path.exists(os.path.join(self.folder, "open")):
                time.sleep(0.005)
        if y[0] < 0:
            raise ValueError("negative")
        return y
"""
TYPES = """
type Image = uint8[4, 3]
type Row = float32[3]
task Halve { in image: Image   out x: float32[4, 3]   python "t.py:halve" }
task Total { in x: float32[4, 3]   out y: Row   python "t.py:total" }
task More  { in y: Row   out z: Row   python "t.py:more" }
task Gate(folder: string) { in y: Row   out z: Row   python "t.py:Gate" }
platform two { cpu core[2] }
"""
SERVICE = (
    TYPES
    + """
app Service {
    in image: Image   out answer: Row
    halve: Halve   total: Total   more: More
    image -> halve -> total -> more -> answer
}
mapping on two { Service.image -> core[0]  Service.halve -> core[0]  Service.total -> core[1]
                 Service.more -> core[0]  Service.answer -> core[0] }
"""
)


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 70, (4, 3), np.uint8)


def plain(given: np.ndarray) -> np.ndarray:
    """The service as a function."""
    found: np.ndarray = (given.astype(np.float32) / 2).sum(axis=0) + 1
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build whose tasks go to one processor, the next one, and back."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "app.flow").write_text(SERVICE)
    (folder / "t.py").write_text(TASKS)
    return build(folder / "app.flow", folder / "out", platform="two")


@pytest.fixture
def gate(write: Write, tmp_path: Path) -> tuple[Path, Callable[[], None], Callable[[], None]]:
    """A build that holds its first token back: until when to wait for that, and how to let it
    go."""
    flow = write(
        TYPES
        + f'app Held {{ in y: Row  out z: Row   gate: Gate(folder = "{tmp_path}")   y -> gate -> z }}',
        t_py=TASKS,
    )

    def until_it_began() -> None:
        while not (tmp_path / "began").exists():
            time.sleep(0.005)

    return build(flow, tmp_path / "out"), until_it_began, (tmp_path / "open").touch


# -- answers ---------------------------------------------------------------------------------------
def test_the_only_request_is_answered(service: Path) -> None:
    """Nothing waits for the request after it, on whatever processors the tasks are."""
    with flowc.open(service) as running:
        for seed in range(3):
            np.testing.assert_array_equal(
                running.ask(image(seed)).result(HANGS), plain(image(seed))
            )


def test_each_of_a_thousand_requests_at_random_moments_gets_its_own_answer(service: Path) -> None:
    moments = random.Random(1)

    async def request(running: Running, seed: int, after: float) -> None:
        await asyncio.sleep(after)
        if seed % 2:
            answer = await running.aask(image(seed))
        else:
            answer = await asyncio.wrap_future(running.ask(image(seed)))
        np.testing.assert_array_equal(answer, plain(image(seed)))

    async def requests(running: Running) -> None:
        await asyncio.gather(
            *(request(running, seed, moments.random() / 2) for seed in range(1000))
        )

    with flowc.open(service) as running:
        asyncio.run(requests(running))
        assert running.report()["tasks"]["Service.answer"]["firings"] <= 1000
    assert running.report()["apps"]["Service"]["frames"] == 1000


def test_threads_ask_at_once(service: Path) -> None:
    def asks(running: Running, thread: int) -> None:
        for seed in range(1000 * thread, 1000 * thread + 100):
            np.testing.assert_array_equal(
                running.ask(image(seed)).result(HANGS), plain(image(seed))
            )

    with flowc.open(service) as running, ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(asks, running, thread) for thread in range(4)]:
            done.result(HANGS)


def test_what_is_put_comes_out_in_order(service: Path) -> None:
    with flowc.open(service) as running:

        def put() -> None:
            for seed in range(200):
                running.put(image(seed))
            running.end()

        thread = threading.Thread(target=put)
        thread.start()
        results = list(running)
        ended(thread)
    assert len(results) == 200
    for seed, result in enumerate(results):
        np.testing.assert_array_equal(result, plain(image(seed)))


def test_who_puts_keeps_his_array_and_who_gets_cannot_change_it(service: Path) -> None:
    with flowc.open(service) as running:
        buffer, expected = image(1), plain(image(1))
        running.put(buffer)
        buffer[:] = 0
        result = running.get(timeout=HANGS)
        np.testing.assert_array_equal(result, expected)
        with pytest.raises(ValueError, match="read-only"):
            result[0] = 1


def test_what_does_not_fit_is_refused_at_once(service: Path) -> None:
    good = image(1)
    with flowc.open(service) as running:
        for bad, given in (
            (good.astype(float), r"float64\[4, 3\]"),
            (good[0], r"uint8\[3\]"),
            ([[1, 2, 300]] * 4, "list"),
            ([[1, 2], [3]], "list"),
            (None, "nothing"),
        ):
            with pytest.raises(
                ValueError, match=r"`image` takes uint8\[4, 3\], and was given " + given
            ):
                running.put(bad)
            with pytest.raises(ValueError, match="was given"):
                running.ask(bad)
        running.put(good.tolist())
        np.testing.assert_array_equal(running.get(timeout=HANGS), plain(good))
        for wrong in (
            lambda: running.put(good, good),
            lambda: running.put(),
            lambda: running.put(picture=good),
        ):
            with pytest.raises(TypeError, match="image"):
                wrong()
        with pytest.raises(TypeError, match="it gives `answer`"):
            running.get("image")


def test_who_puts_waits_for_room(service: Path) -> None:
    """There is little room: results that the caller does not get hold up what it puts."""
    with flowc.open(service) as running:
        count = 0
        with pytest.raises(TimeoutError):
            while count < 200:
                running.put(image(count), timeout=0.3)
                count += 1
        for seed in range(count):
            np.testing.assert_array_equal(running.get(timeout=HANGS), plain(image(seed)))
        with pytest.raises(TimeoutError):
            running.get(timeout=0.01)


def test_the_event_loop_goes_on_while_requests_wait_for_room(gate: Any) -> None:
    build, _, let_go = gate

    async def requests(running: Running) -> list[Any]:
        asked = [asyncio.ensure_future(running.aask(np.full(3, n, np.float32))) for n in range(30)]
        while not (build.parent / "began").exists():
            await asyncio.sleep(0.005)
        asked[29].cancel()  # it has not come in yet
        await asyncio.sleep(0)
        let_go()
        return await asyncio.gather(*asked, return_exceptions=True)

    with flowc.open(build) as running:
        answers = asyncio.run(requests(running))
    assert [float(a[0]) for a in answers[:29]] == list(range(29))
    assert isinstance(answers[29], asyncio.CancelledError)
    assert running.report()["tasks"]["Held.gate"]["firings"] == 29


def test_answers_to_coroutines_have_a_thread_that_ends_with_the_program(service: Path) -> None:
    """Also where the loop of a coroutine that asked is gone: others get theirs."""

    def messengers() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "answers"}

    async def leave(running: Running) -> None:
        asyncio.ensure_future(running.aask(image(1)))  # noqa: RUF006 - it is left behind
        await asyncio.sleep(0)

    before = messengers()
    with flowc.open(service) as running:
        running.ask(image(0)).result(timeout=HANGS)
        assert messengers() == before  # where threads ask, there is none
        asyncio.run(leave(running))
        for seed in range(2, 5):
            found = asyncio.run(running.aask(image(seed)))
            np.testing.assert_array_equal(found, plain(image(seed)))
        made = messengers() - before
    assert len(made) == 1
    ended(*made)


# -- several ends ----------------------------------------------------------------------------------
def test_several_ends_are_named(write: Write, tmp_path: Path) -> None:
    flow = write(
        TYPES
        + """
        task Add { in a: Row  in b: Row  out c: Row   python "add.py:add" }
        app Pair { in a: Row  in b: Row  out c: Row  out d: Row   add: Add  more: More
                   a -> add.a  b -> add.b  add -> c  add -> more -> d }
        app Other { in y: Row  out z: Row   more: More   y -> more -> z }
        """,
        t_py=TASKS,
        add_py="def add(a, b): return a + 10 * b",
    )
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    with flowc.open(build(flow, tmp_path / "out")) as running:
        with pytest.raises(TypeError, match="the apps `Pair`, `Other` have open ends"):
            running.put(one)
        with pytest.raises(ValueError, match="there is `Pair`, `Other`"):
            running.app("Pear")
        pair, other = running.app("Pair"), running.app("Other")
        answer = pair.ask(b=two, a=one).result(HANGS)
        assert {n: a.tolist() for n, a in answer.items()} == {"c": [21] * 3, "d": [22] * 3}
        assert other.ask(one).result(HANGS).tolist() == [2, 2, 2]
        pair.put(a=two, b=one)
        assert {n: a.tolist() for n, a in pair.get(timeout=HANGS).items()} == {
            "c": [12] * 3,
            "d": [13] * 3,
        }
        pair.put(a=two, b=one)
        assert pair.get("d", timeout=HANGS).tolist() == [13] * 3
        with pytest.raises(TypeError, match="`b` is missing"):
            pair.put(a=one)
        with pytest.raises(TypeError, match="give each by name"):
            pair.put(one)
        pair.end()
        with pytest.raises(running.Closed):
            pair.put(a=one, b=one)
        assert other.ask(one).result(HANGS).tolist() == [2, 2, 2]  # the other one goes on


def test_ends_with_rates_of_their_own(write: Write, tmp_path: Path) -> None:
    flow = write(
        TYPES
        + """
        task Mean { in y: Row rate 2   in k: float32   out z: Row   python "mean.py:mean" }
        app Uneven { in y: Row  in k: float32  out z: Row   mean: Mean   y -> mean.y  k -> mean.k  mean -> z }
        app Late { in y: Row  out z: Row   more: More   y -> more -> delay 1 -> z }
        """,
        t_py=TASKS,
        mean_py="def mean(y, k): return k * y.mean(axis=0)",
    )
    with flowc.open(build(flow, tmp_path / "out")) as running:
        uneven, late = running.app("Uneven"), running.app("Late")
        with pytest.raises(TypeError, match="tokens in one iteration are y 2, k 1, z 1"):
            uneven.ask(y=[0, 0, 0], k=1)
        uneven.put(y=np.zeros(3, np.float32), k=10)
        uneven.put(y=np.full(3, 4, np.float32))
        assert uneven.get(timeout=HANGS).tolist() == [20, 20, 20]
        with pytest.raises(TypeError, match="a delay lies before `z`"):
            late.ask(np.zeros(3, np.float32))
        late.put(np.zeros(3, np.float32))
        late.put(np.zeros(3, np.float32))
        assert [late.get(timeout=HANGS).tolist() for _ in range(2)] == [[0, 0, 0], [1, 1, 1]]


# -- ends ------------------------------------------------------------------------------------------
def test_after_the_end(service: Path) -> None:
    with flowc.open(service) as running:
        running.put(image(1))
        running.end()
        for late in (lambda: running.put(image(1)), lambda: running.ask(image(1))):
            with pytest.raises(running.Closed, match="app Service"):
                late()
        assert len(list(running)) == 1
        assert list(running) == []
        with pytest.raises(running.Closed):
            running.get(timeout=HANGS)


def test_stop_finishes_what_has_begun_and_drops_what_waits(gate: Any) -> None:
    build, until_it_began, let_go = gate
    with flowc.open(build) as running:
        futures = [running.ask(np.full(3, n, np.float32)) for n in range(4)]
        until_it_began()
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        with pytest.raises(running.Closed):
            while True:
                running.put(np.zeros(3, np.float32), timeout=HANGS)
        let_go()
        ended(stopping)
        begun = [f.exception(HANGS) is None for f in futures]
        assert begun == sorted(begun, reverse=True) and begun[0] and not begun[-1]
        assert [f.result(HANGS).tolist() for f in futures if not f.exception()] == [
            [n] * 3 for n in range(sum(begun))
        ]
        assert all(isinstance(f.exception(), running.Closed) for f in futures[sum(begun) :])


def test_an_exception_inside_of_with_stops_the_program(gate: Any) -> None:
    build, until_it_began, let_go = gate
    with pytest.raises(KeyError), flowc.open(build) as running:
        futures = [running.ask(np.zeros(3, np.float32)) for _ in range(3)]
        until_it_began()
        let_go()
        raise KeyError
    for future in futures:  # none is left open
        assert future.done()


def test_leaving_with_waits_for_what_is_under_way(service: Path) -> None:
    with flowc.open(service) as running:
        futures = [running.ask(image(seed)) for seed in range(20)]
        for seed in range(20):
            running.put(image(seed))
    assert all(f.done() for f in futures)
    assert running.report()["apps"]["Service"]["frames"] == 40
    assert len(list(running)) == 20


def test_frames_limit_what_is_taken(service: Path) -> None:
    with flowc.open(service, frames=3) as running:
        for seed in range(3):
            running.put(image(seed))
        with pytest.raises(running.Closed):
            running.put(image(3))
        assert len(list(running)) == 3


def test_sources_of_its_own(write: Write, tmp_path: Path) -> None:
    """An endless source is stopped when the caller leaves; without open ends a program runs to its
    end."""
    tasks = 'task Count { out n: float32   python "t.py:Number" }\ntask Sink { in n: float32   python "s.py:sink" }\n'
    flow = write(
        tasks + "app Numbers { out n: float32   count: Count   count -> n }",
        t_py=TASKS,
        s_py="def sink(n): 0",
    )
    with flowc.open(build(flow, tmp_path / "out")) as running:
        assert [float(n) for n, _ in zip(running, range(5), strict=False)] == [1, 2, 3, 4, 5]
        with pytest.raises(TypeError, match="has no `in`"):
            running.put(1)
        with pytest.raises(TypeError, match="needs an `in` and an `out`"):
            running.ask(1)
    flow.write_text(tasks + "app Numbers { count: Count   sink: Sink   count -> sink }")
    with (
        flowc.open(build(flow, tmp_path / "closed"), frames=5) as running,
        pytest.raises(TypeError, match="no app has"),
    ):
        running.get(timeout=HANGS)
    assert running.report()["apps"]["Numbers"]["frames"] == 5


# -- failures --------------------------------------------------------------------------------------
def test_all_who_wait_learn_of_a_failure(gate: Any) -> None:
    build, until_it_began, let_go = gate
    with flowc.open(build) as running, ThreadPoolExecutor(3) as pool:
        future = running.ask(np.full(3, -1, np.float32))
        getting = pool.submit(running.get)
        until_it_began()
        with pytest.raises(TimeoutError):
            while True:
                running.put(np.zeros(3, np.float32), timeout=0.05)
        putting = pool.submit(running.put, np.zeros(3, np.float32))
        let_go()
        for waiting in (future, getting, putting):
            with pytest.raises(running.Failed) as seen:
                waiting.result(HANGS)
            error = seen.value
            assert (error.app, error.task, error.firing) == ("Held", "Held.gate", 0)  # type: ignore[attr-defined]
            assert "ValueError: negative" in str(error) and 'raise ValueError("negative")' in str(
                error
            )
        for later in (
            lambda: running.put([1, 2, 3]),
            running.get,
            lambda: running.ask([1.0, 2, 3]),
        ):
            with pytest.raises(running.Failed):
                later()


def test_a_failure_that_the_caller_has_not_seen_is_raised_when_with_is_left(service: Path) -> None:
    with pytest.raises(Exception, match="no luck with 77") as seen, flowc.open(service) as running:
        running.put(np.full((4, 3), 154, np.uint8))
    assert isinstance(seen.value, running.Failed) and seen.value.task == "Service.total"


def test_a_program_that_cannot_start_is_not_opened(write: Write, tmp_path: Path) -> None:
    code = "class Broken:\n    def __init__(self): raise OSError('no camera')\n    def __call__(self, y): return y\n"
    flow = write(
        TYPES + 'task Broken { in y: Row  out z: Row  python "b.py:Broken" }\n'
        "app A { in y: Row  out z: Row   b: Broken   y -> b -> z }",
        t_py=TASKS,
        b_py=code,
    )
    with pytest.raises(RuntimeError, match=r"task A.b failed: cannot start: OSError: no camera"):
        flowc.open(build(flow, tmp_path / "out"))


def test_what_is_no_build_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(flowc.Errors) as raised:
        flowc.open(tmp_path)
    assert [d.code for d in raised.value.diagnostics] == ["F002"]


# -- in one process --------------------------------------------------------------------------------
@pytest.fixture
def known_modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_programs_with_equal_names_share_nothing(tmp_path: Path, known_modules: None) -> None:
    """Programs do not see modules of their caller, nor does the caller see theirs."""
    sys.modules["helper"] = sys.modules["runtime"] = sys.modules["main"] = ModuleType("other")
    path = list(sys.path)
    programs = []
    for n, folder in enumerate((tmp_path / "a", tmp_path / "b")):
        (folder / "parts").mkdir(parents=True)
        (folder / "t.py").write_text(
            "from helper import VALUE\ndef f(x):\n    from parts.late import value\n    import parts.late as again\n"
            "    return x + VALUE + value() + 0 * again.value()\n"
        )
        (folder / "helper.py").write_text(f"import parts\nVALUE = {n + 1}\n")
        (folder / "parts" / "__init__.py").write_text("")
        (folder / "parts" / "late.py").write_text(
            f"from . import deep\ndef value(): return {n + 1} * deep.TEN\n"
        )
        (folder / "parts" / "deep.py").write_text(
            "import helper\nTEN = 10 * helper.VALUE // helper.VALUE\n"
        )
        (folder / "app.flow").write_text(
            'task F { in x: int64  out y: int64  python "t.py:f" }\n'
            "app A { in x: int64  out y: int64   f: F   x -> f -> y }"
        )
        programs.append(build(folder / "app.flow", folder / "out" / "app"))
    with flowc.open(programs[0]) as first, flowc.open(programs[1]) as second:
        assert [int(first.ask(100).result(HANGS)), int(second.ask(100).result(HANGS))] == [111, 122]
    assert sys.path == path and sys.modules["helper"].__name__ == "other"


def test_opening_again_gives_a_fresh_program(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task N { in x: float32  out y: float32  python "t.py:Number" }\n'
        "app A { in x: float32  out y: float32   n: N   x -> n -> y }",
        t_py=TASKS,
    )
    out = build(flow, tmp_path / "out")
    interval = sys.getswitchinterval()
    with flowc.open(out) as first:
        assert [float(first.ask(0).result(HANGS)) for _ in range(3)] == [1, 2, 3]
        with flowc.open(out) as second:
            assert float(second.ask(0).result(HANGS)) == 1
            assert type(first) is type(second)
        assert float(first.ask(0).result(HANGS)) == 4
        assert sys.getswitchinterval() != interval
    third = flowc.open(out)
    with flowc.open(out):
        third.stop()
        assert sys.getswitchinterval() != interval
    assert sys.getswitchinterval() == interval
    (tmp_path / "t.py").write_text(TASKS.replace("self.n += 1", "self.n += 5"))
    with flowc.open(build(flow, tmp_path / "out")) as changed:
        assert float(changed.ask(0).result(HANGS)) == 5


def test_tasks_in_processes_of_their_own(write: Write, tmp_path: Path) -> None:
    flow = write(SERVICE.replace("total -> core[1]", "total -> core[1] process"), t_py=TASKS)
    with flowc.open(build(flow, tmp_path / "out", platform="two")) as running:
        for seed in range(20):
            np.testing.assert_array_equal(
                running.ask(image(seed)).result(HANGS), plain(image(seed))
            )


FORKS = """
import json, os, sys, time
sys.path.insert(0, {folder!r})
import service
import numpy as np

image = np.full((4, 3), 2, np.uint8)
running = service.open()
print(running.ask(image).result().tolist(), flush=True)
app = running.app("Service")
pending = running.ask(image * 0 + 9)
with app._lock:  # as any other thread may do
    child = os.fork()
if child:
    print(pending.result().tolist(), flush=True)
    os.waitpid(child, 0)
    print(running.ask(image).result().tolist(), flush=True)
    running.stop()
    sys.exit()
ways = dict(
    ask=lambda: running.ask(image), put=lambda: running.put(image), get=lambda: running.get(), end=running.end,
    iterate=lambda: next(iter(running)), report=running.report, app=lambda: running.app("Service"),
    held=lambda: app.get(), future=pending.result, fault=pending.exception,
)
for name, way in ways.items():
    try:
        way()
        print(name, "worked", flush=True)
    except service.Failed as failed:
        assert "process %d, and this process was forked from it: open" % os.getppid() in str(failed)
running.stop()
with running:
    pass
again = service.open()
print(again.ask(image).result().tolist(), flush=True)
again.stop()
"""


def test_a_process_that_is_forked_has_no_program(write: Write, tmp_path: Path) -> None:
    """It says so instead of waiting for ever; a program that it opens itself runs, and so does that
    of the parent."""
    flow = write(SERVICE.replace("total -> core[1]", "total -> core[1] process"), t_py=TASKS)
    build(flow, tmp_path / "service", platform="two")
    # Python 3.12 and later warn of every fork beside threads
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c"]
    words += [FORKS.format(folder=str(tmp_path))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS, check=False)
    two = plain(np.full((4, 3), 2, np.uint8)).tolist()
    nine = plain(np.full((4, 3), 9, np.uint8)).tolist()
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(map(str, (two, nine, two, two)))


DOUBLE = """
network Double from "double.onnx" { in x: float32[2]   out y: float32[2] }
app A { in a: float32[2]   out b: float32[2]   double: Double   a -> double -> b }
"""
LOADED = """
import os, sys
sys.path.insert(0, {folder!r})
import service
import numpy as np

def answer():
    with service.open() as running:
        return running.ask(np.ones(2, np.float32)).result().tolist()

print(answer(), flush=True)
child = os.fork()
if not child:
    print(answer(), flush=True)
    sys.exit(5)
sys.exit(os.waitpid(child, 0)[1] >> 8)
"""


def test_networks_are_loaded_without_threads_that_a_fork_would_wait_for(
    write: Write, tmp_path: Path
) -> None:
    """Those of ONNX Runtime's telemetry: such a process never came to its end."""
    models.save(tmp_path / "double.onnx", [models.N("Add", ["x", "x"], ["y"])], {"x": [2]}, {}, "y")
    flow = write(DOUBLE)
    build(flow, tmp_path / "service")
    words = [sys.executable, "-c", LOADED.format(folder=str(tmp_path))]
    environment = {
        name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"
    }
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=HANGS, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (5, "[2.0, 2.0]\n[2.0, 2.0]\n"), done.stderr


HELD = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import service
import numpy as np

running = service.open()
running.ask(np.zeros((4, 3), np.uint8)).result()
threads = os.listdir("/proc/self/task")
(task,) = [pid for t in threads for pid in open("/proc/self/task/%s/children" % t).read().split()]
child = os.fork()
if child:
    print(task, child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
"""


def test_a_forked_process_keeps_no_process_of_a_task_alive(write: Write, tmp_path: Path) -> None:
    flow = write(SERVICE.replace("total -> core[1]", "total -> core[1] process"), t_py=TASKS)
    build(flow, tmp_path / "service", platform="two")
    words = [sys.executable, "-c", HELD.format(folder=str(tmp_path))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        task, child = map(int, next_line(parent).split())
        try:
            deadline = time.monotonic() + HANGS
            while Path(f"/proc/{task}/stat").exists() and state_of(task) != "Z":
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            os.kill(child, signal.SIGKILL)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


ALONE = """
import sys
sys.path[:0] = [{packages!r}, {folder!r}]
import signal
handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
import service
import numpy as np
with service.open() as running:
    print(running.ask(np.full((4, 3), 2, np.uint8)).result(), flush=True)
assert "flowc" not in sys.modules and "runtime" not in sys.modules and "main" not in sys.modules
from importlib.util import find_spec
assert find_spec("flowc") is None
assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
left = service.open()
left.put(np.zeros((4, 3), np.uint8))
"""


def test_a_build_is_a_package_that_needs_no_flowc(service: Path, tmp_path: Path) -> None:
    """In a folder with a space. The interpreter ends while the caller has not ended the program."""
    folder = tmp_path / "my builds"
    folder.mkdir()
    os.symlink(service, folder / "service")
    script = ALONE.format(packages=str(Path(np.__file__).parents[1]), folder=str(folder))
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[5. 5. 5.]\n", "")


# -- by itself -------------------------------------------------------------------------------------
def test_it_does_not_run_by_itself(service: Path) -> None:
    done = run(service)
    assert done.returncode == 2 and not done.stdout
    assert "flowc: app Service takes `image` and gives `answer`: open it from Python" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_random_data_feeds_what_is_tested_and_measured(service: Path, write: Write) -> None:
    done = harness(service)
    assert done.returncode == 0, done.stderr
    flow = write(SERVICE, t_py=TASKS)
    profiled = flowc.profile(flow, seconds=0.2)
    assert {e.subject for e in profiled.entries} == {
        f"Service.{n}" for n in ("image", "halve", "total", "more", "answer")
    }


def test_a_text_is_built_when_it_is_opened(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flow = write(SERVICE, t_py=TASKS)
    with flowc.open(flow, platform="two") as running:
        np.testing.assert_array_equal(running.ask(image(3)).result(HANGS), plain(image(3)))
    assert (tmp_path / "build" / "app" / "__init__.py").is_file()


SKIPPING = (
    TYPES
    + """
task Strict { in x: float32[4, 3]   out y: Row   on error skip   python "t.py:total" }
app Service {
    in image: Image   out sum: Row   out half: float32[4, 3]
    halve: Halve   strict: Strict
    image -> halve -> strict -> sum
    halve -> half
}
"""
)


@pytest.mark.parametrize("pins", ["", "mapping on two { Service.strict -> core[1] }"])
def test_a_request_that_is_skipped_says_why_without_another_one(
    write: Write, tmp_path: Path, pins: str
) -> None:
    """A frame that one outlet gets, and the other one does not, has no answer."""
    out = build(write(SKIPPING + pins, t_py=TASKS), tmp_path / "b", platform="two")
    good, bad = np.full((4, 3), 2, np.uint8), np.full((4, 3), 154, np.uint8)
    with flowc.open(out) as running:
        for _ in range(3):
            with pytest.raises(running.Skipped) as raised:
                running.ask(bad).result(timeout=HANGS)
            assert raised.value.task == "Service.strict"
            assert raised.value.reason == "ValueError: no luck with 77"
            assert isinstance(raised.value, running.Failed)
            assert running.ask(good).result(timeout=HANGS)["sum"].tolist() == [4, 4, 4]
            assert running.alive
        assert running.report()["apps"]["Service"]["skipped"] == 3
    assert not running.alive and running.report()["status"] == 0


@pytest.mark.parametrize("batch", ["", "batch up to 3 within 1 ms"])
def test_what_was_asked_is_recorded_and_replayed(
    write: Write, tmp_path: Path, batch: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = SKIPPING.replace("app Service {", f"app Service {{ {batch}")
    out, file = build(write(text, t_py=TASKS), tmp_path / "b", platform="two"), tmp_path / "r"
    values = [154 if number % 7 == 1 else number % 50 for number in range(40)]
    with flowc.open(out, record=file, channels="strict.*,image.*") as running:
        asked = [running.ask(np.full((4, 3), value, np.uint8)) for value in values]
        assert sum(f.exception(timeout=HANGS) is None for f in asked) == 34
    assert not [r for r in caplog.messages if "skipped" not in r]
    done = run(out, "--replay", str(file))
    assert done.returncode == 0
    assert "34 of 34 tokens of 1 channel equal, bit for bit" in done.stderr, done.stderr
    with pytest.raises(ValueError, match=r"no channel `strikt`; there is Service.image.image,"):
        flowc.open(out, record=file, channels="strikt")
    with pytest.raises(FileNotFoundError):
        flowc.open(out, record=tmp_path / "no" / "r")


def test_a_recording_that_is_over_closes_nothing_in_forked_processes(
    write: Write, tmp_path: Path
) -> None:
    """What is opened after it has the number of its pipe."""
    out = build(write(SKIPPING, t_py=TASKS), tmp_path / "b", platform="two")
    with flowc.open(out, record=tmp_path / "r") as running:
        running.ask(np.ones((4, 3), np.uint8)).result(timeout=HANGS)
    with ExitStack() as opened:
        files = [opened.enter_context(open(os.devnull)) for _ in range(64)]
        child = os.fork()
        if not child:
            try:
                for file in files:
                    os.fstat(file.fileno())
            except OSError:
                os._exit(1)
            os._exit(0)
        # no limit: the child waits for nothing
        assert os.waitpid(child, 0)[1] == 0
    assert not running.alive


def test_requests_that_are_skipped_spoil_no_others(write: Write, tmp_path: Path) -> None:
    out = build(write(SKIPPING, t_py=TASKS), tmp_path / "b", platform="two")
    values = [154 if number % 3 == 1 else number % 50 for number in range(300)]
    with flowc.open(out) as running, ThreadPoolExecutor(16) as pool:

        def told(value: int) -> object:
            asked = running.ask(np.full((4, 3), value, np.uint8))
            try:
                return float(asked.result(timeout=HANGS)["sum"][0])
            except running.Skipped as skipped:
                return skipped.reason

        found = list(pool.map(told, values))
    wanted = ["ValueError: no luck with 77" if v == 154 else 2.0 * v for v in values]
    assert found == wanted


@pytest.mark.parametrize("before", [0, 40])
def test_the_firing_that_a_program_fails_at_is_counted(before: int, service: Path) -> None:
    """Also where rounds are straight, as after some."""
    with pytest.raises(RuntimeError, match="no luck with 77"), flowc.open(service) as running:
        for _ in range(before):
            running.ask(np.full((4, 3), 1, np.uint8)).result(timeout=HANGS)
        running.ask(np.full((4, 3), 154, np.uint8)).result(timeout=HANGS)
    counted = next(f for f in running.metrics() if f.name == "flowc_failed_firings")
    assert {name: n for name, n in counted.samples if n} == {"Service.total": 1}


def test_the_report_of_a_failed_program_says_so(service: Path) -> None:
    with pytest.raises(RuntimeError, match="no luck with 77"), flowc.open(service) as running:
        assert running.alive and running.report()["status"] == 0
        with pytest.raises(running.Failed):
            running.ask(np.full((4, 3), 154, np.uint8)).result(timeout=HANGS)
        assert not running.alive and running.report()["status"] == 1
        running.ask(np.full((4, 3), 1, np.uint8))
