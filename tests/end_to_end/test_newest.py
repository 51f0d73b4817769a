"""What a reader that drops old tokens gets: the newest one at the moment when it can fire, in both
programs. The writers make tokens only when a reader lets them, while it fires, so that which token
is the newest one does not depend on time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import flowc
import pytest

from builds import HANGS
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = """
task Camera(who: int) { live   out x: int32   c "code.c:camera" }
task Source(who: int) { out x: int32   c "code.c:source" }
task Rare(who: int, lets: int) { out x: int32   c "code.c:rare" }
task Pass { in x: int32   out y: int32   c "code.c:pass" }
task Show(who: int, lets: int) { in x: int32   c "code.c:show" }
task Both(lets: int) { in x: int32   in y: int32   c "code.c:both" }

// a chain behind a source that drops, in one worker
app Chain {
    camera: Camera(who = 0) drop oldest 1   one: Pass   two: Pass   show: Show(who = 0, lets = 0)
    camera -> one -> two -> show
}
// its reader begins with an initial token, and never waits for the first one of the source
app Behind {
    camera: Camera(who = 4) drop oldest 1   show: Show(who = 4, lets = 4)
    camera -> delay 1 -> show
}
app Far { source: Source(who = 1) }
app Near { show: Show(who = 1, lets = 1)   Far.source -> drop oldest 1 -> show }
// two writers, of which one is slower than the other
app Often { source: Source(who = 2) }
app Seldom { rare: Rare(who = 3, lets = 2) }
app Join {
    both: Both(lets = 3)
    Often.source -> drop oldest 1 -> both.x   Seldom.rare -> drop oldest 1 -> both.y
}
platform board { cpu core[4] }
mapping on board {
    Chain.one -> core[0]   Chain.two -> core[0]   Chain.show -> core[0]
    Behind.camera -> core[0]   Behind.show -> core[1]
    Far.source -> core[0]   Near.show -> core[1]
    Often.source -> core[2]   Seldom.rare -> core[3]   Join.both -> core[1]
}
"""
CODE = """
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { EACH = 5, LAST = 31, TIMES = 6 };
// Of each writer: the tokens that it may make, the calls that have begun, and whether it is to end.
static atomic_long may[5] = {1, 1, 0, 1, 1}, calls[5], over[5];
static long made[5];

static int make(long who, long last, int32_t *x)
{
    calls[who]++;
    while (made[who] >= may[who] && !over[who] && made[who] < last)
        usleep(200);
    if (over[who] || made[who] >= last)
        return FLOWC_END;
    *x = ++made[who];
    return 0;
}
// Let a writer make some more, and wait until it has handed them over.
static void let(long who, long count, long last)
{
    const long all = may[who] + count;
    may[who] = all;
    while (calls[who] <= (all < last ? all : last))
        usleep(200);
}
int camera(void *state, int32_t *x, const camera_params *p) { return make(p->who, LAST, x); }
int source(void *state, int32_t *x, const source_params *p) { return make(p->who, LAST, x); }
int rare(void *state, int32_t *x, const rare_params *p)
{
    const int status = make(p->who, TIMES, x);
    if (status)
        over[p->lets] = 1;
    else
        let(p->lets, EACH, LAST);
    return status;
}
int pass(void *state, const int32_t *x, int32_t *y, const void *p)
{
    *y = *x;
    return 0;
}
int show(void *state, const int32_t *x, const show_params *p)
{
    printf("show %d %d\\n", (int)p->who, *x);
    let(p->lets, EACH, LAST);
    return 0;
}
int both(void *state, const int32_t *x, const int32_t *y, const both_params *p)
{
    printf("both %d %d\\n", *x, *y);
    may[p->lets]++;
    return 0;
}
"""


@pytest.fixture(scope="module")
def both_programs(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("newest")
    (folder / "newest.flow").write_text(TEXT)
    (folder / "code.c").write_text(CODE)
    with in_a_hurry(shared):
        flowc.build(
            folder / "newest.flow",
            folder / "build",
            platform="board",
            native=True,
            measure=False,
        )
        yield folder / "build"


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_a_reader_gets_what_is_newest_when_it_can_fire(both_programs: Path, program: str) -> None:
    command = [both_programs / program] if program == "main" else [sys.executable, "main.py"]
    done = subprocess.run(
        [*command, "--quiet"], cwd=both_programs, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    for who in (0, 1):
        shown = [int(n) for n in re.findall(rf"show {who} (\d+)", done.stdout)]
        assert shown == [1, 6, 11, 16, 21, 26, 31]
    behind = [int(n) for n in re.findall(r"show 4 (\d+)", done.stdout)]
    assert behind[:1] == [0] and behind == sorted(set(behind)) and behind[-1] > 20
    joined = re.findall(r"both (\d+) (\d+)", done.stdout)
    assert joined == [(str(5 * n), str(n)) for n in range(1, 7)]
