"""Applications as projects of HOPES: what is written, what is refused, and what the code computes.

The code is run by a stand-in, and by HOPES' own translator where it is built
(tests/referees/hopes_translator.py).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import flowc
import pytest
from flowc.cli import app as command
from flowc.codegen.in_c import END
from flowc.driver.exchange.export import export
from flowc.interop.hopes.export.export_project import ExportedProject, export_project
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

import hopes_translator
from builds import ROOT, Write, build
from builds import run as run_program
from hopes_graphs import firings, random_system
from hopes_runs import SCHEMA, run
from limits import HANGS

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

COUNT_C = """
#include <stdio.h>
int count(void *state, int32_t *out, const count_params *p) { count_state *s = state; *out = s->next++; return 0; }
int show(void *state, const int32_t *in, const show_params *p) { return printf("%d\\n", *in) < 0; }
"""
PAIRS_C = """
int pairs(void *state, const int32_t *in, int32_t *out, const pairs_params *p)
{
    pairs_state *s = state;
    int i, n = s->odd++ % 2 ? 2 : 1;
    for (i = 0; i < n; i++)
        out[i] = in[0] + in[1] * (int)p->gain;
    return 0;
}
"""
MEAN_C = """
int mean(void *state, const int32_t *in, const int32_t *before, int32_t *out, const mean_params *p)
{
    *out = in[0] + in[1] + in[2] + *before;
    return 0;
}
"""
COUNT = """
task Count { out out: int32   state next: int32   c "count.c:count" }
task Pairs(gain: int = 3) { in in: int32 rate 2   out out: int32 rate [1, 2]   state odd: int32   c "pairs.c:pairs" }
task Mean { in in: int32 window 3   in before: int32   out out: int32   c "mean.c:mean" }
task Show { in in: int32   c "count.c:show" }
platform two { cpu core[2] }
"""
APP = """
app Numbers {
    count: Count   pairs: Pairs(gain = 5)   mean: Mean   show: Show
    count -> pairs -> delay 2 = [7, 8] -> mean.in
    mean -> show   mean -> delay 1 = 100 -> mean.before
}
"""


def exported(flow: Path, **options: str) -> ExportedProject:
    """The project of a text, in the folder `out` beside it."""
    return export_project(flow, flow.parent / "out", platform="two", **options)


def xml(made: ExportedProject, kind: str) -> ElementTree.Element:
    """One of its files."""
    return ElementTree.parse(made.directory / f"{made.project.name}_{kind}.xml").getroot()


def lines(text: str) -> list[str]:
    """The lines of tasks, in any order."""
    return sorted(line for line in text.splitlines() if re.fullmatch(r"-?\d+( \S+)*", line))


def printed(flow: Path, frames: int) -> list[str]:
    """What the program of flowc prints."""
    build(flow, flow.parent / "built", platform="two")
    return lines(run_program(flow.parent / "built", "--frames", str(frames)).stdout)


def refused(flow: Path) -> list[str]:
    """The messages of F723."""
    with pytest.raises(Errors) as raised:
        exported(flow)
    assert {d.code for d in raised.value.diagnostics} == {"F723"}
    assert all(d.help and d.span for d in raised.value.diagnostics)
    assert not (flow.parent / "out").exists()
    return [d.message for d in raised.value.diagnostics]


def numbers(write: Write, text: str = APP, **files: str) -> Path:
    """The text of an app that uses the tasks above."""
    return write(
        COUNT + text, **{"count_c": COUNT_C, "pairs_c": PAIRS_C, "mean_c": MEAN_C, **files}
    )


# -- what HOPES reads ------------------------------------------------------------------------------
def test_rates_are_those_of_a_cycle_of_phases(write: Write) -> None:
    made = exported(numbers(write))
    algorithm = xml(made, "algorithm")
    assert algorithm.get("property") == "DataFlow"
    tasks = {
        t.attrib["name"]: t for t in algorithm.iter(f"{SCHEMA}task") if "ParentTask" in t.attrib
    }
    assert list(tasks) == ["Numbers_count", "Numbers_pairs", "Numbers_mean", "Numbers_show"]
    rates = {
        f"{n}.{p.get('name')}": (
            p.get("direction"),
            p.get("sampleSize"),
            p.get("sampleType"),
            p[0].get("rate"),
        )
        for n, t in tasks.items()
        for p in t.findall(f"{SCHEMA}port")
    }
    assert rates["Numbers_pairs.in"] == ("input", "4", "int32", "4")
    assert rates["Numbers_pairs.out"] == ("output", "4", "int32", "3")
    assert rates["Numbers_mean.in"] == ("input", "4", "int32", "1")
    assert {t.get("runCondition") for t in tasks.values()} == {"data-driven"}
    initial = {
        f"{c[0].get('task')}->{c[1].get('task')}.{c[1].get('port')}": c.get("initialDataSize")
        for c in algorithm.iter(f"{SCHEMA}channel")
    }
    # HOPES counts firings without channels that have initial data: nothing else joins the two
    # halves.
    assert initial["Numbers_pairs->Numbers_mean.in"] == "0"
    assert initial["Numbers_mean->Numbers_mean.before"] == "1"


def test_cpus_are_one_element_and_others_are_virtual(write: Write) -> None:
    board = """
    platform soc { cpu big[2] frequencies [1000, 2000] MHz   cpu little[4] frequencies [500, 1000] MHz   gpu volta
                   dla dla[2] }
    mapping on soc { Numbers.count -> little[1]   Numbers.mean -> big[1] }
    """
    made = export_project(flow := numbers(write, APP + board), flow.parent / "out", platform="soc")
    elements = {
        e.attrib["name"]: e.attrib for e in xml(made, "architecture").iter(f"{SCHEMA}element")
    }
    assert {n: e["poolSize"] for n, e in elements.items()} == {"cpu": "6", "volta": "1", "dla": "2"}
    kinds = {e.attrib["name"]: e for e in xml(made, "architecture").iter(f"{SCHEMA}elementType")}
    assert {n: e.get("subcategory") for n, e in kinds.items()} == {
        "cpu_cpu": "CPU",
        "volta_gpu": "VIRTUAL",
        "dla_dla": "VIRTUAL",
    }
    assert [c.get("clock") for c in kinds["cpu_cpu"]] == ["1000"]
    assert made.project.places["Numbers_count"] == ("cpu", 3)
    assert made.project.places["Numbers_mean"] == ("cpu", 1)
    places = {t.get("name"): t[0][0][0].attrib for t in xml(made, "mapping")}
    assert places["Numbers_count"] == {"pool": "cpu", "localId": "3"}


def test_several_apps_are_composites_of_a_process_network(write: Write) -> None:
    text = """
    app Fast { period 3 ms   priority 2   count: Count   pairs: Pairs   show: Show   count -> pairs -> show }
    app Slow { period 40 ms   deadline 30 ms   count: Count   show: Show   count -> show }
    """
    made = exported(numbers(write, text))
    algorithm = xml(made, "algorithm")
    assert algorithm.get("property") == "ProcessNetwork"
    tasks = [t for t in made.project.tasks if t.inside]
    assert [(t.name, t.priority, t.period) for t in tasks] == [
        ("Fast", 3, made.project.tasks[0].period),
        ("Slow", 1, tasks[1].period),
    ]
    times = {
        t.attrib["name"]: {e.tag.removeprefix(SCHEMA): (e.get("value"), e.get("metric")) for e in t}
        for t in algorithm.find(f"{SCHEMA}modes")[0]  # type: ignore[index]
    }
    assert times["Fast"] == {"period": ("3000", "us")}
    assert times["Fast_count"] == {"period": ("750", "us")}
    assert times["Fast_pairs"] == {"period": ("1", "us")}
    assert times["Slow_show"] == {"period": ("1", "us"), "deadline": ("30000", "us")}
    driven = [
        t.get("name")
        for t in algorithm.iter(f"{SCHEMA}task")
        if t.get("runCondition") == "time-driven"
    ]
    assert driven == ["Fast", "Fast_count", "Slow", "Slow_count"]
    parents = {
        t.get("name"): t.get("ParentTask")
        for t in algorithm.iter(f"{SCHEMA}task")
        if "ParentTask" in t.attrib
    }
    assert (parents["Slow"], parents["Slow_show"]) == ("Slow", "Slow")


def test_what_nothing_joins_is_an_app_of_its_own(write: Write) -> None:
    text = "app A { a: Count   b: Show   c: Count   d: Show   a -> b   c -> d }"
    made = exported(numbers(write, text))
    assert [t.name for t in made.project.tasks] == ["A", "A_a", "A_b", "A_2", "A_2_c", "A_2_d"]
    flowc.import_(made.directory, made.directory.parent / "back.flow")


def test_names_that_differ_in_underscores_stay_different(write: Write) -> None:
    text = "graph G { out o: int32   c: Count   c -> o }   app A { g: G   g_c: Show   g -> g_c }"
    made = exported(numbers(write, text))
    assert sorted(made.project.places) == ["A_g_c", "A_g_c_2"]


def test_ports_whose_variables_would_be_one_get_another_name(write: Write) -> None:
    """HOPES' code has a variable `TASK_PORT` for each port."""
    text = """
    task Both { in b_c: int32   out d: int32   c "both.c:both" }
    task End { in c: int32   c "count.c:show" }
    app A { count: Count   a: Both   a_b: End   count -> a -> a_b }
    """
    code = "int both(void *s, const int32_t *b_c, int32_t *d, const both_params *p) { *d = *b_c; return 0; }\n"
    made = exported(numbers(write, text, both_c=code))
    ends = {(c.destination, c.destination_port) for c in made.project.channels}
    assert ends == {("A_a", "b_c"), ("A_a_b", "c_2")}
    assert 'PORT_INITIALIZE(TASK_ID, "c_2")' in (made.directory / "A_a_b.cic").read_text()


