"""Generated programs at work: results, order, pace, and every way to stop. Each test builds one and
runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import flowc
import pytest
from flowc.driver.text import store
from flowc.runtime import watch

from builds import HANGS, Write, build, harness, in_its_own_time, run, store_profile

TYPES = "type N = int64\n"
COUNT = """
import numpy as np

class Count:
    def __init__(self, limit=0):
        self.n, self.limit = 0, limit

    def __call__(self):
        if self.limit and self.n == self.limit:
            raise StopIteration
        self.n += 1
        return self.n - 1

class Keep:
    def __init__(self):
        self.seen = []

    def __call__(self, n):
        self.seen.extend(np.atleast_1d(n).tolist())

    def close(self):
        print("seen", self.seen)

def double(n):
    return 2 * n

def slow(n):
    import time
    time.sleep(0.002)
    print("slow", n, flush=True)
    return n

def forever(n):
    import time
    print("forever", flush=True)
    while True:
        time.sleep(1)
"""
COMMON = (
    TYPES
    + """
task Count(limit: int = 0) { out n: N   python "t.py:Count" }
task Double { in n: N   out m: N   python "t.py:double" }
task Keep { in n: N   python "t.py:Keep" }
"""
)


def seen(text: str) -> list[int]:
    line = next(line for line in text.splitlines() if line.startswith("seen "))
    return list(json.loads(line[5:]))


def test_a_pipeline_over_processors_keeps_order(write: Write, tmp_path: Path) -> None:
    flow = write(
        COMMON + "app A { c: Count  d: Double  e: Double  k: Keep   c -> d -> e -> k }\n"
        "platform three { cpu core[3] }\n"
        "mapping on three { A.c -> core[0]  A.d -> core[1]  A.e -> core[2]  A.k -> core[0] }",
        t_py=COUNT,
    )
    out = build(flow, tmp_path / "out", platform="three")
    done = run(out, "--frames", "50")
    assert done.returncode == 0, done.stderr
    assert seen(done.stdout) == [4 * i for i in range(50)]
    assert harness(out).returncode == 0


def test_rates_phases_delays_and_values(write: Write, tmp_path: Path) -> None:
    tasks = """
import numpy as np
class Deal:
    def __init__(self): self.phase = 0
    def __call__(self, n):
        assert n.shape == (2,), n.shape
        self.phase = (self.phase + 1) % 2
        return (n[:1], n[:0]) if self.phase else (n[:0], n)
"""
    flow = write(
        COMMON
        + """
        task Deal { in n: N rate 2   out a: N rate [1, 0]   out b: N rate [0, 2]   python "d.py:Deal" }
        app A { c: Count  d: Deal  k: Keep  l: Keep
            c -> delay 2 = [-2, -1] -> d   d.a -> k   d.b -> delay 1 = 5 -> l }
        """,
        t_py=COUNT,
        d_py=tasks,
    )
    out = build(flow, tmp_path / "out")
    done = run(out, "--frames", "3", "--strict")
    assert done.returncode == 0, done.stderr
    # Four counts per iteration: pairs (-2 -1) (0 1) (2 3) (4 5) ...; odd pairs give their first,
    # even ones both.
    lines = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("seen ")]
    assert lines == [[-2, 2, 6], [5, 0, 1, 4, 5, 8]]
    assert harness(out).returncode == 0


def test_frames_shared_by_processors_come_out_in_order(write: Write, tmp_path: Path) -> None:
    code = (
        COUNT
        + """
def uneven(n):
    import time
    time.sleep(0.004 if n % 3 else 0.0)
    return n
