"""Programs in C++ with open ends, as libraries for C: what they compute, how they wait, end and fail.

One program in Python beside it says what is right. Needs a C++ compiler.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.codegen.elf import defined_names
from flowc.codegen.native.files import RUNTIME
from flowc.driver.execute.run import test as run_harness

from builds import ROOT
from limits import HANGS
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = """\
type Image = float32[4]
task Blend { in image: Image rate 2 window 3   in bias: float32   out y: Image   c "ends.c:blend" }
task Sum(gain: float = 1.0) {
    in y: Image   in before: float32   out sum: float32   out again: float32
    state n: int64
    c "ends.c:sum"
}
task Check { in x: float32   out y: float32   on error skip   c "ends.c:close" }
task Tick { out t: int64   state n: int64   c "clock.c:gettime" }

app Left {
    in image: Image   in bias: float32   out total: float32
    blend: Blend   sum: Sum
    image -> blend.image
    bias -> blend.bias
    blend -> sum.y
    sum.sum -> total
    sum.again -> delay 1 -> sum.before
}
app Right { in x: float32   out y: float32   check: Check   x -> check -> y }
app Clock { out time: int64   tick: Tick   tick -> time }

platform two { cpu core[2] }
mapping on two {
    Left.image -> core[0]   Left.bias -> core[0]   Left.blend -> core[0]
    Left.sum -> core[1]   Left.total -> core[1]
    Right.x -> core[1]   Right.check -> core[1]   Right.y -> core[1]
    Clock.tick -> core[0]   Clock.time -> core[0]
}
"""
CODE = """\
int blend(void *state, const float *image, const float *bias, float *y, const void *p)
{
    for (int i = 0; i < 4; i++)
        y[i] = image[i] + 2 * image[4 + i] - image[8 + i] + *bias;
    return 0;
}
int sum(void *given, const float *y, const float *before, float *sum, float *again,
        const sum_params *p)
{
    sum_state *state = given;
    *sum = *before + (float)p->gain * (y[0] + y[1] + y[2] + y[3]) + (float)state->n++;
    *again = *sum / 2;
    return y[0] > 1e6f ? 3 : 0;
}
int close(void *state, const float *x, float *y, const void *p)
{
    *y = 10 * *x;
    return *x < 0;
}
"""
#: Its stem and name together are a function of the C library, those of `close` one of this library.
CLOCK = """\
int gettime(void *given, int64_t *t, const void *p)
{
    gettime_state *state = given;
    *t = state->n++;
    return *t == 3 ? FLOWC_END : 0;
}
"""
DONE, TIMED_OUT, CLOSED, FAILED = range(4)
#: Where a test would hang otherwise.
LONG = float(HANGS)


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program in C++, which agrees with the sequential reference, and the one in Python."""
    folder = tmp_path_factory.mktemp("ends")
    (folder / "ends.flow").write_text(TEXT)
    (folder / "ends.c").write_text(CODE)
    (folder / "clock.c").write_text(CLOCK)
    text, asked = folder / "ends.flow", {"platform": "two", "measure": False}
    tested = run_harness(text, folder / "native", native=True, quiet=True, **asked)
    assert tested.status == 0, tested.tests
    flowc.build(text, folder / "python", **asked)
    return folder / "native", folder / "python"


class Program:
    """A program of the library."""

    def __init__(self, build: Path, *settings: str) -> None:
        self._library = ctypes.CDLL(str(build / "libends.so"))
        self._library.ends_error.restype = ctypes.c_char_p
        self._made = ctypes.c_void_p()
        words = (ctypes.c_char_p * (len(settings) + 1))(*(s.encode() for s in settings), None)
        self.created = self._library.ends_create(ctypes.byref(self._made), words, None)

    def feed(self, end: str, token: Any, seconds: float = LONG, dtype: str = "float32") -> int:
        array = np.ascontiguousarray(token, dtype)
        return self._call(f"ends_feed_{end}", array, seconds)

    def fetch(
        self, end: str, seconds: float = LONG, dtype: str = "float32"
    ) -> tuple[int, float | None]:
        array = np.zeros((), dtype)
        outcome = self._call(f"ends_fetch_{end}", array, seconds)
        return outcome, None if outcome else array.item()

    def rest(self, end: str, dtype: str = "float32") -> tuple[list[float | None], int]:
        """All that still comes out, and why no more comes."""
        found = []
        while True:
            outcome, token = self.fetch(end, dtype=dtype)
            if outcome:
                return found, outcome
            found.append(token)

    def _call(self, name: str, array: np.ndarray[Any, Any], seconds: float) -> int:
        function = getattr(self._library, name)
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        return int(function(self._made, pointer, ctypes.c_double(seconds)))

    def end(self) -> int:
        return int(self._library.ends_end(self._made))

    @property
    def error(self) -> str:
        said = self._library.ends_error(self._made)
        assert isinstance(said, bytes)
        return said.decode()

    def close(self) -> int:
        return int(self._library.ends_close(self._made))