def test_times_of_the_text_are_a_profile(write: Write) -> None:
    text = COUNT.replace("state odd: int32", "state odd: int32   wcet [1.5, 2.2] us") + APP
    made = exported(write(text, count_c=COUNT_C, pairs_c=PAIRS_C, mean_c=MEAN_C))
    (task,) = xml(made, "profile")
    assert task.get("name") == "Numbers_pairs"
    assert [e.attrib for e in task.iter() if "value" in e.attrib] == [
        {"processorType": "core_cpu", "value": "4", "unit": "us"},
        {"type": "Maximum", "value": "4", "unit": "us"},
    ]


def test_processors_follow_static_orders(write: Write) -> None:
    pins = "mapping on two { Numbers.count -> core[1]   Numbers.pairs -> core[0]   Numbers.show -> core[0] }"
    made = exported(numbers(write, APP + pins), policy="self-timed")
    (file,) = (made.directory / "convertedSDF3xml").iterdir()
    assert file.name == "SDF_4,Default,2,0,schedule.xml"
    schedule = ElementTree.parse(file).getroot()
    order = [t.get("name") for t in schedule.iter(f"{SCHEMA}task")]
    assert order.index("Numbers_pairs") < order.index("Numbers_show")
    # HOPES makes C that does not compile of a task that is repeated outside of a loop.
    assert {t.get("repetition") for t in schedule.iter(f"{SCHEMA}task")} == {"1"}
    assert {int(str(e.get("repetition"))) for e in schedule.iter(f"{SCHEMA}loop")} == {3, 4}
    assert (
        'runtimeExecutionPolicy="Self-timed-Execution-Policy"'
        in (made.directory / "app_configuration.xml").read_text()
    )