"""
    )
    flow = write(
        COMMON
        + """
        task Uneven { in n: N   out m: N   python "t.py:uneven" }
        app A { c: Count(limit = 41)  u: Uneven  k: Keep   c -> u -> k }
        platform four { cpu core[4] }
        mapping on four { A.c -> core[0]  A.u -> core[1], core[2], core[3]  A.k -> core[0] }
        """,
        t_py=code,
    )
    out = build(flow, tmp_path / "out", platform="four")
    done = run(out)
    assert done.returncode == 0, done.stderr
    assert seen(done.stdout) == list(range(41))
    assert harness(out).returncode == 0


def test_the_end_of_a_stream_drops_the_unfinished_iteration(write: Write, tmp_path: Path) -> None:
    flow = write(
        COMMON + 'task Four { in n: N rate 4   python "t.py:Keep" }\n'
        "app A { c: Count(limit = 10)  k: Four   c -> k }\napp B { c: Count(limit = 3)  k: Keep   c -> k }",
        t_py=COUNT,
    )
    done = run(build(flow, tmp_path / "out"), "--report", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("seen "))
    assert lines == ["seen [0, 1, 2, 3, 4, 5, 6, 7]", "seen [0, 1, 2]"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert {a: d["frames"] for a, d in report["apps"].items()} == {"A": 2, "B": 3}


def test_c_tasks_get_parameters_state_and_strings(write: Write, tmp_path: Path) -> None:
    code = """
#include <stdlib.h>
#include <string.h>
#include "add.h"
struct own { int64_t total; };
void *sum_init(const sum_params *p) {
    struct own *s = malloc(sizeof *s);
    s->total = p->start + (p->up ? 1 : 0) + (int64_t)strlen(p->word) + (int64_t)(2 * p->factor);
    return s;
}
int sum(void *state, const int64_t *n, int64_t *total, const sum_params *p) {
    struct own *s = state;
    (void)p;
    s->total = add(s->total, n[0] + n[1]);
    *total = s->total;
    return 0;
}
void sum_exit(void *state) { free(state); }
int last(void *state, const int64_t *n, int64_t *out, const last_params *p) {
    last_state *s = state;
    (void)p;
    out[0] = s->kept[1];
    s->kept[1] = s->kept[0];
    s->kept[0] = n[0];
    return 0;
}
"""
    flow = write(
        COMMON
        + """
        task Sum(start: int, factor: float, up: bool, word: string) { in n: N rate 2  out total: N  c "s.c:sum" }
        task Last { in n: N  out m: N  state kept: int64[2]  c "s.c:last" }
        app A { c: Count  s: Sum(start = 100, factor = 2.5, up = true, word = "abc")  l: Last  k: Keep   c -> s -> l -> k }
        """,
        t_py=COUNT,
        s_c=code,
        add_h="static int64_t add(int64_t a, int64_t b) { return a + b; }",
    )
    out = build(flow, tmp_path / "out")
    done = run(out, "--frames", "4")
    assert done.returncode == 0, done.stderr
    assert seen(done.stdout) == [0, 0, 109 + 1, 109 + 6]
    assert harness(out).returncode == 0


def test_a_c_task_that_fails_stops_the_program(write: Write, tmp_path: Path) -> None:
    code = "int f(void *s, const int64_t *n, int64_t *m, const f_params *p) { *m = *n; return *n == 5 ? 42 : 0; }"
    flow = write(
        COMMON
        + 'task F { in n: N  out m: N  c "f.c:f"  stateless }\napp A { c: Count  f: F  k: Keep  c -> f -> k }',
        t_py=COUNT,
        f_c=code,
    )
    done = run(build(flow, tmp_path / "out"))
    assert done.returncode == 1
    assert "app A, task A.f failed at firing 5: f returned 42\n" in done.stderr


@pytest.mark.parametrize("lacks", ["init", "fire"])
def test_a_c_task_says_why_it_failed(write: Write, tmp_path: Path, lacks: str) -> None:
    code = f"""
    static const char *why;
    void *f_init(const f_params *p) {{ why = "no room for é"; return {"0" if lacks == "init" else "&why"}; }}
    int f(void *s, const int64_t *n, int64_t *m, const f_params *p) {{ *m = *n; why = "five is odd"; return *n == 5; }}
    const char *f_error(void *s) {{ return s == &why || !s ? why : "another state"; }}
    """
    flow = write(
        COMMON
        + 'task F { in n: N  out m: N  c "f.c:f" }\napp A { c: Count  f: F  k: Keep  c -> f -> k }',
        t_py=COUNT,
        f_c=code,
    )
    done = run(build(flow, tmp_path / "out"))
    assert done.returncode == 1
    words = (
        "f_init returned NULL\n"
        if lacks == "init"
        else "failed at firing 5: f returned 1: five is odd"
    )
    assert words in done.stderr


def test_a_function_in_c_may_be_called_like_one_of_libc(write: Write, tmp_path: Path) -> None:
    code = """
