"""Overheads of programs in C++ on a machine: a small one is built and run.

In: a machine. Out: what a firing and a hand-over cost there. A firing begins where the one before
it ended, so that the runtime's share is in the times of tasks: it costs nothing beside them.
"""

from __future__ import annotations

from dataclasses import replace

from ...machines.host import HERE, Host
from ...model.files import scratch
from ...model.json_reader import parse_object
from ...profiling import machine
from ...profiling.machine import RuntimeCosts
from ...profiling.measure import MeasurementFailed
from ..plan.program import deployment, write_program
from ..text.check import prepare

#: The work of the task between two hand-overs in ns, frames of a run, and runs. The shortest run
#: counts: other programs of the machine make it longer.
WORK, FRAMES, RUNS = 100_000, 1000, 5

_TEXT = """\
type Token = uint8[16]
task Give { out x: Token   c "costs.c:give" }
task Work { in x: Token   out y: Token   c "costs.c:work" }
task Take { in y: Token   c "costs.c:take" }
app Costs {
    give: Give   work: Work   take: Take
    give -> work -> take
}
platform two { cpu core[2] }
mapping on two { Costs.give -> core[0]   Costs.work -> core[1]   Costs.take -> core[0] }
"""
_CODE = f"""\
#include <time.h>
static int64_t now(void)
{{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}}
int give(void *state, uint8_t *x, const void *p) {{ return 0; }}
int work(void *state, const uint8_t *x, uint8_t *y, const void *p)
{{
    for (const int64_t begin = now(); now() - begin < {WORK};)
        ;
    return 0;
}}
int take(void *state, const uint8_t *y, const void *p) {{ return 0; }}
"""


def native_costs(host: Host = HERE) -> RuntimeCosts:
    """Measure them; takes some seconds, most of them for the compiler. What a byte of a token costs
    its reader is a matter of the machine, as in programs in Python. Raises MeasurementFailed, and
    Errors.

    The middle task of three has a worker of its own: what its frames take beside its work are a
    token that it gets and one that it hands on.
    """
    costs = machine.runtime_costs(host)
    with scratch() as folder:
        (folder / "costs.flow").write_text(_TEXT)
        (folder / "costs.c").write_text(_CODE)
        valid = prepare(folder / "costs.flow", platform="two", native=True).require()
        _, deployed, _, _ = deployment(valid, None, measure=False)
        write_program(deployed, folder / "costs", native=True)
        tree = host.put(folder / "costs", "native costs")
        frame = min(_frame_ns(host, tree) for _ in range(RUNS))
    hop = max(0.0, frame - WORK)
    return RuntimeCosts(0.0, replace(costs.transfer, fixed_ns=hop))


def _frame_ns(host: Host, tree: str) -> float:
    """Mean time between frames."""
    with host.folder() as folder:
        file = f"{folder}/report.json"
        words = ["--full-speed", "--frames", str(FRAMES), "--quiet", "--report", file]
        done = host.execute([f"{tree}/main", *words])
        if done.status:
            raise MeasurementFailed(done.stderr.strip())
        report = parse_object(host.read(file) or b"")
    return 1e9 / float(report["apps"]["Costs"]["fps"])