def test_the_same_text_makes_the_same_bytes(write: Write) -> None:
    flow = numbers(write)
    first = exported(flow)
    again = exported(flow)
    other = export_project(flow, flow.parent / "other", platform="two")
    assert (first.fresh, again.fresh, first.digest) == (True, False, other.digest)
    (first.directory / "mine.txt").touch()
    with pytest.raises(Errors, match="F604"):
        exported(flow)


# -- what its code computes ------------------------------------------------------------------------
@needs_compiler
def test_phases_delays_and_windows_compute_what_the_program_computes(write: Write) -> None:
    flow = numbers(write)
    made = exported(flow)
    done = run(made.directory, made.project.name, firings(flow, made, 20))
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == printed(flow, 20)
    assert len(lines(done.stdout)) == 60


@needs_compiler
def test_repeat_last_and_a_task_alone(write: Write) -> None:
    text = """
    app Numbers { count: Count   mean: Mean   show: Show
                  count -> repeat 3 -> mean.in   mean -> last 2 of 2 -> show   count -> delay 4 -> mean.before }
    app Alone { mean: Solo   mean -> delay 3 = [1, 2, 3] -> mean.before }
    task Solo { in before: int32   out out: int32   c "solo.c:solo" }
    """.replace(
        "count -> delay 4 -> mean.before", "count -> last 1 -> repeat 3 -> delay 4 -> mean.before"
    )
    solo = """
    #include <stdio.h>
    int solo(void *state, const int32_t *before, int32_t *out, const solo_params *p)
    {
        *out = *before * 3 + 1;
        return printf("%d alone\\n", *out) < 0;
    }
    """
    flow = numbers(write, text, solo_c=solo)
    made = exported(flow)
    assert not any(c.source == "Alone_mean" for c in made.project.channels)
    done = run(made.directory, made.project.name, firings(flow, made, 8))
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == printed(flow, 8)