int64_t times(int64_t n);
int64_t times(int64_t n) { return 3 * n; }
int f(void *s, const int64_t *n, int64_t *m, const f_params *p) { *m = times(*n); return 0; }
"""
    flow = write(
        COMMON
        + 'task F { in n: N  out m: N  c "f.c:f" }\napp A { c: Count  f: F  k: Keep  c -> f -> k }',
        t_py=COUNT,
        f_c=code,
    )
    done = run(build(flow, tmp_path / "out"), "--frames", "3")
    assert done.returncode == 0, done.stderr
    assert seen(done.stdout) == [0, 3, 6]


# -- failures --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "if n == 7: raise ValueError('no more')\n    return n",
            "failed at firing 7: ValueError: no more",
        ),
        (
            "import numpy as np\n    return np.zeros(3)",
            "failed at firing 0: returned float64[3] for port `m`, which is int64[]",
        ),
        (
            "import numpy as np\n    return np.ones((), np.int32)",
            "returned int32[] for port `m`, which is int64[]; `.astype(np.int64)` converts it",
        ),
        ("return n, n", "failed at firing 0: returned 2 values for 1 port (m)"),
        (
            "return None",
            "returned nothing for port `m`; where there is no token, return [] at a port with"
            " `rate up to 1`",
        ),
        ("n += 1\n    return n", "arrays on a channel are read-only"),
        ("raise StopIteration", "raised StopIteration; only a source may end the stream"),
        ("import sys\n    sys.exit(3)", "failed at firing 0: SystemExit: 3"),
    ],
)
def test_a_failing_task_stops_everything_and_is_named(
    write: Write, tmp_path: Path, body: str, said: str
) -> None:
    flow = write(
        COMMON + 'task Bad { in n: N  out m: N  python "bad.py:bad" }\n'
        "app A { c: Count  b: Bad  k: Keep  c -> b -> k }\n"
        "app Other { c: Count  k: Keep  c -> k }\n"
        "platform two { cpu core[2] }\nmapping on two { A.c -> core[0]  A.b -> core[1]  A.k -> core[0] }",
        t_py=COUNT,
        bad_py=f"def bad(n):\n    {body}\n",
    )
    done = run(build(flow, tmp_path / "out", platform="two"))
    assert done.returncode == 1
    assert "app A, task A.b" in done.stderr and said in done.stderr, done.stderr


def test_failing_stops_everything_even_when_another_task_is_stuck(
    write: Write, tmp_path: Path
) -> None:
    stuck = tmp_path / "stuck"
    code = COUNT.replace('print("forever", flush=True)', f"open({str(stuck)!r}, 'w').close()")
    code += f"\ndef late(n):\n    import os, time\n    while not os.path.exists({str(stuck)!r}):\n"
    code += "        time.sleep(0.01)\n    1 / 0\n"
    flow = write(
        COMMON
        + 'task Stuck { in n: N  python "t.py:forever" }\ntask Late { in n: N  python "t.py:late" }\n'
        "app A { c: Count  s: Stuck  c -> s }\napp B { c: Count  l: Late  c -> l }\n"
        "platform two { cpu core[2] }\n"
        "mapping on two { A.c -> core[0]  A.s -> core[0]  B.c -> core[1]  B.l -> core[1] }",
        t_py=code,
    )
    done = run(build(flow, tmp_path / "out", platform="two"))
    assert done.returncode == 1 and "task B.l failed at firing 0: ZeroDivisionError" in done.stderr


def test_a_task_that_cannot_start_is_named(write: Write, tmp_path: Path) -> None:
    code = "class Odd:\n    def __init__(self):\n        raise OSError('no device')\n    def __call__(self):\n        return 0\n"
    flow = write(
        COMMON + 'task Odd { out n: N  python "o.py:Odd" }\napp A { o: Odd  k: Keep  o -> k }',
        t_py=COUNT,
        o_py=code,
    )
    done = run(build(flow, tmp_path / "out"))
    assert done.returncode == 1
    assert "task A.o failed: cannot start: OSError: no device" in done.stderr


def test_strict_checks_every_firing(write: Write, tmp_path: Path) -> None:
    code = "import numpy as np\ndef bad(n):\n    return n if n < 3 else np.zeros(2, np.int64)\n"
    text = (
        COMMON
        + 'task Bad { in n: N  out m: N  python "bad.py:bad" }\napp A { c: Count  b: Bad  k: Keep  c -> b -> k }'
    )
    out = build(write(text, t_py=COUNT, bad_py=code), tmp_path / "out")
    assert (
        "failed at firing 3: returned int64[2] for port `m`"
        in run(out, "--strict", "--frames", "9").stderr
    )


def test_the_watchdog_stops_a_task_that_never_returns(write: Write, tmp_path: Path) -> None:
    flow = write(
        COMMON
        + 'task Stuck { in n: N  python "t.py:forever" }\napp A { c: Count  s: Stuck  c -> s }',
        t_py=COUNT,
    )
    done = run(build(flow, tmp_path / "out"), "--watchdog", "0.5")
    assert done.returncode == 1
    assert "task A.s failed at firing 0: did not return" in done.stderr


def test_a_deadlock_is_noticed_and_explained(write: Write, tmp_path: Path) -> None:
    """It cannot happen in a program as generated: take a loop's initial token away by hand."""
    code = COUNT + "\ndef add(n, last):\n    return n + last\n"
    flow = write(
        COMMON + 'task Add { in n: N  in last: N  out sum: N  python "t.py:add" }\n'
        "app A { c: Count  a: Add  d: Double  k: Keep  c -> a.n  a -> k, d  d -> delay 1 -> a.last }\n"
        "platform two { cpu core[2] }\nmapping on two { A.c -> core[0]  A.a -> core[0]  A.d -> core[1]  A.k -> core[0] }",
        t_py=code,
    )
    out = build(flow, tmp_path / "out", platform="two")
    assert run(out, "--frames", "5").returncode == 0
    main = out / "main.py"
    main.write_text(main.read_text().replace(", delay=1", ""))
    done = run(out)
    assert done.returncode == 1
    assert "deadlock: " in done.stderr and "A.a waits for data from A.d" in done.stderr


