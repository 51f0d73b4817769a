"""PREESM's graphs in: rates, values, code, places and times arrive as meant, and faults are told
all at once."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.cli import app as cli
from flowc.driver.text.check import Valid
from flowc.dsl import format as layout
from flowc.interop.preesm import expressions
from flowc.interop.preesm.expressions import Wrong
from flowc.model.diagnostic import Diagnostic, Errors
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import pisdf
from builds import HANGS, in_a_moment

RAMP = Path(__file__).resolve().parents[1] / "data/preesm/Ramp"
TOP, SUB, SCENARIO = "Algo/ramp.pi", "Algo/scale.pi", "Scenarios/two.scenario"
SLAM, SOURCE = "Archi/two.slam", "Code/src/ramp.c"
FEW = settings(max_examples=60, deadline=None)
Edit = Callable[..., Path]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """Copy the project and replace texts in its files: (file, old, new) ..."""

    def edited(*changes: tuple[str, str, str]) -> Path:
        folder = tmp_path / "Ramp"
        shutil.copytree(RAMP, folder)
        for file, old, new in changes:
            text = (folder / file).read_text()
            assert old in text
            (folder / file).write_text(text.replace(old, new, 1))
        return folder

    return edited


# -- helpers ---------------------------------------------------------------------------------------
def imported(file: Path, out: Path) -> tuple[Path, list[str]]:
    """The text of an import, laid out as the formatter does, and what was said."""
    done = flowc.import_(file, out / "app.flow")
    for text in out.glob("*.flow"):
        assert layout.format_text("", text.read_text()) == text.read_text()
    assert all(w.code == "F733" and w.severity == "warning" for w in done.warnings)
    return done.target, [w.message for w in done.warnings]


def faults(file: Path, out: Path) -> list[Diagnostic]:
    """What is wrong; nothing was written."""
    with pytest.raises(Errors) as found:
        flowc.import_(file, out / "app.flow")
    assert not out.exists()
    return list(found.value.diagnostics)


def firings(text: Path) -> dict[str, int]:
    """Of the only app, by names below it."""
    (counts,) = valid(text).repetition.values()
    return {t.partition(".")[2]: n for t, n in counts.items()}


def said_by(text: Path) -> list[str]:
    """What the program prints in two frames."""
    command = [sys.executable, "-m", "flowc", "run", str(text), "--frames", "2", "--no-measure"]
    done = subprocess.run(
        command, cwd=text.parent, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def valid(text: Path, platform: str = "host") -> Valid:
    return flowc.check(text, platform=platform).require()


def graph(*nodes: str, name: str = "g") -> str:
    """A graph around nodes and edges."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'<graph edgedefault="directed">\n<data key="name">{name}</data>\n'
        + "\n".join(nodes)
        + "\n</graph>\n</graphml>\n"
    )


def node(kind: str, name: str, *ports: str, inside: str = "", more: str = "") -> str:
    """Ports are `input x 2`, or `cfg_input n`."""
    lines = []
    for port in ports:
        way, called, *rate = port.split(" ", 2)
        lines.append(
            f'<port kind="{way}" name="{called}"' + (f' expr="{rate[0]}"/>' if rate else "/>")
        )
    desc = f'<data key="graph_desc">{inside}</data>' if inside else ""
    return f'<node id="{name}" kind="{kind}" {more}>{desc}{"".join(lines)}</node>'


def fifo(source: str, target: str, kind: str = "int", delay: str = "") -> str:
    (a, out), (b, into) = source.split("."), target.split(".")
    data = f'<data key="delay">{delay}</data>' if delay else ""
    return f'<edge kind="fifo" source="{a}" sourceport="{out}" target="{b}" targetport="{into}" type="{kind}">{data}</edge>'


def parameter(name: str, expr: str) -> str:
    return f'<node id="{name}" kind="param" expr="{expr}"/>'


def pair(*more: str, made: str = "1", taken: str = "1", kind: str = "int") -> str:
    """Two actors and a fifo."""
    return graph(
        *more,
        node("actor", "A", f"output o {made}"),
        node("actor", "B", f"input i {taken}"),
        fifo("A.o", "B.i", kind),
    )


# -- a project -------------------------------------------------------------------------------------
def test_a_project_runs_as_its_authors_meant(tmp_path: Path) -> None:
    text, said = imported(RAMP / SCENARIO, tmp_path / "out")
    assert said == [
        "costs of communication are not imported",
        "PREESM gives times without a unit: they are read as ns",
        "costs of copies are not imported",
    ]
    # A gain for two firings, halves that are swapped, and what was counted one frame before, which
    # `times` overwrites in its own copy alone.
    assert said_by(text)[:2] == ["0<306 0<309 0<300 0<303", "100<318 101<321 102<312 103<315"]


