"""Programs in C++ beside the same programs in Python, with the same tasks in C, and beside loops that
are written by hand.

A build with `--target native` has both programs, so that the sides of a pair have the same orders.
All sides take turns.

    50 tasks, one core      empty tasks on one processor: us per firing
    50 tasks, alternating   the same chain, every channel between two processors
    1 MB, there and back    two tasks on two processors in a cycle with one token: us per hop. Outputs
                            are zeroed before each firing, in both programs
    spotter                 examples/spotter/native.flow: us per iteration, on one core and on two
    start                   one frame of it, from the start to the exit: ms, and MB resident at most
    jitter                  1 kHz under two busy loops: how late a firing begins, us

Peers, in C++: the calls of spotter's functions in a loop, with one inference of the same library;
two threads that hand a buffer to each other by POSIX semaphores; a thread that sleeps until the
next ms, as cyclictest does. Threads of the last two are under SCHED_FIFO, on a core each, as those
of `main --real-time` beside them; that needs permission. On a busy machine, `chrt -f 20 python
benchmarks/native.py` puts all other sides above what else runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flowc.machines.whoami import cores
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

ROOT = Path(__file__).resolve().parent.parent
TASKS = 50
MEGABYTE = 1_000_000
SOUNDS, ITERATIONS = 10, 540
TICKS = 2000

C = """int source(void *state, float *y, const void *p) { *y = 1; return 0; }
int same(void *state, const float *x, float *y, const void *p) { *y = *x; return 0; }
int sink(void *state, const float *x, const void *p) { return 0; }
int pass(void *state, const uint8_t *x, uint8_t *y, const void *p) { *y = *x; return 0; }
int tick(void *state, int64_t *y, const void *p) { return 0; }
int tock(void *state, const int64_t *x, const void *p) { return 0; }
"""
HOP = f"""type Token = uint8[{MEGABYTE}]
task Pass {{ in x: Token   out y: Token   c "tasks.c:pass" }}
app Hop {{
    ping: Pass   pong: Pass
    ping -> pong -> delay 1 -> ping
}}
platform two {{ cpu core[2] }}
mapping on two {{ Hop.ping -> core[0]   Hop.pong -> core[1] }}
"""
TICK = """task Tick { out y: int64   c "tasks.c:tick" }
task Tock { in x: int64   c "tasks.c:tock" }
app Clock {
    period 1 ms
    tick: Tick   tock: Tock
    tick -> tock
}
platform two { cpu core[2] }
mapping on two { Clock.tick -> core[0]   Clock.tock -> core[0] }
"""


def chain(processors: int) -> str:
    """A chain of TASKS tasks, dealt out to processors."""
    names = [f"t{i}" for i in range(TASKS)]
    kinds = ["Source", *["Same"] * (TASKS - 2), "Sink"]
    instances = "\n".join(f"    {name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    pins = "\n".join(f"    Chain.{name} -> core[{i % processors}]" for i, name in enumerate(names))
    return f"""task Source {{ out y: float32   c "tasks.c:source" }}