@needs_compiler
@pytest.mark.parametrize("seed", [3, 4])
def test_random_graphs_compute_what_the_program_computes(tmp_path: Path, seed: int) -> None:
    flow = random_system(seed, tmp_path)
    assert flow is not None
    made = exported(flow)
    done = run(made.directory, made.project.name, firings(flow, made, 4))
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == printed(flow, 4) != []


@needs_compiler
def test_a_source_that_ends_its_stream_ends_everything(write: Write) -> None:
    """HOPES has no word for it."""
    code = COUNT_C.replace(
        "*out = s->next++; return 0;", "*out = s->next++; return s->next == 3 ? FLOWC_END : 0;"
    )
    flow = numbers(write, count_c=code)
    made = exported(flow)
    done = run(made.directory, made.project.name, firings(flow, made, 20))
    assert done.returncode == 1
    why = f"count returned {END}: its stream has ended"
    assert done.stderr == f"task Numbers.count failed at firing 2: {why}\n"


@needs_compiler
def test_a_failure_ends_everything_and_says_why(write: Write) -> None:
    code = COUNT_C.replace(
        "*out = s->next++; return 0;", "*out = s->next++; return s->next == 3 ? 4 : 0;"
    )
    said = 'const char *count_error(void *state) { return "that is too much"; }\n'
    flow = numbers(write, count_c=code + said)
    made = exported(flow)
    done = run(made.directory, made.project.name, firings(flow, made, 20))
    assert done.returncode == 1
    assert (
        done.stderr == "task Numbers.count failed at firing 2: count returned 4: that is too much\n"
    )


@needs_compiler
def test_what_cannot_start_ends_everything(write: Write) -> None:
    flow = numbers(write)
    (flow.parent / "count.c").write_text(
        COUNT_C + "void *show_init(const show_params *p) { return 0; }\n"
    )
    made = exported(flow)
    done = run(made.directory, made.project.name, firings(flow, made, 1))
    assert (done.returncode, done.stderr) == (
        1,
        "task Numbers.show cannot start: show_init returned NULL\n",
    )