def test_the_text_keeps_names_and_formulas(tmp_path: Path) -> None:
    text, _ = imported(RAMP / SCENARIO, tmp_path)
    lines = [line.strip() for line in text.read_text().splitlines()]
    assert "const size = 4  // 2^2*scale" in lines
    assert (
        'task Count(n: int, first: int) { out x: int32 rate n   c "app_code/tasks.c:fire_Count" }'
        in lines
    )
    assert "Times: Times(n = size / 2)" in lines
    assert "Count -> delay size -> Show.before" in lines  # the broadcast is two arrows
    assert "gain -> repeat 2 -> Times.gain" in lines


def test_firings_are_those_of_a_second_reading(tmp_path: Path) -> None:
    text, _ = imported(RAMP / TOP, tmp_path)
    expected = pisdf.Flat(RAMP / TOP, {}).firings()
    assert expected == {"Count": 1, "Level": 1, "Show": 1, "Scale.Times": 2}
    assert pisdf.agree(firings(text), expected)


def test_a_scenario_brings_platform_places_and_times(tmp_path: Path) -> None:
    text, _ = imported(RAMP / SCENARIO, tmp_path)
    assert (tmp_path / "two.flow").read_text().splitlines()[1:] == [
        "platform two {",
        "    cpu x86[2]",
        "}",
    ]
    pins = (tmp_path / "app.two.flow").read_text().splitlines()
    assert [line.strip() for line in pins if "->" in line] == [
        "Ramp.Scale.Times -> x86[0]",
        "Ramp.Show -> x86[1]",
    ]
    profile = json.loads((tmp_path / "app.two.profile.json").read_text())
    times = {(e["processor"], e["subject"]): e["wcet_ns"] for e in profile["entries"]}
    assert times == {("cpu", "Ramp.Scale.Times"): 2000, ("cpu", "Ramp.Show"): 700}
    assert valid(tmp_path / "app.two.flow", str(tmp_path / "two.flow")).platform.name == "two"
    assert valid(text, str(tmp_path / "two.flow"))


def test_times_of_what_is_not_there_are_told(edit: Edit, tmp_path: Path) -> None:
    folder = edit(
        (SCENARIO, 'vertexname="ramp/Show"', 'vertexname="ramp/Hide"'),
        (SCENARIO, 'opname="x86" time="1000', 'opname="dsp" time="1000'),
    )
    _, said = imported(folder / SCENARIO, tmp_path / "out")
    assert "`ramp/Hide`: has times and is no actor of this graph" in said
    assert "`dsp`: has times and is no type of operator here" in said
    assert not (tmp_path / "out/app.two.profile.json").exists()


def test_a_scenario_gives_values(edit: Edit, tmp_path: Path) -> None:
    value = '<parameterValues><parameter name="scale" parent="ramp" value="2+1"/></parameterValues>'
    folder = edit((SCENARIO, "<parameterValues/>", value))
    text, _ = imported(folder / SCENARIO, tmp_path / "out")
    (app,) = valid(text).system.apps
    assert next(t for t in app.tasks if t.name == "Ramp.Count").outputs[0].rates == (12,)
    lost = value.replace('parent="ramp"', 'parent="other"')
    folder = edit_again(folder, SCENARIO, value, lost)
    _, said = imported(folder / SCENARIO, tmp_path / "again")
    assert "there is no parameter `scale` of graph `other`: its value is left out" in said


def edit_again(folder: Path, file: str, old: str, new: str) -> Path:
    (folder / file).write_text((folder / file).read_text().replace(old, new))
    return folder


def test_an_actor_without_source_is_a_task_without_code(edit: Edit, tmp_path: Path) -> None:
    folder = edit((SOURCE, "void level(float *gain) { *gain = GAIN; }", "void level(float *gain);"))
    text, said = imported(folder / TOP, tmp_path / "out")
    assert "`Level`: no C source of the project defines `level`: this task has no code" in said
    assert "task Level { out gain: float32 }" in text.read_text()


def test_a_stand_in_for_the_header_of_preesm(edit: Edit, tmp_path: Path) -> None:
    folder = edit(("Code/include/ramp.h", "<preesm.h>", '"preesm.h"'))
    (folder / "Code/include/preesm.h").unlink()
    imported(folder / TOP, tmp_path / "out")
    assert "typedef unsigned char uchar;" in (tmp_path / "out/app_code/src/preesm.h").read_text()


