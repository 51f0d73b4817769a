"""Windows: a firing sees what it takes and what was taken before, wherever it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flowc
import numpy as np
from flowc.codegen.deploy import Deployed
from flowc.runtime import Fire, Port, Program
from flowc.runtime.code import Code
from flowc.runtime.lifecycle import execute
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from builds import Write, build, harness, planned, run, store_profile

LENGTH = 240  # tokens that a source makes, at least


class Count(Code):
    """0, 1, 2, ... in blocks, until there are enough."""

    def __init__(self) -> None:
        self.n = 0

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.port = outputs[0]

    def fire(self, inputs: Any, firing: int) -> Any:
        if self.n >= LENGTH:
            raise StopIteration
        first, self.n = self.n, self.n + self.port.rate(0)
        return np.arange(first, self.n).reshape(self.port.block_shape(0))


class Look(Code):
    """Keeps what each firing sees, and says which it was."""

    def __init__(self) -> None:
        self.seen: dict[int, np.ndarray] = {}

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Any, firing: int) -> Any:
        assert not inputs[0].flags.writeable
        self.seen[firing] = inputs[0]
        return np.asarray(firing)

    def caller(self, phase: int) -> Callable[..., Any]:
        """Rounds tell the phase only; no other worker shares their firings: they come in order."""

        def call(*inputs: Any) -> Any:
            return self.fire(inputs, len(self.seen))

        return call


class Take(Look):
    def fire(self, inputs: Any, firing: int) -> Any:
        assert inputs[0] == firing
        self.seen[firing] = inputs[0]


def program(deployed: Deployed, codes: dict[str, Code]) -> Program:
    """What a generated main.py makes, with this code."""
    made = Program("t", "")
    tasks = {}
    (described,) = deployed.deployment.apps
    app = made.app(described.name)
    for t in described.tasks:
        sides = [
            [Port(p.name, p.dtype, p.shape, p.rates, p.stacked, p.window) for p in s]
            for s in (t.inputs, t.outputs)
        ]
        tasks[t.name] = app.task(t.name, codes[t.name], *sides)
    for c in described.channels:
        ends = tasks[c.source], c.source_port, tasks[c.destination], c.destination_port
        made.channel(*ends, c.capacity, c.delay, c.values)
    for w in deployed.deployment.processors:
        order = [
            Fire(tasks[e.task], e.times, e.first, e.stage, e.replica, e.round) for e in w.order
        ]
        made.processor(w.processor, order)
    return made


@settings(max_examples=40, deadline=None)
@given(data=st.data(), made=st.integers(1, 7), cores=st.integers(1, 3), delay=st.integers(0, 9))
def test_a_firing_sees_the_last_tokens_of_the_stream(
    tmp_path_factory: Any, data: st.DataObject, made: int, cores: int, delay: int
) -> None:
    rates = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3).filter(any))
    window = max(rates) + data.draw(st.integers(0, 9))
    written = f"[{', '.join(map(str, rates))}]" if len(rates) > 1 else str(rates[0])
    places = data.draw(st.lists(st.integers(0, cores - 1), min_size=1, max_size=cores, unique=True))
    several = len(rates) == 1  # a task with phases is not shared
    pins = ", ".join(f"core[{k}]" for k in (places if several else places[:1]))
    flow = tmp_path_factory.mktemp("w") / "t.flow"
    (flow.parent / "t.py").write_text(
        "class Count:\n    def __call__(self): pass\ndef f(x): pass\ntake = f\n"
    )
    flow.write_text(
        f"""
        task Count {{ out x: int64 rate {made}   python "t.py:Count" }}
        task Look {{ in x: int64 rate {written} window {window}   out n: int64   python "t.py:f" }}
        task Take {{ in x: int64   python "t.py:take" }}
        app A {{ c: Count  l: Look  k: Take   c -> delay {delay} = 7 -> l -> k }}
        platform some {{ cpu core[{cores}] }}
        mapping on some {{ A.c -> core[0]  A.l -> {pins}  A.k -> core[{cores - 1}] }}
        """
    )
    checked = flowc.check(flow, platform="some")
    assert checked.ok, [d.message for d in checked.diagnostics]
    look = Look()
    codes = {"A.c": Count(), "A.l": look, "A.k": Take()}
    assert execute(program(planned(checked.require(), None), codes), strict=True)
    stream = np.concatenate(
        [np.zeros(window, int), np.full(delay, 7), np.arange(LENGTH + 7 * made)]
    )
    views = sliding_window_view(stream, window)
    taken = np.cumsum([rates[k % len(rates)] for k in range(len(look.seen))])
    assert sorted(look.seen) == list(range(len(taken))) and taken[-1] > LENGTH // 2
    for firing, end in enumerate(taken):
        np.testing.assert_array_equal(look.seen[firing], views[end])


TASKS = """
import json, os, time
import numpy as np