@needs_compiler
def test_parameters_reach_the_code(write: Write) -> None:
    text = """
    task Say(word: string, half: float, table: file) { in in: int32   c "say.c:say" }
    app A { count: Count   show: Show   count -> show   say: Say(word = "a \\"b\\" {{ c", half = 1/2, table = "lists/table 1.txt")   count -> say }
    """
    code = """
    #include <stdio.h>
    int say(void *state, const int32_t *in, const say_params *p)
    {
        char words[32] = "";
        FILE *file = fopen(p->table, "r");
        return !file || !fgets(words, sizeof words, file) || printf("%d %s %g %s\\n", *in, p->word, p->half, words) < 0;
    }
    """
    flow = numbers(write, text, say_c=code)
    (flow.parent / "lists").mkdir()
    (flow.parent / "lists" / "table 1.txt").write_text("from a file")
    made = exported(flow)
    done = run(made.directory, made.project.name, firings(flow, made, 1))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["0", '0 a "b" {{ c 0.5 from a file']


PYTHON = """
task Pace { in in: int32 rate 3   out out: float32[2] rate [1, 2]   python "tasks.py:Pace" }
task Print { in in: float32[2] window 2   python "tasks.py:show" }
app A { count: Count   pace: Pace   print: Print   count -> pace -> delay 1 = 5 -> print }
app B { count: Count   show: Show   count -> show }
"""
TASKS_PY = """
import numpy as np
class Pace:
    n = 0
    def __call__(self, values):
        self.n += 1
        if self.n == 9:
            raise ValueError("nine is enough")
        return np.array([[values.sum(), k] for k in range(2 - self.n % 2)], np.float32)
def show(pairs):
    # In one go: others print as well.
    print("".join(f"{int(v)} " for v in [0, *pairs.ravel()]) + "0\\n", end="")
"""


@needs_compiler
def test_tasks_in_python_are_called_through_a_library(write: Write) -> None:
    flow = numbers(write, PYTHON, tasks_py=TASKS_PY)
    wanted = printed(flow, 4)
    made = exported(flow)
    assert made.script is not None
    subprocess.run(
        [sys.executable, str(made.script)],
        check=True,
        capture_output=True,
        env={**os.environ, "CFLAGS": "-O0"},
        timeout=HANGS,
    )
    room = made.script.parent
    library = (f"-L{room}", "-lapp_tasks", f"-Wl,-rpath,{room}")
    done = run(made.directory, made.project.name, firings(flow, made, 4), library)
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == wanted
    done = run(made.directory, made.project.name, firings(flow, made, 5), library)
    assert done.returncode == 1
    assert done.stderr == "task A.pace failed at firing 8: ValueError: nine is enough\n"
    # What was made there belongs to the project: it is replaced, and does not stand in the way.
    assert not exported(flow).fresh
    assert (room / "libapp_tasks.so").exists()


def test_networks_and_references_are_called_too(tmp_path: Path) -> None:
    for name in ("digits", "denoise"):
        ignored = shutil.ignore_patterns("*.json", "build", "__pycache__")
        shutil.copytree(ROOT / "examples" / name, tmp_path / "from" / name, ignore=ignored)
    made = export_project(tmp_path / "from" / "digits" / "digits.flow", tmp_path / "digits")
    words = (made.directory / "Reader_digits.cic").read_text()
    assert "status = reader_digits_execute(data_crop, data_scores);" in words
    assert (made.directory / "external" / "networks" / "digits.onnx").exists()
    kernels = export_project(
        tmp_path / "from" / "denoise" / "denoise.flow", tmp_path / "denoise", platform="orin"
    )
    assert kernels.project.places["Clean_edges"] == ("ampere", 0)
    assert [d.code for d in kernels.diagnostics if "Clean.edges" in d.message] == ["F725"]
    assert "clean_edges_execute(" in (kernels.directory / "Clean_edges.cic").read_text()


