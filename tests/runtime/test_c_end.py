"""A source in C that returns FLOWC_END ends its stream as one in Python does that raises
StopIteration."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import flowc
import pytest
from flowc.codegen.in_c import END
from flowc.runtime import code
from typer.testing import CliRunner

from builds import HANGS, Write, build, harness, run

TEXT = """
task Make(until: int) { out x: int64 rate 2   state n: int64   %s }
task Same { in x: int64   out y: int64   c "s.c:same"   stateless }
task Half { in x: int64   out y: int64   c "s.c:half" }
task See  { in x: int64 rate 2   python "s.py:see" }
platform two { cpu core[2] }
mapping on two { A.make -> core[0]  A.same -> core[%d]  A.half -> core[%d]  A.see -> core[0] }
app A { %s make: Make(until = %d)   same: Same   half: Half   see: See   make -> same -> half -> see }
"""
SOURCE = """
int make(void *state, int64_t *x, const make_params *p)
{
    make_state *s = state;
    if (s->n == p->until)
        return FLOWC_END;
    x[0] = 2 * s->n;
    x[1] = 2 * s->n++ + 1;
    return 0;
}

int same(void *state, const int64_t *x, int64_t *y, const void *p)
{
    (void)state, (void)p;
    *y = *x;
    return 0;
}

int half(void *state, const int64_t *x, int64_t *y, const void *p)
{
    (void)state, (void)p;
    *y = *x / 2;
    return 0;
}
"""
TASKS = """
class Make:
    def __init__(self, until):
        self.n, self.until = 0, until

    def __call__(self):
        if self.n == self.until:
            raise StopIteration
        self.n += 1
        return [2 * self.n - 2, 2 * self.n - 1]


def see(x):
    print(*x, flush=True)
"""


@pytest.mark.parametrize("until", [0, 1, 40])
@pytest.mark.parametrize("where", [(0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize("period", ["", "period 1 ms"])
def test_the_program_does_what_one_with_a_source_in_python_does(
    write: Write, tmp_path: Path, until: int, where: tuple[int, int], period: str
) -> None:
    """Alone and in chains of tasks in C, on one worker and on two, in straight rounds and before
    these."""
    told = []
    for source in ('c "s.c:make"', 'python "s.py:Make"'):
        text, functions = TEXT % (source, *where, period, until), SOURCE
        if source.startswith("python"):
            text, functions = text.replace("state n: int64", ""), SOURCE.partition("\n}\n")[2]
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        out = build(write(text, s_c=functions, s_py=TASKS), tmp_path / "out", platform="two")
        done = run(out, "--quiet", "--report", str(tmp_path / "r.json"))
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads((tmp_path / "r.json").read_text())
        told.append(
            (done.stdout, {name: task["firings"] for name, task in document["tasks"].items()})
        )
        tested = harness(out)
        # no frame at all is none to compare
        assert tested.returncode == (0 if until else 1), tested.stderr
    assert told[0] == told[1]
    assert told[0][0] == "".join(f"{n // 2} {(n + 1) // 2}\n" for n in range(0, 2 * until, 2))


def test_others_may_not_end_a_stream(write: Write, tmp_path: Path) -> None:
    source = SOURCE.replace("*y = *x / 2;\n    return 0;", "return *x == 5 ? FLOWC_END : 0;")
    flow = write(TEXT % ('c "s.c:make"', 0, 0, "", 40), s_c=source, s_py=TASKS)
    done = run(build(flow, tmp_path / "out", platform="two"), "--quiet")
    assert done.returncode == 1
    words = "half returned FLOWC_END; only a source may end the stream"
    assert done.stderr == f"flowc: app A, task A.half failed at firing 5: {words}\n"


def test_a_source_that_has_failed_does_not_end_the_stream(write: Write, tmp_path: Path) -> None:
    """-1 is what many a function returns that has failed."""
    flow = write(
        TEXT % ('c "s.c:make"', 0, 0, "", 3), s_c=SOURCE.replace("FLOWC_END", "-1"), s_py=TASKS
    )
    done = run(build(flow, tmp_path / "out", platform="two"), "--quiet")
    assert done.returncode == 1
    assert done.stderr == "flowc: app A, task A.make failed at firing 3: make returned -1\n"


def test_it_is_measured(write: Write) -> None:
    """As long as it lasts."""
    flow = write(TEXT % ('c "s.c:make"', 0, 0, "", 40), s_c=SOURCE, s_py=TASKS)
    found = {e.subject: e.samples for e in flowc.profile(flow, platform="two", seconds=0.2).entries}
    assert found["A.make"] == 32 and found["A.see"] == 32  # all but the first fifth


@pytest.mark.parametrize("way", ["live", "drop oldest 100"])
def test_live_sources_and_those_that_drop(write: Write, tmp_path: Path, way: str) -> None:
    text = TEXT % ('c "s.c:make"', 0, 1, "", 6)
    if way == "live":
        text = text.replace("{ out x: int64 rate 2", "{ live   out x: int64 rate 2")
    else:
        text = text.replace("Make(until = 6)", f"Make(until = 6) {way}")
    done = run(
        build(write(text, s_c=SOURCE, s_py=TASKS), tmp_path / "out", platform="two"), "--quiet"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(f"{n // 2} {(n + 1) // 2}\n" for n in range(0, 12, 2))


def test_headers_are_for_cpp_as_well(write: Write, tmp_path: Path) -> None:
    """A program in C++ may call tasks in C: their names are those of C."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    write(TEXT % ('c "s.c:make"', 0, 0, "", 1), s_c=SOURCE, s_py=TASKS)
    done = CliRunner().invoke(flowc.cli.app, ["headers", str(tmp_path / "app.flow")])
    assert done.exit_code == 0
    main = '#include "s.flow.h"\n#include <cstdio>\nint main() { int64_t x[2] = {4, 0}, y; half(0, x, &y, 0); std::printf("%d", (int)y); }\n'
    (tmp_path / "main.cpp").write_text(main)
    for command in (
        ["gcc", "-c", "-include", "s.flow.h", "s.c", "-o", "s.o"],
        ["g++", "-Wall", "-Werror", "main.cpp", "s.o", "-o", "main"],
    ):
        subprocess.run(command, cwd=tmp_path, timeout=HANGS, check=True)
    done = subprocess.run(
        [tmp_path / "main"], capture_output=True, text=True, timeout=HANGS, check=True
    )
    assert done.stdout == "2"
    assert (
        f"#define FLOWC_END {hex(END)}\n" in (tmp_path / "s.flow.h").read_text() and END == code.END
    )
