"""Tasks that begin anew after an error, and cannot be opened at once: in both programs, the other
apps go on meanwhile."""

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
task Camera { live   out x: int32   c "code.c:camera"   on error restart 3 every 1 ms }
task Other { out x: int32   c "code.c:other" }
task Scale { in x: int32   out y: int32   c "code.c:scale"   on error restart 3 every 1 ms }
task Show { in x: int32   c "code.c:show" }
app Left { camera: Camera   show: Show   camera -> show }
app Drop { camera: Camera drop oldest 9   show: Show   camera -> show }
app Right { other: Other   scale: Scale   show: Show   other -> scale -> show }
platform board { cpu core[2] }
"""
CODE = """
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CAMERAS = 2, FRAMES = 6 };
static atomic_int openings, ended, scales, scaled;

/* Each camera fails at its third frame; both together are not there for so many openings. */
static int absent(void) { return atoi(getenv("ABSENT")); }
typedef struct { int made; int anew; } Made;
void *camera_init(const void *p)
{
    const int k = openings++;
    if (CAMERAS <= k && k < CAMERAS + absent())
        return NULL;
    Made *made = calloc(1, sizeof(Made));
    made->anew = k >= CAMERAS;
    return made;
}
void camera_exit(void *state) { free(state); }
int camera(void *state, int32_t *x, const void *p)
{
    Made *made = state;
    if (made->made == FRAMES) {
        ended++;
        return FLOWC_END;
    }
    *x = ++made->made;
    return !made->anew && made->made == 3;
}
/* It goes on until the cameras have ended, and `scale` fires again. */
int other(void *state, int32_t *x, const void *p)
{
    usleep(1000);
    *x = 1;
    return ended == CAMERAS && scaled ? FLOWC_END : 0;
}
/* It fails at its second firing, and cannot be opened again at the first try. */
void *scale_init(const void *p)
{
    return scales++ == 1 ? NULL : calloc(1, sizeof(Made));
}
void scale_exit(void *state) { free(state); }
int scale(void *state, const int32_t *x, int32_t *y, const void *p)
{
    Made *made = state;
    *y = 100 * scales;
    scaled = scales == 3;
    return ++made->made == 2 && scales == 1;
}
int show(void *state, const int32_t *x, const void *p)
{
    printf("show %d\\n", *x);
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("restart")
    text = folder / "restart.flow"
    text.write_text(TEXT)
    (folder / "code.c").write_text(CODE)
    with in_a_hurry(shared):
        flowc.build(text, folder / "build", platform="board", native=True, measure=False)
        yield folder / "build"


def run(built: Path, program: str, absent: int) -> subprocess.CompletedProcess[str]:
    command = [built / program] if program == "main" else [sys.executable, built / program]
    return subprocess.run(
        [*command, "--quiet"],
        env={**os.environ, "ABSENT": str(absent)},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_others_go_on_until_a_task_is_open_again(built: Path, program: str) -> None:
    done = run(built, program, absent=2)
    assert done.returncode == 0, done.stderr
    shown = [int(n) for n in re.findall(r"show (\d+)", done.stdout)]
    # each camera once before and once after its error, and the frame with the error is left out
    for number in range(1, 7):
        assert shown.count(number) == (4 if number < 3 else 2)
    assert shown.count(100) == 1 and shown.count(300) > 0
    assert done.stderr.count("; it begins anew") == 3
    assert done.stderr.count("_init returned NULL; 2 tries are left, the next in 0.001 s") >= 2


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_the_last_try_that_fails_ends_the_program(built: Path, program: str) -> None:
    done = run(built, program, absent=9)
    assert done.returncode == 1
    last = r"task \w+\.camera failed at firing \d: cannot begin anew: camera_init returned NULL$"
    assert re.search(last, done.stderr, re.MULTILINE), done.stderr
    assert "1 try is left" in done.stderr