task Same {{ in x: float32   out y: float32   c "tasks.c:same" }}
task Sink {{ in x: float32   c "tasks.c:sink" }}
app Chain {{
{instances}
    {" -> ".join(names)}
}}
platform two {{ cpu core[2] }}
mapping on two {{
{pins}
}}
"""


# -- peers -----------------------------------------------------------------------------------------
#: What peers have in common: a clock, and threads that are bound to a core under SCHED_FIFO.
COMMON = r"""
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <time.h>
static int64_t now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void real_time(int core)
{
    sched_param p{}; p.sched_priority = 50;
    cpu_set_t one; CPU_ZERO(&one); CPU_SET(core, &one);
    if (sched_setscheduler(0, SCHED_FIFO, &p) || sched_setaffinity(0, sizeof one, &one)) exit(3);
    prctl(PR_SET_TIMERSLACK, 1);
}
"""
SEMAPHORES = rf"""
static sem_t there, back;
static uint8_t tokens[2][{MEGABYTE}];
static int count;
static void *answer(void *)
{{
    real_time(1);
    for (int i = 0; i < count; i++) {{
        sem_wait(&there);
        memset(tokens[1], 0, {MEGABYTE});
        tokens[1][0] = tokens[0][0];
        sem_post(&back);
    }}
    return nullptr;
}}
int main(int, char **words)
{{
    count = atoi(words[1]);
    sem_init(&there, 0, 0), sem_init(&back, 0, 0);
    pthread_t thread;
    pthread_create(&thread, nullptr, answer, nullptr);
    real_time(0);
    const int64_t begin = now();
    for (int i = 0; i < count; i++) {{
        memset(tokens[0], 0, {MEGABYTE});
        tokens[0][0] = tokens[1][0];
        sem_post(&there);
        sem_wait(&back);
    }}
    printf("%f\n", (now() - begin) / 2e3 / count);
    pthread_join(thread, nullptr);
}}
"""
SLEEPS = r"""
int main(int, char **words)
{
    const int count = atoi(words[1]);
    std::vector<int64_t> late;
    late.reserve(count);
    real_time(0);
    int64_t due = now();
    for (int i = 0; i < count; i++) {
        due += 1000000;
        const timespec t{due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr)) {}
        late.push_back(now() - due);
    }
    std::sort(late.begin(), late.end());
    printf("%f %f\n", late[count / 2] / 1e3, late[count * 99 / 100] / 1e3);
}
"""
#: Spotter's functions in a loop, as a person would write it: overlaps are moved, nothing else is.
PLAIN = r"""
#include "native/flow.hpp"
#include "native/network.hpp"
extern "C" {
void *spotter_microphone_init(const void *); int spotter_microphone(void *, float *, const void *);
void *spotter_spectrum_init(const void *); int spotter_spectrum(void *, const float *, float *, const void *);
int mel_mel(void *, const float *, float *, const void *);
int spotter_picture(void *, const float *, float *, const void *);
int spotter_smooth(void *, const float *, const float *, float *, const void *);
int spotter_events(void *, const float *, const void *);
}
static float x[240 + 2560], power[257], mels[41 * 40 + 640], seen[49 * 40], scores[5], sure[3][5];
static flow::Network words("networks/spotter.onnx", 1, false);
static const flow::Tensor in(words, flow::Tensor::IN, "picture", 1, {1, 1, 49, 40}, seen, 1, sizeof seen, 1);
static const flow::Tensor out(words, flow::Tensor::OUT, "scores", 1, {1, 5}, scores, 1, sizeof scores, 1);
int main(int, char **given)
{
    const int count = atoi(given[1]);
    struct { const char *sound; int64_t loops; } mic = {flow::in_build("data/sound.wav"), 1 << 30};
    struct { double value; } weight = {0.5}, threshold = {0.6};
    struct { int64_t decisions, events, word; } kept = {};
    void *m = spotter_microphone_init(&mic), *s = spotter_spectrum_init(nullptr);
    const std::string why = words.open();
    if (!why.empty()) { fprintf(stderr, "%s\n", why.c_str()); return 1; }
    const flow::ns begin = flow::now();
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < 5; i++)
            spotter_microphone(m, x + 240 + 512 * i, &mic);
        for (int i = 0; i < 16; i++) {
            spotter_spectrum(s, x + 160 * i, power, nullptr);
            mel_mel(nullptr, power, mels + 41 * 40 + 40 * i, nullptr);
        }
        for (int i = 0; i < 2; i++) {
            spotter_picture(nullptr, mels + 320 * i, seen, nullptr);
            words.run({seen}, {scores});
            spotter_smooth(nullptr, scores, sure[i], sure[i + 1], &weight);
            spotter_events(&kept, sure[i + 1], &threshold);
        }
        memmove(x, x + 2560, 240 * sizeof *x);
        memmove(mels, mels + 640, 41 * 40 * sizeof *mels);
        memcpy(sure[0], sure[2], sizeof *sure);
    }
    fprintf(stderr, "%f\n", double(flow::now() - begin) / 1e3 / count);
}
"""


def compiled(folder: Path, name: str, source: str, *more: str | Path) -> Path:
    """A program of one source."""
    (folder / f"{name}.cpp").write_text(source)
    command = ["g++", "-std=gnu++17", "-O2", "-o", name, f"{name}.cpp", *map(str, more)]
    execute(*command, "-ldl", "-lpthread", "-lm", cwd=folder)
    return folder / name


# -- programs --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Build:
    """A directory with both programs."""

    folder: Path

    def python(self) -> list[str | Path]:
        """How the program in Python is started."""
        return [sys.executable, self.folder / "main.py"]

    def native(self) -> list[str | Path]:
        """How the one in C++ is started."""
        return [self.folder / "main"]


def build(folder: Path, name: str, text: str) -> Build:
    """Write a text and build it."""
    file = folder / f"{name}.flow"
    file.write_text(text)
    where = ("-o", folder / name, "--platform", "two")
    flowc("build", file, *where, "--target", "native", "--no-measure")
    return Build(folder / name)


def per_unit(command: list[str | Path], frames: int, units: int, *more: str) -> Callable[[], float]:
    """us per firing, hop or iteration."""

    def run() -> float:
        with tempfile.NamedTemporaryFile() as file:
            words = [*command, "--full-speed", "--quiet", "--report", file.name, *more]
            if frames:
                words += ["--frames", str(frames)]
            execute(*words)
            (app,) = json.loads(Path(file.name).read_text())["apps"].values()
        return 1e6 * float(app["seconds"]) / (int(app["frames"]) * units)

    return run


def printed(
    command: list[str | Path], column: int = 0, *, error: bool = False
) -> Callable[[], float]:
    """A number that a peer prints."""

    def run() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float((done.stderr if error else done.stdout).split()[column])

    return run


def of_one_frame(command: list[str | Path], *, memory: bool) -> Callable[[], float]:
    """ms from the start to the exit, or MB resident at most."""

    def run() -> float:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0
        return float(used.ru_maxrss / 1024 if memory else 1e3 * (time.perf_counter() - begin))

    return run


def lateness(command: list[str | Path]) -> tuple[float, float]:
    """How late firings of a source begin, from a trace: the median and the 99th percentile in us."""
    with tempfile.NamedTemporaryFile() as file:
        execute(*command, "--frames", str(TICKS), "--quiet", "--real-time", "--trace", file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    due = {e["args"]["firing"]: e["ts"] for e in events if e["name"] == "release"}
    late = sorted(e["ts"] - due[e["args"]["firing"]] for e in events if e["name"] == "Clock.tick")
    return late[len(late) // 2], late[len(late) * 99 // 100]


@contextmanager
def busy_loops() -> Iterator[None]:
    """A loop on each of two cores, as ordinary processes."""
    command = ["chrt", "-o", "0", sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Build, alternate, print."""
    count = rounds(__doc__, 9)
    others = Others()
    if cores() < 2:
        raise SystemExit("this benchmark needs two cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tasks.c").write_text(C)
        for file in ("spotter.c", "mel.c", "sound.wav", "spotter.onnx", "native.flow"):
            shutil.copy(ROOT / "examples/spotter" / file, folder)
        one, two = build(folder, "one", chain(1)), build(folder, "two", chain(2))
        hop, tick = build(folder, "hop", HOP), build(folder, "tick", TICK)
        text = (folder / "native.flow").read_text()
        spotter = build(folder, "spotter", text.replace("core[1]\n", "core[0]\n"))
        spotter2 = build(folder, "spotter2", text)
        objects = sorted(spotter.folder.glob("c/*.o"))
        plain = compiled(
            spotter.folder, "plain", PLAIN, *objects, "native/program.o", "native/network.o"
        )
        loops = ["--set", f"Spotter.microphone.loops={SOUNDS}"]
        frame = ["--frames", "1", "--full-speed", "--quiet"]
        semaphores = compiled(folder, "semaphores", COMMON + SEMAPHORES)
        sleeps = compiled(folder, "sleeps", COMMON + SLEEPS)
        sides: dict[str, Callable[[], float]] = {
            "50 tasks, one core: Python": per_unit(one.python(), 20_000, TASKS),
            "50 tasks, one core: C++": per_unit(one.native(), 20_000, TASKS),
            "50 tasks, alternating: Python": per_unit(two.python(), 3_000, TASKS),
            "50 tasks, alternating: C++": per_unit(two.native(), 3_000, TASKS),
            "1 MB, there and back: Python": per_unit(hop.python(), 3_000, 2),
            "1 MB, there and back: C++": per_unit(hop.native(), 3_000, 2, "--real-time"),
            "1 MB, there and back: semaphores": printed([semaphores, "3000"]),
            "spotter, one core: Python": per_unit(spotter.python(), 0, 1, *loops),
            "spotter, one core: C++": per_unit(spotter.native(), 0, 1, *loops),
            "spotter, one core: loop by hand": printed([plain, str(ITERATIONS)], error=True),
            "spotter, two cores: Python": per_unit(spotter2.python(), 0, 1, *loops),
            "spotter, two cores: C++": per_unit(spotter2.native(), 0, 1, *loops),
            "one frame, ms: Python": of_one_frame([*spotter.python(), *frame], memory=False),
            "one frame, ms: C++": of_one_frame([*spotter.native(), *frame], memory=False),
            "one frame, ms: loop by hand": of_one_frame([plain, "1"], memory=False),
            "one frame, MB: Python": of_one_frame([*spotter.python(), *frame], memory=True),
            "one frame, MB: C++": of_one_frame([*spotter.native(), *frame], memory=True),
            "one frame, MB: loop by hand": of_one_frame([plain, "1"], memory=True),
        }
        samples = alternate(sides, count)
        late: dict[str, list[float]] = {}
        with busy_loops():
            for _ in range(count):
                for at, value in zip(("p50", "p99"), lateness(tick.native()), strict=True):
                    late.setdefault(f"jitter, {at}: C++", []).append(value)
                for at, column in (("p50", 0), ("p99", 1)):
                    value = printed([sleeps, str(TICKS)], column)()
                    late.setdefault(f"jitter, {at}: sleeps", []).append(value)
        samples |= late

    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds: median [quartiles] least..most\n")
    print(table([["", "us"], *([s, Spread.of(t).text(3)] for s, t in samples.items())]), end="\n\n")
    rows = [["C++ takes", "times as long as", "median [quartiles] least..most", "aim"]]
    for group, other, aim in (
        ("50 tasks, one core", "Python", None),
        ("50 tasks, alternating", "Python", None),
        ("1 MB, there and back", "Python", None),
        ("1 MB, there and back", "semaphores", 1.1),
        ("spotter, one core", "Python", 0.6),
        ("spotter, one core", "loop by hand", 1.05),
        ("one frame, ms", "loop by hand", 1.6),
        ("one frame, MB", "loop by hand", None),
        ("jitter, p50", "sleeps", 1.2),
        ("jitter, p99", "sleeps", 1.2),
    ):
        spread = ratio(samples[f"{group}: C++"], samples[f"{group}: {other}"])
        kept = "" if aim is None else verdict(spread.median, most=aim)
        rows.append([group, other, spread.text(), kept])
    spread = ratio(samples["spotter, two cores: C++"], samples["spotter, one core: C++"])
    rows.append(["spotter, two cores", "one core", spread.text(), verdict(spread.median, most=0.8)])
    print(table(rows))


if __name__ == "__main__":
    main()