class Mic:
    def __init__(self): self.n = 0
    def __call__(self):
        if self.n == 60: raise StopIteration
        self.n += 4
        return np.arange(self.n - 4, self.n, dtype=np.float32)

def total(x, scale=1.0):
    assert x.shape == (9,), x.shape
    time.sleep(0.003 if x[-1] % 2 else 0)
    return np.float32(scale * x.sum())

class Keep:
    def __init__(self): self.seen = []
    def __call__(self, y): self.seen.append(float(y))
    def close(self): print("seen", self.seen)
"""
IN_C = """
int total(void *state, const float *x, float *y, const total_params *p)
{
    *y = 0;
    for (int i = 0; i < 9; i++)
        *y += (float)p->scale * x[i];
    return 0;
}
"""
EXPECTED = [2.0 * sum(max(0, n) for n in range(end - 9, end)) for end in range(3, 61, 3)]


def pipeline(code: str) -> str:
    return (
        'type Sample = float32\ntask Mic { out x: Sample rate 4   python "t.py:Mic" }\n'
        f"task Total(scale: float = 2, size: int = 9) {{ in x: Sample rate 3 window size   out y: Sample   {code} }}\n"
        'task Keep { in y: Sample   python "t.py:Keep" }\n'
        "app A { mic: Mic  total: Total  keep: Keep   mic -> total -> keep }\nplatform two { cpu core[2] }\n"
    )


def seen(out: Path) -> list[float]:
    done = run(out, "--strict")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("seen "))
    return list(json.loads(line[5:]))


def test_code_of_all_kinds_gets_the_window(write: Write, tmp_path: Path) -> None:
    """Replicas in threads, in processes, and C."""
    python = TASKS.replace("scale=1.0", "scale, size")
    for name, code, pin in (
        ("replicas", 'python "t.py:total"', "core[0], core[1]"),
        ("processes", 'python "t.py:total"', "core[1] process"),
        ("c", 'c "t.c:total"', "core[1]"),
    ):
        flow = write(pipeline(code) + f"mapping on two {{ A.total -> {pin} }}", t_py=python)
        flow.with_name("t.c").write_text(IN_C)
        out = build(flow, tmp_path / name, platform="two")
        assert seen(out) == EXPECTED, name
        checked = harness(out)
        assert checked.returncode == 0, checked.stderr


def test_the_harness_notices_a_window_that_is_wrong(write: Write, tmp_path: Path) -> None:
    flow = write(pipeline('c "t.c:total"'))
    flow.with_name("t.py").write_text(TASKS)
    flow.with_name("t.c").write_text(IN_C)
    out = build(flow, tmp_path / "out")
    window = out / "runtime" / "window.py"
    window.write_text(window.read_text().replace("_behind(seen, self._least)", "_behind(seen, 0)"))
    assert harness(out).returncode == 1


def test_each_reader_of_an_output_has_its_own_window(write: Write, tmp_path: Path) -> None:
    code = """
import numpy as np
class Count:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n
class Show:
    def __init__(self, size): self.size, self.seen = size, []
    def __call__(self, x): self.seen.append(x.tolist())
    def close(self): print(self.size, self.seen)
"""
    flow = write(
        """
        task Count { out x: int64   python "t.py:Count" }
        task Show(size: int) { in x: int64 window size   python "t.py:Show" }
        app A { c: Count  one: Show(size = 1)  two: Show(size = 2)  three: Show(size = 3)   c -> one, two, three }
        """,
        t_py=code,
    )
    store_profile(flow)
    done = run(build(flow, tmp_path / "out"), "--frames", "3")
    assert done.returncode == 0, done.stderr
    assert {
        "1 [[1], [2], [3]]", "2 [[0, 1], [1, 2], [2, 3]]", "3 [[0, 0, 1], [0, 1, 2], [1, 2, 3]]",
    } <= set(done.stdout.splitlines())  # fmt: skip