def test_sources_find_headers_beside_those_of_actors_only(edit: Edit, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 1\n")
    folder = edit(
        (
            SOURCE,
            '#include "gains.h"',
            f'#include "gains.h"\n#include "../../../{secret.name}"\n#include "no.h"',
        )
    )
    (folder / "Code/src/gains.h").unlink()
    (folder / "Code/src/gains.h").symlink_to(secret)
    _, said = imported(folder / TOP, tmp_path / "out")
    assert "`../../../secret.h`: included from outside of the project, and left out" in said
    assert "`gains.h` and `no.h`: included, and not in the project" in said
    assert not any("SECRET" in f.read_text() for f in (tmp_path / "out").rglob("*.[ch]"))


def test_names_of_strangers_are_written_safely(edit: Edit, tmp_path: Path) -> None:
    evil = "x&quot;&#10;app Evil { }"
    folder = edit(
        (TOP, 'id="Level"', f'id="{evil}"'),
        (TOP, 'source="Level"', f'source="{evil}"'),
        (TOP, '<loop name="level">', f'<loop name="{evil}">'),
    )
    (folder / SCENARIO).rename(folder / 'Scenarios/a"b.scenario')
    text, said = imported(folder / 'Scenarios/a"b.scenario', tmp_path / "out")
    assert [a.name for a in valid(text).system.apps] == ["Ramp"]
    assert any("these actors name no C function" in s for s in said)
    done = flowc.import_(folder / TOP, tmp_path / 'a"b.flow')
    assert flowc.check(done.target).ok


def test_makefiles_and_main_programs_of_preesm_are_replaced(edit: Edit, tmp_path: Path) -> None:
    asking = 'extern int preesmStopThreads;\nstatic const char *at = PROJECT_ROOT_PATH "/dat";\nstatic long next;'
    folder = edit((SOURCE, "static long next;", asking))
    (folder / "Code/CMakeLists.txt").write_text("")
    _, said = imported(folder / TOP, tmp_path / "out")
    code = (tmp_path / "out/app_code/tasks.c").read_text()
    assert f'#define PROJECT_ROOT_PATH "{folder}/Code"' in code
    assert "int preesmStopThreads;" in code
    assert [s.partition("` ")[0] for s in said] == ["`PROJECT_ROOT_PATH", "`preesmStopThreads"]


def test_static_names_of_two_files_stay_apart(edit: Edit, tmp_path: Path) -> None:
    folder = edit((SOURCE, '#include "gains.h"', '#include "gains.h"\n#include "more.h"'))
    (folder / "Code/src/more.h").write_text("long more(void);\n")
    (folder / "Code/src/more.c").write_text(
        "static long next = 7;\nlong more(void) { return next; }\n"
    )
    text, _ = imported(folder / TOP, tmp_path / "out")
    code = (tmp_path / "out/app_code/tasks.c").read_text()
    assert code.count("#define next next_") == code.count("#undef next") == 1
    flowc.build(text, tmp_path / "build", measure=False)


def test_bytes_of_a_struct_are_a_token(edit: Edit, tmp_path: Path) -> None:
    sized = '<dataType name="int" size="32"/><dataType name="pixel" size="24"/>'
    folder = edit(
        (SCENARIO, '<dataType name="int" size="32"/>', sized),
        (TOP, 'targetport="gain" type="float"', 'targetport="gain" type="pixel"'),
    )
    (fault,) = faults(folder / SCENARIO, tmp_path / "out")
    assert (fault.code, fault.message) == (
        "F732",
        "the fifo inside of interface `gain` has another type than the one around it",
    )
    edit_again(folder, SUB, 'type="float"', 'type="pixel"')
    text, said = imported(folder / SCENARIO, tmp_path / "out")
    assert "task Level { out gain: uint8[3] " in text.read_text()
    assert any(
        "`Level.gain`" in s and "takes `float` where the fifo has tokens of 3 bytes" in s
        for s in said
    )


# -- parts of graphs -------------------------------------------------------------------------------
def test_interfaces_repeat_inputs_and_keep_the_last_outputs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    inside = graph(
        node("src", "i", "output i 2"), node("src", "n", "output n 6"), node("snk", "o", "input o 1"),
        node("actor", "X", "input a 1", "input b 2", "output c 1"),
        fifo("i.i", "X.a"), fifo("n.n", "X.b"), fifo("X.c", "o.o"),
    )  # fmt: skip
    top = graph(
        node("actor", "A", "output i 2", "output n 6"),
        node("actor", "S", "input i 2", "input n 6", "output o 1", inside="sub.pi"),
        node("actor", "B", "input o 1"),
        fifo("A.i", "S.i"), fifo("A.n", "S.n"), fifo("S.o", "B.o"),
    )  # fmt: skip
    (tmp_path / "in/sub.pi").write_text(inside)
    (tmp_path / "in/top.pi").write_text(top)
    text, _ = imported(tmp_path / "in/top.pi", tmp_path / "out")
    assert firings(text) == {"A": 1, "S.i_repeated": 1, "S.X->last3->B": 1, "S.X": 3, "B": 1}
    assert pisdf.agree(firings(text), pisdf.Flat(tmp_path / "in/top.pi", {}).firings())
    code = (tmp_path / "out/app_code/tasks.c").read_text()
    # 0 1 0, for which there is no word
    assert "flowc_fill(out_taken, 12, (const char *)in_given, 8);" in code


def test_blocks_are_repeated_and_the_last_ones_kept(edit: Edit, tmp_path: Path) -> None:
    """Twice as many firings inside as data for them: `times` gets each block twice, and its last
    results leave."""
    folder = edit(
        (SUB, '<port annotation="NONE" expr="1" kind="input" name="gain"/>', '<port annotation="NONE" expr="1" kind="input" name="gain"/><port kind="input" name="four" expr="1"/>'),
        (SUB, '<node id="y" kind="snk">', '<node id="four" kind="src"><port kind="output" name="four" expr="4"/></node><node id="y" kind="snk">'),
        (SUB, '<edge kind="dependency"', f'{fifo("four.four", "Times.four")}<edge kind="dependency"'),
        (TOP, '<port annotation="NONE" expr="1" kind="input" name="gain"/>', '<port annotation="NONE" expr="1" kind="input" name="gain"/><port kind="input" name="four" expr="4"/>'),
        (TOP, '<node id="Copy" kind="broadcast">', f'{node("broadcast", "Four", "input i 1", "output o 4", "output p 1")}<node id="Copy" kind="broadcast">'),
        (TOP, 'target="Scale" targetport="gain" type="float"/>', 'target="Four" targetport="i" type="float"/>' + fifo("Four.o", "Scale.four", "float") + fifo("Four.p", "Scale.gain", "float")),
    )  # fmt: skip
    edit_again(folder, SUB, 'targetport="four" type="int"', 'targetport="four" type="float"')
    text, _ = imported(folder / TOP, tmp_path / "out")
    lines = [line.strip() for line in text.read_text().splitlines()]
    assert "Level -> repeat 4 -> Scale.four" in lines
    assert {
        "x -> repeat 2 of 4 -> Times.x",
        "gain -> repeat 4 -> Times.gain",
        "Times -> last 2 of 4 -> y",
    } < set(lines)
    assert pisdf.agree(firings(text), pisdf.Flat(folder / TOP, {}).firings())
    assert said_by(text)[:2] == ["0<306 0<309 0<300 0<303", "100<318 101<321 102<312 103<315"]


def test_a_graph_with_interfaces_has_open_ends(tmp_path: Path) -> None:
    (tmp_path / "sub.pi").write_text(
        graph(
            node("src", "x", "output x 4"),
            node("actor", "B", "input i 2"),
            fifo("x.x", "B.i", "uchar"),
        )
    )
    text, _ = imported(tmp_path / "sub.pi", tmp_path / "out")
    assert firings(text) == {"x": 2, "B": 1}


def test_a_parameter_from_around_has_to_be_given(tmp_path: Path) -> None:
    (fault,) = faults(RAMP / SUB, tmp_path / "out")
    assert (fault.code, fault.message) == ("F731", "parameter `size` has no value")


def test_delays_add_up_along_broadcasts(tmp_path: Path) -> None:
    (tmp_path / "g.pi").write_text(
        graph(
            parameter("n", "3"), node("delay", "d", more='expr="n" level="permanent" setter="" getter=""'),
            node("actor", "A", "output o 1"), node("broadcast", "C", "input i 1", "output o 1", "output p 2"),
            node("actor", "B", "input i 1"), node("actor", "D", "input i 2"), fifo("A.o", "C.i", delay="d"),
            fifo("C.o", "B.i", delay="d"), fifo("C.p", "D.i"), '<edge kind="dependency" source="n" target="d"/>',
        )
    )  # fmt: skip
    text, said = imported(tmp_path / "g.pi", tmp_path / "out")
    lines = [line.strip() for line in text.read_text().splitlines()]
    assert "A -> delay n + n -> B" in lines
    assert "A -> delay n -> repeat 2 -> D" in lines  # in the order of the fifos
    assert firings(text) == {"A": 1, "B": 1, "D": 1, "A->repeat2->D": 1}
    assert said == ["`A`, `B` and `D`: PREESM knows no code of these actors: the tasks have none"]


def test_parts_without_common_data_are_told(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/sub.pi").write_text(
        graph(
            node("src", "i", "output i 1"),
            node("actor", "X", "input i 1"),
            node("actor", "Y"),
            fifo("i.i", "X.i"),
        )
    )
    (tmp_path / "in/top.pi").write_text(
        graph(
            node("actor", "A", "output o 4"),
            node("actor", "S", "input i 1", inside="sub.pi"),
            fifo("A.o", "S.i"),
        )
    )
    text, said = imported(tmp_path / "in/top.pi", tmp_path / "out")
    assert firings(text) == {"A": 1, "S.X": 4, "S.Y": 1}
    assert "2 parts of this graph share no data" in said


def test_periods_of_actors_are_those_of_iterations(tmp_path: Path) -> None:
    a, b = (
        node("actor", "A", "output o 2", more='period="100"'),
        node("actor", "B", "input i 1", more='period="50"'),
    )
    (tmp_path / "g.pi").write_text(graph(a, b, fifo("A.o", "B.i")))
    text, said = imported(tmp_path / "g.pi", tmp_path / "out")
    assert "    period 100 ns" in text.read_text().splitlines()
    assert "PREESM gives periods without a unit: they are read as ns" in said
    (tmp_path / "h.pi").write_text(graph(a, b.replace('"50"', '"60"'), fifo("A.o", "B.i")))
    (fault,) = faults(tmp_path / "h.pi", tmp_path / "no")
    assert fault.code == "F732"
    assert fault.message == "the periods of `A` and `B` mean different times for an iteration"


# -- what is refused -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "said", "text"),
    [
        (
            "F732",
            "`n` sets a parameter while the program runs",
            graph(node("actor", "A", "cfg_output n")),
        ),
        (
            "F732",
            "`n` hands a parameter to the graph around",
            graph('<node id="n" kind="cfg_out_iface"/>'),
        ),
        (
            "F732",
            "begins anew in every iteration",
            pair('<node id="d" kind="delay" expr="1" level="local"/>'),
        ),
        (
            "F732",
            "is filled or emptied by `S`",
            pair('<node id="d" kind="delay" expr="1" setter="S"/>'),
        ),
        ("F732", "the rate of `A.o` is `0`: it has to be a whole number above 0", pair(made="0")),
        (
            "F732",
            "the rate of `A.o` is `3/2`: it has to be a whole number above 0",
            pair(made="3/2"),
        ),
        ("F732", "is `4-5`, which is -1: it has to be a whole number above 0", pair(made="4-5")),
        ("F732", "the type `pixel` of this fifo is not known", pair(kind="pixel")),
        ("F731", "the rate of `A.o` is `1/0`: division by zero", pair(made="1/0")),
        ("F731", "there is no parameter `n`", pair(parameter("n", "2"), made="n")),
        ("F731", "there is no function `sin`; there is abs, ceil, floor", pair(made="sin(0)")),
        (
            "F731",
            "parameter `n` needs itself: n -> m -> n",
            pair(parameter("n", "m+1"), parameter("m", "n")),
        ),
        (
            "F731",
            "parameter `n` is `2 +`: something is missing at its end",
            pair(parameter("n", "2 +")),
        ),
        ("F731", "there are two nodes `A`", pair(node("actor", "A"))),
        ("F731", "there are two ports `n`", pair(node("actor", "C", "cfg_input n", "cfg_input n"))),
        ("F731", "there are two ports `x`", pair(node("actor", "C", "input x 1", "output x 1"))),
        ("F731", "there is no node `C`", pair(fifo("C.o", "B.i"))),
        ("F731", "`A` has no output `x`", pair(fifo("A.x", "B.i"))),
        ("F731", "two fifos end at `A.o`", pair(fifo("A.o", "B.i"))),
        ("F731", "nothing is connected to `C.i`", pair(node("actor", "C", "input i 1"))),
        ("F731", "there is no sub.pi", None),
        ("F731", "this is no PiSDF graph: no node has a `kind`", graph('<node id="A"/>')),
        ("F731", "`magic` is no kind of node", pair('<node id="m" kind="magic"/>')),
        ("F731", "this `node` has no `id`", pair('<node kind="actor"/>')),
        ("F731", "this `edge` has no `source`", pair('<edge kind="fifo"/>')),
        ("F731", "no numbers of firings balance the fifo", None),
        ("F731", "fork `F` takes 8 bytes and gives 12", None),
        ("F731", "`S` would contain itself", None),
        ("F730", "the root of this XML is `graph`, not `graphml`", "<graph/>"),
        ("F730", "this XML has a document type", '<!DOCTYPE a [<!ENTITY b "x">]><graphml/>'),
        ("F730", "this is no XML", graph()[:-9]),
        ("F731", "there is no `graph` in this file", "<graphml/>"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(
    tmp_path: Path, code: str, said: str, text: str | None
) -> None:
    made = {
        "there is no sub.pi": graph(node("actor", "A", inside="sub.pi")),
        "`S` would contain itself": graph(node("actor", "S", inside="g.pi")),
        "no numbers of firings balance the fifo": graph(
            node("actor", "A", "output o 1", "output p 1"), node("actor", "B", "input i 1", "input j 2"),
            fifo("A.o", "B.i"), fifo("A.p", "B.j"),
        ),
        "fork `F` takes 8 bytes and gives 12": graph(
            node("actor", "A", "output o 2"), node("fork", "F", "input i 2", "output o 1", "output p 2"),
            node("actor", "B", "input i 1"), node("actor", "C", "input i 2"),
            fifo("A.o", "F.i"), fifo("F.o", "B.i"), fifo("F.p", "C.i"),
        ),
    }  # fmt: skip
    file = tmp_path / "in/g.pi"
    file.parent.mkdir()
    file.write_text(text if text is not None else made[said.replace("sub.pi", "sub.pi")])
    found = faults(file, tmp_path / "out")
    first = next((d for d in found if said.replace("`", "") in d.message.replace("`", "")), None)
    assert first is not None, [d.message for d in found]
    assert first.code == code
    assert first.span is not None
    assert first.span.file == str(file)


@pytest.mark.parametrize(
    "kind", ["actor", "broadcast", "fork", "join", "roundbuffer", "snk", "graph"]
)
def test_an_unknown_type_is_told_once_behind_any_node(tmp_path: Path, kind: str) -> None:
    """The type is that of fifos in front of, inside of and behind the node."""
    middle = node(kind, "M", "input i 2", "output o 2", inside="sub.pi" if kind == "graph" else "")
    if kind == "snk":
        middle = node("actor", "M", "input i 2", "output o 2") + node("snk", "B", "input i 2")
    else:
        middle += node("actor", "B", "input i 2")
    (tmp_path / "sub.pi").write_text(
        graph(
            node("src", "i", "output i 2"), node("snk", "o", "input o 2"), fifo("i.i", "o.o", "px")
        )
    )
    (tmp_path / "g.pi").write_text(
        graph(
            node("src", "A", "output o 2"),
            middle.replace('kind="graph"', 'kind="actor"'),
            fifo("A.o", "M.i", "px"),
            fifo("M.o", "B.i", "px"),
        )
    )
    (fault,) = faults(tmp_path / "g.pi", tmp_path / "out")
    assert (fault.code, fault.message) == ("F732", "the type `px` of this fifo is not known")


def test_all_faults_are_told_in_one_run(edit: Edit, tmp_path: Path) -> None:
    folder = edit(
        (TOP, 'expr="size/2" kind="output" name="low"', 'expr="size/3" kind="output" name="low"'),
        (TOP, 'targetport="gain" type="float"', 'targetport="gain" type="colour"'),
        (SUB, 'source="gain" sourceport="gain"', 'source="gains" sourceport="gain"'),
        (SLAM, 'slam:componentRef="x86"', 'slam:componentRef="arm"'),
        (SCENARIO, 'name="int" size="32"', 'name="int" size="33"'),
    )
    found = faults(folder / SCENARIO, tmp_path / "out")
    places = [
        (Path(d.span.file).relative_to(folder).as_posix(), d.span.line, d.code)
        for d in found
        if d.span
    ]
    assert places == [
        (TOP, 44, "F732"),
        (TOP, 67, "F732"),
        (SUB, 30, "F731"),
        (SLAM, 6, "F731"),
        (SLAM, 11, "F731"),
        (SCENARIO, 33, "F731"),
    ]


@pytest.mark.parametrize("file", [TOP, SUB, SLAM, SCENARIO])
def test_a_broken_file_is_explained(edit: Edit, tmp_path: Path, file: str) -> None:
    folder = edit()
    whole, rng = (folder / file).read_bytes(), random.Random(file)
    with in_a_moment():
        for cut in sorted(rng.sample(range(len(whole)), 12)):
            (folder / file).write_bytes(whole[:cut])
            found = faults(folder / SCENARIO, tmp_path / "out")
            assert {d.code for d in found} <= {"F730", "F731"}


def test_attributes_that_are_missing_are_explained(edit: Edit, tmp_path: Path) -> None:
    folder = edit()
    for file in (TOP, SUB, SLAM, SCENARIO):
        whole = (folder / file).read_text()
        words = sorted(
            {
                w.partition("=")[0]
                for w in whole.split()
                if "=" in w and not w.startswith(("xmlns", "version"))
            }
        )
        for word in words:
            (folder / file).write_text(whole.replace(f"{word}=", f"x{word.replace(':', '')}="))
            try:
                done = flowc.import_(folder / SCENARIO, tmp_path / "out/app.flow", force=True)
            except Errors as errors:
                assert {d.code for d in errors.diagnostics} <= {"F730", "F731", "F732"}
            else:
                assert flowc.check(done.target).ok
        (folder / file).write_text(whole)


def test_a_scenario_names_files_of_its_project(edit: Edit, tmp_path: Path) -> None:
    folder = edit((SCENARIO, "/Ramp/Algo/ramp.pi", "/Ramp/../../ramp.pi"))
    shutil.copy(RAMP / TOP, tmp_path / "ramp.pi")
    (fault,) = faults(folder / SCENARIO, tmp_path / "out")
    assert (fault.code, fault.message) == (
        "F730",
        "there is no `/Ramp/../../ramp.pi` in the project around this scenario",
    )
    folder = edit_again(folder, SCENARIO, "/Ramp/../../ramp.pi", "/Ramp/Algo/ramp.pi")
    folder = edit_again(folder, SCENARIO, "/Ramp/Archi/two.slam", "/Ramp/Archi/no.slam")
    _, said = imported(folder / SCENARIO, tmp_path / "out")
    assert (
        said[0]
        == "there is no architecture `/Ramp/Archi/no.slam`: platform, places and times are left out"
    )


@pytest.mark.parametrize("inner", ["res/Ramp", "Ramp", "res/deep/other"])
def test_the_folder_in_which_paths_exist_is_the_project(tmp_path: Path, inner: str) -> None:
    """An Eclipse project around it, with files of the same names, is not meant."""
    (tmp_path / "Code/src").mkdir(parents=True)
    (tmp_path / ".project").write_text("<projectDescription/>")
    (tmp_path / "Code/src/ramp.c").write_text("#error not this one")
    folder = tmp_path / inner
    shutil.copytree(RAMP, folder)
    (folder / ".project").unlink()
    for file in (SCENARIO, TOP):
        text, _ = imported(folder / file, tmp_path / f"out_{Path(file).stem}")
        assert pisdf.agree(firings(text), pisdf.Flat(RAMP / TOP, {}).firings())
        assert "#error" not in "".join(f.read_text() for f in text.parent.rglob("*.c"))


def test_an_architecture_without_operators_leaves_out_places_and_times(
    edit: Edit, tmp_path: Path
) -> None:
    folder = edit((SLAM, 'slam:componentType="Operator"', 'slam:componentType="FPGA"'))
    text, said = imported(folder / SCENARIO, tmp_path / "out")
    assert sorted(f.name for f in text.parent.iterdir()) == ["app.flow", "app_code"]
    assert (
        "this architecture has no CPU or GPU as operator: platform, places and times are left out"
        in said
    )
    assert "components of kind `FPGA` are not imported" in said


def test_a_moldable_parameter_has_the_value_that_was_chosen_last(
    edit: Edit, tmp_path: Path
) -> None:
    moldable = 'id="scale" kind="moldable_param" moldable_expr='
    folder = edit(
        (TOP, '<node expr="1" id="scale" kind="param"', f'<node expr="2" {moldable}"1;2"')
    )
    text, said = imported(folder / SCENARIO, tmp_path / "out")
    assert "const scale = 2" in text.read_text()
    assert "`scale`: PREESM chooses from `1;2`: the value is `2` here" in said
    edit_again(folder, TOP, f'<node expr="2" {moldable}"1;2"', f'<node {moldable}"3"')
    text, said = imported(folder / TOP, tmp_path / "again")
    assert "const scale = 3" in text.read_text()
    assert not any("chooses" in line for line in said)


def test_other_formats_options_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli, ["import", str(RAMP / TOP), "--processor", "x", "-o", str(tmp_path / "a.flow")]
    )
    assert done.exit_code == 2


# -- expressions -----------------------------------------------------------------------------------
NAMES = {"a": Fraction(3), "b": Fraction(-2), "c": Fraction(7, 2), "d": Fraction(0)}
NUMBERS = st.integers(0, 99).map(lambda n: (str(n), Fraction(n))) | st.sampled_from(
    [
        ("0.25", Fraction(1, 4)),
        ("1e2", Fraction(100)),
        (".5", Fraction(1, 2)),
        ("640.0", Fraction(640)),
    ]
)
Pair = tuple[str, Fraction | None]


def combined(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def binary(left: Pair, operator: str, right: Pair) -> Pair:
        text = f"({left[0]}){operator} ({right[0]})"
        a, b = left[1], right[1]
        if a is None or b is None or (operator in "/%" and b == 0):
            return text, None
        made = {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a / b,
            "%": lambda: a - b * int(a / b),
            "<": lambda: Fraction(a < b),
            ">=": lambda: Fraction(a >= b),
            "==": lambda: Fraction(a == b),
        }
        return text, made[operator]()

    def call(name: str, x: Pair, y: Pair) -> Pair:
        a, b = x[1], y[1]
        if name in ("floor", "ceil"):
            text = f"{name}({x[0]})"
            return text, None if a is None else Fraction(
                a.__floor__() if name == "floor" else a.__ceil__()
            )
        if a is None or b is None:
            return f"{name}({x[0]}, {y[0]})", None
        return f"{name}({x[0]}, {y[0]})", (min if name == "min" else max)(a, b)

    def chosen(condition: Pair, yes: Pair, no: Pair) -> Pair:
        text = f"if({condition[0]}, {yes[0]}, {no[0]})"
        return text, None if condition[1] is None else yes[1] if condition[1] > 0 else no[1]

    operators = st.sampled_from(["+", "-", "*", "/", "%", "<", ">=", "=="])
    return (
        st.builds(binary, inner, operators, inner)
        | st.builds(call, st.sampled_from(["floor", "ceil", "min", "max"]), inner, inner)
        | st.builds(chosen, inner, inner, inner)
        | inner.map(lambda x: (f"-({x[0]})", None if x[1] is None else -x[1]))
        | inner.map(lambda x: (f"({x[0]})^2", None if x[1] is None else x[1] ** 2))
    )


LEAVES: st.SearchStrategy[Pair] = NUMBERS | st.sampled_from(list(NAMES.items()))


@FEW
@given(st.recursive(LEAVES, combined, max_leaves=12))
def test_expressions_are_exact(made: Pair) -> None:
    text, value = made
    try:
        found: Fraction | None = expressions.evaluate(expressions.parse(text), NAMES)
    except Wrong as reason:
        assert str(reason) in ("division by zero", "its value is too large")
        found = None
    assert found == value or found is None


@FEW
@given(st.recursive(NUMBERS | st.sampled_from(list(NAMES.items())), lambda x: st.builds(
    lambda a, o, b, c: (f"{a[0]}{o}{'(' if c else ''}{b[0]}{')' if c else ''}", None),
    x, st.sampled_from(["+", "-", "*", "/"]), x, st.booleans()), max_leaves=10))  # fmt: skip
def test_the_language_says_the_same(tmp_path_factory: pytest.TempPathFactory, made: Pair) -> None:
    """Order of operators and brackets: the written text has the value of the expression."""
    expr = expressions.parse(made[0])
    text = expressions.written(expr, {n: n for n in NAMES})
    assert text is not None
    try:
        value = expressions.evaluate(expr, NAMES)
    except Wrong:
        return
    assert expressions.evaluate(expressions.parse(text), NAMES) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # From PREESM's own tests of its evaluator.
        ("floor(-1.9)", -2),
        ("floor(5/-2)", -3),
        ("min(min(1,-3),-2)", -3),
        ("1000*geo_sum(3,1/2,4)", 5625),
        ("geo_sum(3,2,4)", 45),
        ("geo_sum(512000,0.25,7)", 682625),
        ("pow_div_max(2, 72)", 3),
        ("pow_div_max(2, 73)", 0),
        # Order of operators, and what is rounded.
        ("-2^2", -4),
        ("2^3^2", 512),
        ("2^-1*4", 2),
        ("-7 % 3", -1),
        ("1 + 1 < 3 == 1", 1),
        ("ln(8)/ln(2)", 3),
        ("floor(ln(640)/ln(2) - 3)", 6),
        ("sqrt(2)^2", 2),
        ("sqrt(9/4)*2", 3),
        ("8^(1/3)", 2),
        ("1/3*3", 1),
        ("if(0, 1/0, 5)", 5),
    ],
)
def test_known_values(text: str, value: int) -> None:
    assert expressions.evaluate(expressions.parse(text), {}) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2",
        "(1",
        "1)",
        "a",
        "f(1)",
        "min(1)",
        "$",
        "2^2^2^2^9",
        "(" * 99,
        "9" * 99,
        "1+" * 999,
    ],
)
def test_no_value_is_a_reason(text: str) -> None:
    with pytest.raises(Wrong):
        expressions.evaluate(expressions.parse(text), {})