class _Waiting:
    """A worker that waits for data, as the watch sees it; it looks again once it is woken, unless
    it does not get a processor."""

    alive = True
    parked = False
    progress = 0

    def __init__(self, starved: bool) -> None:
        self.looked, self._starved = 1, starved
        self.waiting = (self, "data")
        self.remote = False

    def wake(self) -> None:
        self.looked += not self._starved


@pytest.mark.parametrize("starved", [False, True])
def test_a_thread_without_a_processor_is_no_deadlock(
    starved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker below all other programs may not run for seconds after its tokens have come."""
    moment = [0.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: moment[0])
    workers = [_Waiting(False), _Waiting(starved)]
    failures: list[str] = []
    seen = SimpleNamespace(
        workers=workers, fail=lambda f: failures.append(f.reason), who_waits=lambda: "both wait"
    )
    looks = watch.Watch(seen, 60.0, 1.0, None)
    for _ in range(100):
        moment[0] += watch.LOOK
        looks._check_deadlock(workers)
        if failures:
            break
    assert failures == ([] if starved else ["deadlock: both wait"])


def test_a_wrong_number_of_tokens_is_noticed_at_any_firing(write: Write, tmp_path: Path) -> None:
    code = "import numpy as np\nclass Two:\n    def __init__(self): self.n = 1\n    def __call__(self):\n"
    code += "        self.n += 1\n        return np.zeros(self.n, np.int64)\n"
    flow = write(
        COMMON
        + 'task Two { out n: N rate 2  python "w.py:Two" }\napp A { c: Two  k: Keep  c -> k }',
        t_py=COUNT,
        w_py=code,
    )
    done = run(build(flow, tmp_path / "out"))
    assert done.returncode == 1 and "task A.c failed at firing 1: returned int64[3]" in done.stderr


def test_what_c_code_reads_is_checked_at_every_firing(write: Write, tmp_path: Path) -> None:
    code = "import numpy as np\nclass Odd:\n    def __init__(self): self.n = 0\n    def __call__(self):\n"
    code += "        self.n += 1\n        return np.zeros(4 if self.n < 3 else 1, np.int64)\n"
    c = "int f(void *s, const int64_t *x, const f_params *p) { return (int)x[3]; }"
    flow = write(
        'task Odd { out x: int64[4]  python "o.py:Odd" }\ntask F { in x: int64[4]  c "f.c:f" }\napp A { o: Odd  f: F  o -> f }',
        o_py=code,
        f_c=c,
    )
    done = run(build(flow, tmp_path / "out"))
    assert done.returncode == 1 and "task A.o failed at firing 2: returned int64[1]" in done.stderr


def test_a_reused_output_buffer_is_an_error_not_other_data(write: Write, tmp_path: Path) -> None:
    code = "import numpy as np\nclass Reuse:\n    def __init__(self): self.buffer, self.n = np.zeros((1, 2), np.int64), 0\n"
    code += "    def __call__(self):\n        self.buffer[:] = self.n\n        self.n += 1\n        return self.buffer[0]\n"
    flow = write(
        'task R { out x: int64[2]  python "r.py:Reuse" }\ntask K { in x: int64[2] rate 4  python "t.py:Keep" }\napp A { r: R  k: K  r -> k }',
        t_py=COUNT,
        r_py=code,
    )
    done = run(build(flow, tmp_path / "out"))
    assert (
        done.returncode == 1
        and "failed at firing 1" in done.stderr
        and "return a new array each firing" in done.stderr
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[1.9, 2]", "returned float64[2] for port `x`, which is uint8[2]"),
        ("['7', 'x']", "returned <U1[2]"),
        ("[1, 256]", "returned int64[2]"),
    ],
)
def test_plain_values_are_converted_only_where_nothing_is_lost(
    write: Write, tmp_path: Path, value: str, said: str
) -> None:
    text = 'task S { out x: uint8[2]  python "s.py:S" }\ntask K { in x: uint8[2]  python "t.py:Keep" }\napp A { s: S  k: K  s -> k }'
    code = "class S:\n    def __call__(self): return VALUE\n"
    flow = write(text, t_py=COUNT, s_py=code.replace("VALUE", value))
    assert said in run(build(flow, tmp_path / "out")).stderr
    (tmp_path / "s.py").write_text(code.replace("VALUE", "[1, 255]"))
    assert "seen [1, 255]" in run(build(flow, tmp_path / "out"), "--frames", "1").stdout


# -- signals ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_drains_and_stops(write: Write, tmp_path: Path, number: int, status: int) -> None:
    text = (
        COMMON
        + 'task Slow { in n: N  out m: N  python "t.py:slow" }\napp A { c: Count  s: Slow  k: Keep  c -> s -> k }'
    )
    out = build(write(text, t_py=COUNT), tmp_path / "out")
    command = [sys.executable, str(out / "main.py"), "--report", str(tmp_path / "r.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        next(line for line in child.stdout if line.startswith("slow"))
        child.send_signal(number)
        stdout, _ = child.communicate(timeout=HANGS)
    assert child.returncode == status
    numbers = seen(stdout)
    assert numbers == list(range(len(numbers))) and numbers
    assert json.loads((tmp_path / "r.json").read_text())["apps"]["A"]["frames"] == len(numbers)


def test_a_second_signal_stops_at_once(write: Write, tmp_path: Path) -> None:
    text = (
        COMMON
        + 'task Stuck { in n: N  python "t.py:forever" }\napp A { c: Count  s: Stuck  c -> s }'
    )
    out = build(write(text, t_py=COUNT), tmp_path / "out")
    command = [sys.executable, str(out / "main.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        next(line for line in child.stdout if line.startswith("forever"))
        for _ in range(HANGS):
            # two within a moment count as one, and a busy machine may hand two over at once
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=1)
                break
    assert child.returncode == 130


# -- pace ------------------------------------------------------------------------------------------
def test_a_period_paces_the_sources_and_misses_are_counted(write: Write, tmp_path: Path) -> None:
    code = (
        COUNT
        + "\ndef late(n):\n    import time\n    time.sleep(0.03 if n == 5 else 0.001)\n    return n\n"
    )
    flow = write(
        COMMON + 'task Late { in n: N  out m: N  python "t.py:late" }\n'
        "app A { period 10 ms  c: Count  l: Late  k: Keep  c -> l -> k }\n"
        "app Slow { period 40 ms  c: Count  k: Keep  c -> k }\n"
        "platform two { cpu core[2] }\n"
        "mapping on two { A.c -> core[0]  A.l -> core[0]  A.k -> core[0]  Slow.c -> core[1]  Slow.k -> core[1] }",
        t_py=code,
    )
    out = build(flow, tmp_path / "out", platform="two")
    apps = in_its_own_time(out, "--frames", "20")["apps"]
    # The sixth frame ends 30 ms after its release, the next three 21, 12 and 3.
    assert (apps["A"]["deadline_misses"], apps["A"]["overruns"]) == (3, 2)
    assert apps["A"]["latency_ms"] == {"mean": 4.1, "p50": 1.0, "p99": 30.0, "max": 30.0}
    assert (
        apps["A"]["seconds"] == 0.191
        and apps["Slow"]["seconds"] == 19 * 0.04
        and apps["Slow"]["fps"] == 25
    )
    fast = in_its_own_time(out, "--frames", "20", "--full-speed")["apps"]
    assert (
        fast["A"]["seconds"] == 0.049 and fast["A"]["overruns"] == fast["A"]["deadline_misses"] == 0
    )
    assert fast["Slow"]["seconds"] == 0


def test_an_app_that_keeps_pace_and_misses_its_deadline_is_told_so(
    write: Write, tmp_path: Path
) -> None:
    code = COUNT + "\ndef late(n):\n    import time\n    time.sleep(0.003)\n    return n\n"
    flow = write(
        COMMON + 'task Late { in n: N  out m: N  python "t.py:late" }\n'
        "app A { period 20 ms  deadline 1 ms  c: Count  l: Late  k: Keep  c -> l -> k }\n",
        t_py=code,
    )
    done = run(build(flow, tmp_path / "out"), "--frames", "90")
    # on a busy machine it is said as well that no frame begins, or that the app is behind
    told = r"flowc: A missed \d+ deadlines in its last \d+ frames \(deadline 1 ms, last frame [\d.]+ ms[);]"
    assert re.search(told, done.stderr) or "behind" in done.stderr


def test_a_source_is_released_every_part_of_the_period(write: Write, tmp_path: Path) -> None:
    code = "import time\nclass Clock:\n    def __call__(self):\n        return time.perf_counter_ns() / 1e9\n\n"
    code += "class Gaps:\n    def __init__(self): self.all = []\n    def __call__(self, t): self.all.extend(t)\n"
    code += "    def close(self): print('gaps', {float(round(b - a, 9)) for a, b in zip(self.all, self.all[1:])})\n"
    flow = write(
        'task Clock { out t: float64  python "c.py:Clock" }\ntask Gaps { in t: float64 rate 4  python "c.py:Gaps" }\n'
        "app A { period 40 ms  c: Clock  g: Gaps  c -> g }",
        c_py=code,
    )
    said = in_its_own_time(build(flow, tmp_path / "out"), "--frames", "10")["said"]
    assert said.startswith("gaps {0.01}\n")


def test_sources_wait_for_their_releases_in_real_time_too(write: Write, tmp_path: Path) -> None:
    """No machine is so fast that it may be earlier; how much later it is says nothing."""
    flow = write(COMMON + "app A { period 30 ms  c: Count  k: Keep  c -> k }", t_py=COUNT)
    out = build(flow, tmp_path / "out")
    assert run(out, "--frames", "5", "--report", str(tmp_path / "r.json")).returncode == 0
    assert json.loads((tmp_path / "r.json").read_text())["apps"]["A"]["seconds"] >= 4 * 0.03


def test_fixed_priority_has_a_worker_per_app_and_processor(write: Write, tmp_path: Path) -> None:
    flow = write(
        COMMON + "app A { priority 2  period 7 ms  c: Count  k: Keep  c -> k }\n"
        "app B { priority 1  period 11 ms  c: Count  k: Keep  c -> k }\n"
        "platform board { cpu core  scheduler fixed_priority }",
        t_py=COUNT,
    )
    out = build(flow, tmp_path / "out", platform="board")
    main = (out / "main.py").read_text()
    assert main.count('p.processor("core"') == 2
    assert "FixedPriority(0, 2)" in main and "FixedPriority(0, 1)" in main
    done = run(out, "--frames", "10")
    assert done.returncode == 0
    assert (
        sorted(line for line in done.stdout.splitlines() if line.startswith("seen"))
        == [f"seen {list(range(10))}"] * 2
    )


def test_latency_and_frames_behind_a_delay(write: Write, tmp_path: Path) -> None:
    """The sink works on the frame before: its own end says nothing about the latency of a frame."""
    code = COUNT + "\ndef slowly(n):\n    import time\n    time.sleep(0.01)\n    return n\n"
    flow = write(
        COMMON + 'task Slow { in n: N  out m: N  python "t.py:slowly" }\n'
        "app A { period 20 ms  deadline 5 ms  c: Count(limit = 6)  s: Slow  k: Keep  c -> s -> delay 1 -> k }\n"
        "platform two { cpu core[2] }\nmapping on two { A.c -> core[0]  A.s -> core[0]  A.k -> core[1] }",
        t_py=code,
    )
    out = build(flow, tmp_path / "out", platform="two")
    app = in_its_own_time(out)["apps"]["A"]
    assert app["frames"] == 6 and app["deadline_misses"] == 6 and app["latency_ms"]["max"] == 10
    assert harness(out).returncode == 0


def test_a_paced_pipeline_has_a_latency_of_its_work_only(write: Write, tmp_path: Path) -> None:
    code = COUNT + "\ndef slowly(n):\n    import time\n    time.sleep(0.012)\n    return n\n"
    flow = write(
        COMMON + 'task Slow { in n: N  out m: N  python "t.py:slowly"  stateless }\n'
        "app A { period 20 ms  deadline 60 ms  c: Count  s: Slow  t: Slow  k: Keep  c -> s -> t -> k }\n"
        "platform two { cpu core[2] }\nmapping on two { A.c -> core[0]  A.s -> core[1]  A.t -> core[0]  A.k -> core[0] }",
        t_py=code,
    )
    out = build(flow, tmp_path / "out", {"A.s": 12_000_000, "A.t": 12_000_000}, platform="two")
    assert "stage=1" in (out / "main.py").read_text()
    app = in_its_own_time(out, "--frames", "25")["apps"]["A"]
    # one worker for both would make it wait for the next releases
    assert app["latency_ms"]["p50"] == 24
    assert harness(out).returncode == 0


def test_an_app_without_a_period_is_not_held_up_by_one_that_has_one(
    write: Write, tmp_path: Path
) -> None:
    code = COUNT + "\ndef brief(n):\n    import time\n    time.sleep(0.001)\n    return n\n"
    flow = write(
        COMMON + 'task Brief { in n: N  out m: N  python "t.py:brief" }\n'
        "app Free { c: Count(limit = 500)  b: Brief  k: Keep  c -> b -> k }\n"
        "app Paced { period 300 ms  c: Count(limit = 2)  k: Keep  c -> k }\nplatform one { cpu core }",
        t_py=code,
    )
    apps = in_its_own_time(build(flow, tmp_path / "out", platform="one"))["apps"]
    assert apps["Free"]["frames"] == 500 and apps["Free"]["seconds"] == 0.5
    assert apps["Paced"]["frames"] == 2 and apps["Paced"]["seconds"] == 0.3


# -- reports ---------------------------------------------------------------------------------------
def test_trace_and_report(write: Write, tmp_path: Path) -> None:
    flow = write(COMMON + "app A { c: Count  d: Double  k: Keep  c -> d -> k }", t_py=COUNT)
    out = build(flow, tmp_path / "out")
    done = run(
        out,
        "--frames",
        "6",
        "--trace",
        str(tmp_path / "t.json"),
        "--report",
        str(tmp_path / "r.json"),
    )
    assert done.returncode == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == 18 and all(e["dur"] >= 0 for e in slices)
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"cpu[0]"}
    assert {e["name"] for e in events if e["ph"] == "C"} == {"A.c.n->A.d.n", "A.d.m->A.k.n"}
    report = json.loads((tmp_path / "r.json").read_text())
    assert set(report) == {
        *(
            "version",
            "status",
            "failure",
            "build",
            "where",
            "apps",
            "processors",
            "tasks",
            "memory",
            "channels",
            "dropped",
        )
    }
    assert set(report["apps"]["A"]["latency_ms"]) == {"mean", "p50", "p99", "max"}
    assert report["tasks"]["A.d"]["firings"] == 6
    assert "A.d" in done.stdout and "latency" in done.stdout


def test_workers_of_one_processor_have_lanes_of_their_own(write: Write, tmp_path: Path) -> None:
    text = COMMON + "app A { c: Count  k: Keep  c -> k }\napp B { c: Count  k: Keep  c -> k }\n"
    flow = write(text + "platform board { cpu core  scheduler fixed_priority }", t_py=COUNT)
    out = build(flow, tmp_path / "out", platform="board")
    assert run(out, "--frames", "4", "--trace", str(tmp_path / "t.json")).returncode == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"core", "core (2)"}
    for lane in {e["tid"] for e in events if e["ph"] == "X"}:
        slices = sorted(
            (e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == lane
        )
        assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(slices))


def test_zero_frames_and_wrong_options(write: Write, tmp_path: Path) -> None:
    out = build(write(COMMON + "app A { c: Count  k: Keep  c -> k }", t_py=COUNT), tmp_path / "out")
    assert run(out, "--frames", "0").returncode == 0
    assert run(out, "--frames", "-1").returncode == 2
    assert run(out, "--nonsense").returncode == 2


def test_a_build_runs_without_flowc_from_another_place(write: Write, tmp_path: Path) -> None:
    """Moved elsewhere, in an interpreter that cannot import flowc."""
    flow = write(
        COMMON + "app A { c: Count  k: Keep  c -> k }",
        t_py="import helper\n" + COUNT,
        helper_py="X = 1\n",
    )
    moved = tmp_path / "some where else"
    build(flow, tmp_path / "out").rename(moved)
    block = "import sys; sys.modules['flowc'] = None; sys.argv = ['main.py', '--frames', '3']; import runpy; "
    block += f"runpy.run_path({str(moved / 'main.py')!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    assert seen(done.stdout) == [0, 1, 2]


def test_measuring_names_a_task_that_fails(write: Write, tmp_path: Path) -> None:
    flow = write(
        COMMON
        + 'task Bad { in n: N  out m: N  python "bad.py:bad" }\napp A { c: Count  b: Bad  k: Keep  c -> b -> k }',
        t_py=COUNT,
        bad_py="def bad(n):\n    return n if n < 7 else 1 / 0\n",
    )
    done = subprocess.run(
        [sys.executable, "-m", "flowc", "build", str(flow), "-o", str(tmp_path / "out")],
        capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"},
        timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 1
    assert "F606" in done.stderr and "task A.b failed at firing 7: ZeroDivisionError" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_profile_is_measured_again_when_code_changes(write: Write, tmp_path: Path) -> None:

    flow = write(
        COMMON + "app A { c: Count  k: Keep  c -> k }",
        t_py="import helper\n" + COUNT,
        helper_py="X = 1\n",
    )
    store_profile(flow)
    assert store.read_profile(flowc.check(flow).require())[0] is not None
    (tmp_path / "helper.py").write_text("X = 2\n")
    profile, warnings = store.read_profile(flowc.check(flow).require())
    assert profile is None and [w.code for w in warnings] == ["F607"]