# -- what is refused, and what is left out ---------------------------------------------------------
def test_everything_that_hopes_cannot_say_is_told_at_once(write: Write) -> None:
    text = """
    task Kernel { in number: int32   on gpu cuda "k.cu:k" (number) grid [1] block [1] }
    app A { in there: int32   p: Kernel   s: Show   there -> p   there -> s }
    app B { count: Count   show: Show   count -> show }
    app C { show: Show   B.count -> drop oldest 3 -> show }
    """
    found = refused(
        numbers(write, text, k_cu='extern "C" __global__ void k(const int *number) {}\n')
    )
    assert len(found) == 4
    assert any("open end" in m for m in found) and any("for a GPU only" in m for m in found)
    assert sum("`drop oldest` joins two apps" in m for m in found) == 2


def test_a_cycle_that_waits_for_itself_when_phases_are_one_firing(write: Write) -> None:
    text = """
    task First { in back: int32 rate [0, 1]   out out: int32 rate [1, 0]   c "count.c:first" }
    task Second { in in: int32   out out: int32   c "count.c:second" }
    app A { a: First   b: Second   a -> b -> a }
    """
    code = "int first(void *s, const int32_t *i, int32_t *o, const first_params *p) { return 0; }\n"
    code += (
        "int second(void *s, const int32_t *i, int32_t *o, const second_params *p) { return 0; }\n"
    )
    flow = numbers(write, text, count_c=COUNT_C + code)
    assert flowc.check(flow, platform="two").ok
    (message,) = refused(flow)
    assert (
        "`A.a` and `A.b` wait for each other" in message
        or "`A.b` and `A.a` wait for each other" in message
    )


def test_c_files_have_to_fit_into_one_folder(write: Write) -> None:
    text = """
    task Twin { in in: int32   c "more/count.c:show" }
    app A { count: Count   a: Show   b: Twin   count -> a   count -> b }
    """
    flow = numbers(write, text)
    (flow.parent / "more").mkdir()
    (flow.parent / "more" / "count.c").write_text('#include "../up.h"\n' + COUNT_C)
    (flow.parent / "up.h").touch()
    assert sorted(refused(flow)) == [
        "`count.c` includes `../up.h`, but HOPES copies only one folder",
        f"`count.c` lies in one folder with `{flow.parent / 'count.c'}` of that name",
        "two C files have a function `show`, but HOPES makes one program",
    ]


@pytest.mark.parametrize("equal", [True, False])
def test_copies_of_a_file_are_one(write: Write, equal: bool) -> None:
    """Copies of a composite of HOPES have copies of its code."""
    text = """
    task One { out out: int32   c "a/one.c:one" }
    task Two { in in: int32   c "b/two.c:two" }
    app A { a: One   b: Two   a -> b }
    """
    flow = numbers(write, text)
    for folder, file, arguments in (("a", "one", "int32_t *x"), ("b", "two", "const int32_t *x")):
        (flow.parent / folder).mkdir()
        (flow.parent / folder / "both.h").write_text(
            "#define BOTH\n" if equal else f"#define {file}\n"
        )
        function = f"int {file}(void *s, {arguments}, const {file}_params *p) {{ return 0; }}\n"
        (flow.parent / folder / f"{file}.c").write_text(f'#include "both.h"\n{function}')
    if equal:
        assert (exported(flow).directory / "both.h").read_text() == "#define BOTH\n"
    else:
        (message,) = refused(flow)
        assert (
            message
            == f"`both.h` lies in one folder with `{flow.parent / 'a' / 'both.h'}` of that name"
        )


def test_a_channel_may_be_too_large(write: Write) -> None:
    text = """
    task Big { out out: float64[40000, 8000]   c "big.c:big" }
    task End { in in: float64[40000, 8000]   c "big.c:end" }
    app A { a: Big   b: End   a -> b }
    """
    code = "int big(void *s, double *o, const big_params *p) { return 0; }\n"
    code += "int end(void *s, const double *i, const end_params *p) { return 0; }\n"
    (message,) = refused(numbers(write, text, big_c=code))
    assert "bytes, but HOPES supports at most 2147483647" in message