# -- random graphs ---------------------------------------------------------------------------------
def random_project(rng: random.Random, folder: Path) -> Path:
    """A row of actors, some with a graph inside, whose interfaces rarely fit what is inside."""
    counts = [rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(2, 5))]
    nodes, fifos = [], []
    for i, count in enumerate(counts):
        ports = []
        if i:
            ports.append(f"input i {counts[i - 1] * rng.choice([1, 2])}")
        if i + 1 < len(counts):
            ports.append(f"output o {rng.choice([1, 2, 3]) * count}")
        inside = ""
        if ports and rng.random() < 0.5:
            inside = f"s{i}.pi"
            (folder / inside).write_text(random_inside(rng, ports))
        nodes.append(node("actor", f"N{i}", *ports, inside=inside))
        if i:
            fifos.append(fifo(f"N{i - 1}.o", f"N{i}.i"))
    (folder / "top.pi").write_text(graph(*nodes, *fifos))
    return folder / "top.pi"


def random_inside(rng: random.Random, ports: list[str]) -> str:
    """Interfaces for these ports, and one or two actors in a row between them."""
    faces, fifos = [], []
    split = rng.random() < 0.5
    for port in ports:
        way, name, rate = port.split(" ")
        kind, other = ("src", "output") if way == "input" else ("snk", "input")
        faces.append(node(kind, name, f"{other} {name} {rate}"))
    first = [
        f"{p.split(' ')[0]} {p.split(' ')[1]} {rng.choice([1, 2, 3])}"
        for p in ports
        if p.startswith("input")
    ]
    last = [
        f"{p.split(' ')[0]} {p.split(' ')[1]} {rng.choice([1, 2, 3])}"
        for p in ports
        if p.startswith("output")
    ]
    if split:
        actors = [
            node("actor", "X", *first, f"output t {rng.choice([1, 2])}"),
            node("actor", "Y", f"input t {rng.choice([1, 2, 3])}", *last),
        ]
        fifos.append(fifo("X.t", "Y.t"))
    else:
        actors = [node("actor", "X", *first, *last)]
    fifos += [fifo("i.i", "X.i")] if first else []
    fifos += [fifo(f"{'Y' if split else 'X'}.o", "o.o")] if last else []
    return graph(*faces, *actors, *fifos)


@pytest.mark.parametrize("seed", range(25))
def test_firings_of_random_graphs(tmp_path: Path, seed: int) -> None:
    (tmp_path / "in").mkdir()
    top = random_project(random.Random(seed), tmp_path / "in")
    text, _ = imported(top, tmp_path / "out")
    assert pisdf.agree(firings(text), pisdf.Flat(top, {}).firings())