def drawn(count: int, seed: int) -> list[Any]:
    """Images and biases of some iterations, with two images each, and an image more."""
    random = np.random.default_rng(seed)
    return [random.random((2 * count + 1, 4), "float32"), random.random(count, "float32")]


def totals(program: Program, images: Any, biases: Any) -> list[float | None]:
    """Feed it from a thread, one end after the other, and get what comes out until the end."""
    outcomes = []

    def feed() -> None:
        for image in images[: 2 * len(biases)].reshape(-1, 2, 4):
            outcomes.extend(program.feed("left_image", one) for one in image)
            outcomes.append(program.feed("left_bias", biases[len(outcomes) // 3]))
        outcomes.append(program.feed("left_image", images[-1]))
        outcomes.append(program.end())

    feeder = threading.Thread(target=feed)
    feeder.start()
    found, why = program.rest("left_total")
    feeder.join(LONG)
    assert set(outcomes) == {DONE} and why == CLOSED
    return found


def test_a_library_computes_what_the_program_in_python_does(builds: tuple[Path, Path]) -> None:
    """Each has tokens of its own, and so has a program that is created after another one; a half
    iteration is dropped at the end."""
    native, python = builds
    given = [drawn(count, seed) for seed, count in enumerate((80, 3, 3))]
    wanted = []
    for images, biases in given:
        with flowc.open(python, settings=["Left.sum.gain=2.5"]) as running:
            left, found = running.app("Left"), []
            for number, bias in enumerate(biases):
                for image in images[2 * number : 2 * number + 2]:
                    left.put(image=image)
                left.put(bias=bias)
                found.append(left.get(timeout=LONG).item())
            left.put(image=images[-1])
            left.end()
            assert list(left) == []
        wanted.append(found)
    first, second = (Program(native, "Left.sum.gain=2.5") for _ in range(2))
    assert (first.created, second.created) == (DONE, DONE)
    assert totals(first, *given[0]) == wanted[0]
    assert totals(second, *given[1]) == wanted[1]
    assert (first.close(), second.close()) == (DONE, DONE)
    third = Program(native, "Left.sum.gain=2.5")
    assert totals(third, *given[2]) == wanted[2]
    assert third.close() == DONE


def test_calls_end_in_time_and_streams_at_their_end(builds: tuple[Path, Path]) -> None:
    program = Program(builds[0])
    assert program.fetch("right_y", 0) == (TIMED_OUT, None)
    assert program.fetch("right_y", 0.01) == (TIMED_OUT, None)
    fed = 0
    while program.feed("left_image", np.zeros(4), 0.3) == DONE:
        fed += 1
    assert 4 <= fed < 40  # without a bias nothing comes out
    assert program.rest("clock_time", "int64") == ([0, 1, 2], CLOSED)
    assert program.feed("right_x", 1) == DONE
    assert program.fetch("right_y") == (DONE, 10.0)
    assert program.end() == DONE
    assert program.feed("right_x", 1) == CLOSED
    assert program.fetch("right_y") == (CLOSED, None)
    assert program.close() == DONE


def test_any_number_of_threads_wait_at_ends(builds: tuple[Path, Path]) -> None:
    """Two at one end, and one at another: each result comes once."""
    program = Program(builds[0])
    found: list[tuple[int, float | None]] = []
    ends = ["right_y", "right_y", "left_total"]
    waiting = [
        threading.Thread(target=lambda e=end: found.append(program.fetch(e))) for end in ends
    ]
    for thread in waiting:
        thread.start()
    for x in (1, 2):
        assert program.feed("right_x", x) == DONE
    for _ in range(2):
        assert program.feed("left_image", np.zeros(4)) == DONE
    assert program.feed("left_bias", 1) == DONE
    for thread in waiting:
        thread.join(LONG)
    assert sorted(found) == [(DONE, 4.0), (DONE, 10.0), (DONE, 20.0)]
    assert program.close() == DONE


def test_a_frame_that_is_skipped_has_no_result(builds: tuple[Path, Path]) -> None:
    given = [1, -1, 2, -3, -4, 5]
    with flowc.open(builds[1]) as running:
        right = running.app("Right")
        for x in given:
            right.put(np.float32(x))
        right.end()
        wanted = [y.item() for y in right]
    program = Program(builds[0])
    assert {program.feed("right_x", x) for x in given} == {DONE}
    program.end()
    assert program.rest("right_y") == (wanted, CLOSED)
    assert program.error == "" and program.close() == DONE


def test_a_failure_comes_after_results_and_in_the_same_words(builds: tuple[Path, Path]) -> None:
    with flowc.open(builds[1]) as running:
        left = running.app("Left")
        for image in (0, 0, 1e7, 1e7):
            left.put(image=np.full(4, image, "float32"))
        for _ in range(2):
            left.put(bias=np.float32(0))
        assert left.get(timeout=LONG).item() == 0
        with pytest.raises(running.Failed) as failed:
            left.get(timeout=LONG)
    program = Program(builds[0])
    for image in (0, 0, 1e7, 1e7):
        assert program.feed("left_image", np.full(4, image)) == DONE
    for _ in range(2):
        assert program.feed("left_bias", 0) == DONE
    assert program.rest("left_total") == ([0.0], FAILED)
    assert program.error == str(failed.value)
    assert program.feed("right_x", 0) == FAILED
    assert program.end() == FAILED
    assert program.close() == FAILED


def test_what_cannot_be_set_is_said(builds: tuple[Path, Path]) -> None:
    wrong = ["Left.sum.gain=many", "Right.check"]
    with pytest.raises(ValueError) as refused:
        flowc.open(builds[1], settings=wrong)
    program = Program(builds[0], *wrong)
    assert program.created == FAILED
    assert program.error == str(refused.value)
    assert program.feed("right_x", 1) == FAILED
    assert program.fetch("right_y") == (FAILED, None)
    assert program.end() == FAILED
    assert program.close() == FAILED


def test_no_number_of_seconds_is_refused(builds: tuple[Path, Path]) -> None:
    nan = float("nan")
    program = Program(builds[0])
    assert program.feed("right_x", 1, nan) == FAILED
    assert program.fetch("right_y", nan) == (FAILED, None)
    with flowc.open(builds[1]) as session:
        with pytest.raises(ValueError, match="NaN"):
            session.app("Right").put(np.float32(1), timeout=nan)
        with pytest.raises(ValueError, match="NaN"):
            session.app("Right").get(timeout=nan)
    assert program.feed("right_x", 1, float("inf")) == DONE
    assert program.fetch("right_y", 1e300) == (DONE, 10)
    assert program.close() == DONE


def test_a_library_exports_its_own_names_only(builds: tuple[Path, Path]) -> None:
    names = defined_names((builds[0] / "libends.so").read_bytes())
    header = (builds[0] / "ends.h").read_text()
    assert names == {*re.findall(r"\bends_\w+(?=\()", header), "flow_face"}


def test_close_does_not_wait_for_its_caller(builds: tuple[Path, Path]) -> None:
    """What waits to go in is dropped, and results that are not taken stop nothing."""
    program = Program(builds[0])
    for x in range(60):
        assert program.feed("right_x", x) == DONE
    program.feed("left_image", np.zeros(4))
    assert program.close() == DONE


def test_a_forked_process_is_told_so(builds: tuple[Path, Path]) -> None:
    program = Program(builds[0])
    child = os.fork()
    if not child:
        signal.alarm(HANGS)
        well = program.feed("right_x", 1) == FAILED and "after the fork" in program.error
        os._exit(0 if well else 1)
    # no limit: an alarm ends the child
    assert os.waitpid(child, 0)[1] == 0
    assert program.feed("right_x", 1) == DONE
    assert program.close() == DONE


def test_the_executable_needs_a_caller(builds: tuple[Path, Path]) -> None:
    done = subprocess.run(
        [builds[0] / "main"], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 2
    assert "`Left.image`" in done.stderr and "called from C" in done.stderr


#: Creates programs one after another: bytes of the heap, and kilobytes of the address space, that 20
#: of them have left behind.
MANY = """\
#include <malloc.h>
#include <stdio.h>
#include "ends.h"
static long space(void)
{
    long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1)
        return -1;
    fclose(file);
    return 4 * pages;
}
int main(void)
{
    float y;
    long heap = 0, kilobytes = 0;
    for (int i = 0; i < 110; i++) {
        ends *program;
        if (i == 10) {
            heap = (long)mallinfo2().uordblks;
            kilobytes = space();
        }
        if (ends_create(&program, NULL, NULL) || ends_feed_right_x(program, (float[]){1}, 60) ||
            ends_fetch_right_y(program, &y, 60) || ends_close(program))
            return 1;
    }
    printf("%ld %ld", (long)mallinfo2().uordblks - heap, space() - kilobytes);
    return 0;
}
"""


def test_a_program_that_is_closed_leaves_nothing_behind(
    builds: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "many.c").write_text(MANY)
    folder = builds[0]
    words = [os.environ.get("CC", "cc"), "-Wall", f"-I{folder}", "many.c", f"-L{folder}", "-lends"]
    linked = [*words, f"-Wl,-rpath,{folder}", "-o", "many"]
    subprocess.run(linked, cwd=tmp_path, check=True, timeout=LONG)
    # else what is free counts as well, while a thread keeps it for itself
    one_heap = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    done = subprocess.run(
        ["./many"],
        cwd=tmp_path,
        env={**os.environ, **one_heap},
        stdout=subprocess.PIPE,
        check=True,
        timeout=LONG,
    )
    heap, kilobytes = map(int, done.stdout.split())
    # the stack of a thread that has not ended yet, when the next one begins, is kept: once
    assert heap < 200 and kilobytes < 10 * 100


#: One thread sleeps until `second`; another one comes and need not wait. Then `second` is rung for.
BELL = """\
#include "worker.hpp"
#include <thread>
int main()
{
    flow::Bell bell;
    std::atomic<bool> asleep{false}, second{false};
    std::thread sleeper([&] {
        bell.wait([&] {
            if (second)
                return true;
            asleep = true;
            return false;
        });
    });
    while (!asleep)
        usleep(100);
    bell.wait([] { return true; });
    second = true;
    bell.ring();
    sleeper.join();
}
"""


def test_all_that_sleep_on_a_bell_hear_it(tmp_path: Path) -> None:
    """The workers of a program wait on one of these for the last one of them, at the start."""
    (tmp_path / "bell.cpp").write_text(BELL)
    words = [os.environ.get("CXX", "g++"), "-std=gnu++17", "-I", RUNTIME, "bell.cpp", "-o", "bell"]
    subprocess.run([*words, "-lpthread"], cwd=tmp_path, check=True, timeout=LONG)
    subprocess.run(["./bell"], cwd=tmp_path, check=True, timeout=LONG)


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    page = (ROOT / "docs/native.md").read_text()
    _, _, rest = page.partition("## A library for C")
    blocks = dict(re.findall(r"```\w+\n(?:// |/\* )(\S+)(?: \*/)?\n(.*?)```", rest, re.DOTALL))
    for name, content in blocks.items():
        (tmp_path / name).write_text(content)
    flowc.build(tmp_path / "service.flow", tmp_path / "build", native=True, measure=False)
    compiler = os.environ.get("CC", "cc")
    words = f"{compiler} -Wall -Werror -Ibuild use.c -Lbuild -lservice -Wl,-rpath,build -o use"
    subprocess.run(words, shell=True, cwd=tmp_path, check=True, timeout=LONG)
    done = subprocess.run(
        ["./use"], cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=True
    )
    assert done.stdout == "1.5\n2\n"
    shown = (tmp_path / "build/service.h").read_text()
    for line in re.search(r"```c\n(int service_create.*?)```", rest, re.DOTALL)[1].splitlines():  # type: ignore[index]
        assert line in shown