def test_what_is_left_out_is_named(write: Write) -> None:
    text = """
    task Live { out out: int32   state next: int32   c "count.c:count"   live }
    app A { period 1000 ns   count: Count   show: Show   count -> show   deadline 500 ns from count to show }
    app B { live: Live   show: Show   live -> show }
    scenario Day { initial state all { run A, B } }
    """
    made = exported(numbers(write, text))
    assert {d.code for d in made.diagnostics if "HOPES" in d.message} == {"F725"}
    found = " ".join(d.message for d in made.diagnostics)
    assert "`B.live` is no `live` source" in found
    assert "a deadline from `A.count` to `A.show`" in found
    assert "the states of `Day` cannot be expressed in HOPES" in found


def test_stubs_of_tasks_without_code(write: Write) -> None:
    """Beside others that run in Python, too."""
    text = """
    task Later { in in: int32   out out: int32 rate 2 }
    task Half { in in: int32   out out: int32   python "half.py:half" }
    app A { count: Count   later: Later   half: Half   show: Show   count -> later -> half -> show }
    """
    flow = numbers(write, text, half_py="def half(x):\n    return x // 2\n")
    with pytest.raises(Errors, match="F601"):
        exported(flow)
    made = export_project(flow, flow.parent / "out", platform="two", stubs=True)
    (told,) = (d for d in made.diagnostics if d.code == "F725")
    assert told.message == "`Later` has no code: it reads, and writes zeros"
    words = (made.directory / "A_later.cic").read_text()
    assert "belongs here" in words and "UFPort_WriteToQueue(port_out" in words
    assert "a_half_execute(" in (made.directory / "A_half.cic").read_text()


# -- the verb --------------------------------------------------------------------------------------
def test_the_verb_exports(write: Write) -> None:
    flow = numbers(write)
    out = str(flow.parent / "made")
    words = ["export", str(flow), "--format", "hopes", "--platform", "two", "-o", out]
    done = CliRunner().invoke(command, words)
    assert (done.exit_code, done.stdout) == (
        0,
        f"{out}\n  project app, device two: 4 tasks, 4 channels\n",
    )
    assert "up to date" in CliRunner().invoke(command, words).stdout
    assert (
        '"Numbers.count": "Numbers_count"' in CliRunner().invoke(command, [*words, "--json"]).stdout
    )
    for wrong in (
        ["--app", "Numbers"],
        ["--policy", "dynamic"],
        ["--into", str(flow.parent), "--stubs"],
    ):
        assert CliRunner().invoke(command, [*words, *wrong]).exit_code == 2
    assert (
        CliRunner().invoke(command, ["export", str(flow), "--policy", "self-timed"]).exit_code == 2
    )
    with pytest.raises(Errors, match="F704"):
        export(flow, "hopes")


# -- HOPES itself ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def translator() -> None:
    """HOPES' own translator, where it is built."""
    try:
        hopes_translator.referee()
    except hopes_translator.Missing as why:
        pytest.skip(str(why))


@pytest.mark.parametrize(
    ("seed", "most", "policy"), [(16, 3, "self-timed"), (10, 6, "static-assignment")]
)
def test_hopes_makes_programs_that_compute_the_same(
    translator: None, tmp_path: Path, seed: int, most: int, policy: str
) -> None:
    flow = random_system(seed, tmp_path, most)
    assert flow is not None
    made = exported(flow, policy=policy)
    program = hopes_translator.translate(made.directory, made.project.name, 4)
    counts = hopes_translator.counts(program)
    assert {t: counts[t] for t in made.project.places} == firings(flow, made, 1)
    hopes_translator.compiled(program, ("-O0", "-w"))
    assert lines("\n".join(hopes_translator.output(program / "proc"))) == printed(flow, 4)
