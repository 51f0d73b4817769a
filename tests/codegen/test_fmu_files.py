"""Which graphs cannot be Functional Mock-up Units, and the files of those that are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flowc.cli import app
from flowc.codegen.fmu.limits import settable
from flowc.driver.build.fmu import BuiltFmu, build_fmu
from flowc.driver.text.check import check
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from builds import ROOT, Write
from fmus import (
    COMPILER,
    SMOOTH,
    SMOOTH_C,
    Instance,
    compiled_quickly,
    low,
    made,
    opened,
    same,
    simulated,
    tokens_for,
)
from limits import HANGS

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with compiled_quickly():
        yield


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> BuiltFmu:
    """A unit of FMI 2.0 in C."""
    folder = tmp_path_factory.mktemp("low")
    return build_fmu(low(folder), "Low", folder)


def refused(write: Write, text: str, graph: str = "G", **files: str) -> list[tuple[str, str, str]]:
    """What stands in the way, and nothing is written."""
    flow = write(text, **files)
    with pytest.raises(Errors) as errors:
        build_fmu(flow, graph, flow.parent / "out")
    assert not (flow.parent / "out").exists()
    return [(d.code, d.message, d.help) for d in errors.value.diagnostics if d.severity == "error"]


def flowc_says(*words: object) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


# -- what cannot be a unit -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("graph", "said", "help_text"),
    [
        ("Los", "there is no graph or app `Los`", "did you mean `Low`?"),
        ("Other", "there is no graph or app `Other`", "there is `Low`"),
        ("Smooth", "there is no graph or app `Smooth`: it is a task", "there is `Low`"),
    ],
)
def test_names_of_nothing(write: Write, graph: str, said: str, help_text: str) -> None:
    found = refused(write, SMOOTH, graph, smooth_c=SMOOTH_C)
    assert found == [("F618", said, help_text)]


def test_everything_that_stands_in_the_way_is_told_at_once(write: Write) -> None:
    text = """
        task Cam { live   out x: float32   python "t.py:cam" }   task Mic { out x: float32   python "t.py:cam" }
        task Half { in x: float16   out y: complex64   python "t.py:f" }   task Show { in x: float32   python "t.py:f" }
        task None_ { in x: float32   out y: float32 }   task Cuda { in x: float32   out y: float32
            on gpu cuda "k.cu:k" grid[1] block[1] }
        task A { in x: float32   out y: float32   c "a.c:f" }   task B { in x: float32   out y: float32   c "b.c:f" }
        task Text(t: string) { in x: float32   python "t.py:f" }
        app From { cam: Cam   s: Show   cam -> s }
        app G {
            in h: float16   out c: complex64   in x: float32   out y: float32   out z: float32
            cam: Cam   mic: Mic every 10 ms   half: Half   s: Show   s2: Show   s3: Show   n: None_   k: Cuda   a: A   b: B
            t: Text(t = "\\u0001")   cam -> s   mic -> s2   From.cam -> latest -> s3
            h -> half -> c   x -> n -> k -> a -> b -> y   a -> z   x -> t
        }"""
    files = {"t_py": "def cam():\n    return 1.0\ndef f(x, t=''):\n    return x\n", "a_c": "int f(void) { return 0; }", "b_c": "int f(void) { return 0; }", "k_cu": 'extern "C" __global__ void k(const float *x, float *y) { }'}  # fmt: skip
    found = refused(write, text, **files)
    assert {(code, said) for code, said, _ in found} == {
        ("F618", "`h` is float16, and FMI has no such type"),
        ("F618", "`c` is complex64, and FMI has no such type"),
        ("F618", "`cam` is live: it would wait for data from outside of the simulation"),
        ("F618", "`mic` fires at its own pace, but a unit follows the time of its simulation"),
        ("F618", "`from_From_cam` joins two apps"),
        ("F618", "two C files have a function `f`, and a unit is one library"),
        ("F618", "parameter `t` of `Text` has a character that XML cannot hold"),
        ("F601", "`None_` has no code"),
        ("F503", "`Cuda` has code for a GPU only, and `host` has none"),
    }
    assert all(help_text for *_, help_text in found)


def test_a_graph_with_parameters_takes_its_defaults(write: Write) -> None:
    text = SMOOTH.replace("graph Low {", "graph Low(w: float) {").replace(
        "weight = 0.25", "weight = w"
    )
    ((code, said, _),) = refused(write, text, "Low", smooth_c=SMOOTH_C)
    assert (code, said) == ("F108", "`Low` needs a value for `w`")
    checked = check(write(text.replace("w: float)", "w: float = 1 / 8)")), opened="Low")
    (graph,) = checked.require().system.apps
    assert [settable(t) for t in graph.tasks if t.border is None] == [
        [("weight", 0.125)],
        [("weight", 0.5)],
    ]


def test_parameters_that_the_graph_is_made_of_and_files_are_no_variables(write: Write) -> None:
    text = """
        task T(n: int, hop: int, table: file, on: bool) { in x: float32[n] rate hop   out y: float32   python "t.py:f" }
        graph G { in x: float32[2]   out y: float32   t: T(n = 2, hop = 3, table = "t.py", on = true)   x -> t -> y }"""
    checked = check(write(text, t_py="def f(x, table, on):\n    return 1.0\n"), opened="G")
    assert [settable(t) for t in checked.require().system.apps[0].tasks] == [[], [], [("on", True)]]


def test_code_for_a_gpu_runs_as_its_reference_or_not_at_all(write: Write) -> None:
    text = """
        task Cuda { in x: float32   out y: float32   on gpu cuda "k.cu:k" grid[1] block[1]   reference python "t.py:f" }
        task Half { in y: float32   out z: float16   python "t.py:f" }
        graph G { in x: float32   out y: float16   k: Cuda   h: Half   x -> k -> h -> y }"""
    files = {
        "t_py": "def f(x):\n    return x\n",
        "k_cu": 'extern "C" __global__ void k(const float *x, float *y) { }',
    }
    with pytest.raises(Errors) as errors:
        made(write, text, **files)
    assert [(d.code, d.severity) for d in errors.value.diagnostics] == [
        ("F618", "error"),
        ("F610", "warning"),
    ]


def test_c_code_that_makes_no_library(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    ((code, said, _),) = refused(write, SMOOTH, "Low", smooth_c=SMOOTH_C.replace("*x -", "x -"))
    assert code == "F306" and "smooth.c:5" in said
    two = SMOOTH.replace(
        "graph Low", 'task B { in x: float32   out y: float32   c "b.c:b" }   graph Low'
    )
    two = two.replace("b: Smooth", "b: B")
    b = "int helper(void) { return 0; }\nint b(void *s, const float *x, float *y, const void *p) { *y = *x; return helper(); }"
    ((code, said, help_text),) = refused(
        write, two, "Low", smooth_c=SMOOTH_C + "int helper(void) { return 1; }", b_c=b
    )
    assert code == "F619" and "helper" in said and "`static`" in help_text
    monkeypatch.setenv("CC", "no-such-compiler")
    ((code, *_),) = refused(write, SMOOTH, "Low", smooth_c=SMOOTH_C)
    assert code == "F307"


@pytest.mark.parametrize("python", [False, True])
def test_what_needs_cffi_may_be_a_native_unit(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['cffi'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = """
        task B { in x: float32   out y: float32   c "b.c:b" }
        graph G { in x: float32   out y: float32   a: B   b: B   x -> last 10 -> a -> repeat 10 -> b -> y }"""
    if python:
        text = text.replace("a: B", "a: A")
        text += '    task A { in x: float32   out y: float32   python "a.py:a" }'
    files = {
        "b_c": "int b(void *s, const float *x, float *y, const void *p) { *y = *x; return 0; }",
        "a_py": "def a(x):\n    return x\n",
    }
    ((code, said, help_text),) = refused(write, text, **files)
    assert code == "F619" and " has no cffi: run `" in said
    instead = ", or build it with `--target native-fmu`: no task is in Python"
    assert help_text == "install it" + ("" if python else instead)


# -- the file --------------------------------------------------------------------------------------
def test_the_same_text_makes_the_same_bytes(smooth: BuiltFmu, tmp_path: Path) -> None:
    again = build_fmu(low(tmp_path), "Low", tmp_path / "Other.fmu")
    assert again.fresh and again.file.read_bytes() == smooth.file.read_bytes()
    changed = build_fmu(
        low(tmp_path, SMOOTH.replace("0.25", "0.125")), "Low", tmp_path / "Other.fmu"
    )
    assert changed.fresh and changed.token != again.token
    with zipfile.ZipFile(again.file) as archive:
        names = archive.namelist()
        assert names == sorted(names) and {i.date_time for i in archive.infolist()} == {
            (1980, 1, 1, 0, 0, 0)
        }
        assert not any(n.startswith("resources") for n in names)  # C alone needs nothing of Python


@pytest.mark.parametrize("version", [2, 3])
def test_its_sources_can_be_compiled_again(smooth: BuiltFmu, write: Write, version: int) -> None:
    text = SMOOTH.replace(
        "graph Low { in x: float32   out y: float32",
        "graph Low { in x: float32   out y: float32[1]",
    )
    text = (
        text.replace("b: Smooth ", "b: Wide ")
        + 'task Wide { in x: float32   out y: float32[1]   c "smooth.c:wide" }'
    )
    code = (
        SMOOTH_C
        + "int wide(void *s, const float *x, float *y, const void *p) { *y = *x; return 0; }"
    )
    unit = smooth if version == 2 else made(write, text, "Low", smooth_c=code)
    inputs = tokens_for(unit.file, 3)
    first = simulated(unit.file, inputs)
    with opened(unit.file) as there:
        assert there.fmi == f"{version}.0"
        listed = there.description.buildConfigurations[0].sourceFileSets[0].sourceFiles
        library = next(there.folder.glob("binaries/*/Low.so"))
        library.unlink()
        command = [COMPILER, "-shared", "-fPIC", "-I.", *listed, "-o", str(library), "-lm"]
        subprocess.run(
            command, cwd=there.folder / "sources", check=True, capture_output=True, timeout=HANGS
        )
        one = Instance(there)
        one.start()
        same([one.step(**given) for given in inputs], first)
        one.end()


def test_where_it_is_written(
    smooth: BuiltFmu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = flowc_says("build", low(tmp_path), "--target", "fmu", "--graph", "Low")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "build/Low.fmu",
        "  FMI 2.0; a step is an iteration",
        "  input x: Real, widened from float32",
        "  output y: Real, widened from float32",
        "  parameter Low.a.weight: Real",
        "  parameter Low.b.weight: Real",
    ]
    assert (tmp_path / "build/Low.fmu").read_bytes() == smooth.file.read_bytes()
    done = flowc_says("build", "low.flow", "--target", "fmu", "--graph", "Low", "--json")
    document = json.loads(done.stdout)
    assert document["fmi"] == "2.0" and not document["fresh"] and document["step_size"] is None
    assert document["variables"][0] == {
        "name": "x",
        "causality": "input",
        "type": "Real",
        "dtype": "float32",
        "shape": [],
    }
    (tmp_path / "mine.fmu").write_text("mine")
    done = flowc_says("build", "low.flow", "--target", "fmu", "--graph", "Low", "-o", "mine.fmu")
    assert (
        done.exit_code == 1
        and "F604" in done.stderr
        and (tmp_path / "mine.fmu").read_text() == "mine"
    )
    done = flowc_says(
        "build", "low.flow", "--target", "fmu", "--graph", "Low", "-o", "mine.fmu", "--force"
    )
    assert done.exit_code == 0 and (tmp_path / "mine.fmu").read_bytes() == smooth.file.read_bytes()


@pytest.mark.parametrize("words", [["--target", "fmu"], ["--graph", "Low"], ["--target", "fmu", "--graph", "Low", "--platform", "orin"]])  # fmt: skip
def test_wrong_usage(words: list[str], tmp_path: Path) -> None:
    assert flowc_says("build", low(tmp_path), *words).exit_code == 2


@pytest.mark.parametrize("place", ["/proc/Low.fmu", "file/Low.fmu"])
def test_a_place_that_may_not_be_written_to(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Errors) as errors:
        build_fmu(low(tmp_path), "Low", tmp_path / place)
    assert [d.code for d in errors.value.diagnostics] == ["F605"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "low.flow", "smooth.c"]


def archive(entries: list[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        for name, content in entries:
            file.writestr(name, content)
    return stream.getvalue()


DESCRIPTION = b'<fmiModelDescription generationTool="flowc 0.1.0">'
OTHER = b'<fmiModelDescription generationTool="other">'
HUGE = bytes(1 << 26)
#: Archives that are no units of flowc, each with as much as there is to read of it.
STRANGE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "cut": lambda: archive([("modelDescription.xml", DESCRIPTION)])[:-10],
    "without": lambda: archive([("../../modelDescription.xml", DESCRIPTION)]),
    "bomb": lambda: bomb(zipfile.ZIP_DEFLATED),
    "bomb in bzip2": lambda: bomb(zipfile.ZIP_BZIP2),
    "bomb in lzma": lambda: bomb(zipfile.ZIP_LZMA),
    "others": lambda: archive([("modelDescription.xml", OTHER)]),
}


def bomb(compression: int) -> bytes:
    return archive([("modelDescription.xml", HUGE + DESCRIPTION)], compression)


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_an_archive_that_is_no_unit_stays(tmp_path: Path, strange: Callable[[], bytes]) -> None:
    content = strange()
    (tmp_path / "mine.fmu").write_bytes(content)
    with pytest.raises(Errors) as errors:
        build_fmu(low(tmp_path), "Low", tmp_path / "mine.fmu")
    assert [d.code for d in errors.value.diagnostics] == ["F604"]
    assert (tmp_path / "mine.fmu").read_bytes() == content


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_damaged_archives_are_no_units(tmp_path: Path, compression: int) -> None:
    """Any byte of an archive is another one."""
    flow = low(tmp_path)
    whole = archive([("modelDescription.xml", bytes(range(64)))], compression)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        (tmp_path / "mine.fmu").write_bytes(damaged)
        with pytest.raises(Errors) as errors:
            build_fmu(flow, "Low", tmp_path / "mine.fmu")
        assert [d.code for d in errors.value.diagnostics] == ["F604"]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.fmu")
    (tmp_path / "endless.fmu").symlink_to("/dev/zero")
    for name in ("mine.fmu", "endless.fmu"):
        with pytest.raises(Errors) as errors:
            build_fmu(low(tmp_path), "Low", tmp_path / name)
        assert [d.code for d in errors.value.diagnostics] == ["F604"]


def test_the_page_means_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "fmu.md").read_text()
    blocks = dict(re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL))
    (tmp_path / "filter.flow").write_text(blocks["flow"])
    (tmp_path / "filter.c").write_text(blocks["c"])
    done = flowc_says("build", "filter.flow", "--target", "fmu", "--graph", "Filter")
    assert done.exit_code == 0 and f"```\n{done.stdout}```" in page
    said: dict[str, Any] = {}
    exec(blocks["python"], said)
    assert said["result"]["y"][2] == pytest.approx(0.75 * 0.25 * np.sin(1))
    with zipfile.ZipFile("build/Filter.fmu") as archive:
        archive.extractall(tmp_path / "unit")
    subprocess.run(blocks["sh"], shell=True, cwd=tmp_path / "unit", check=True, timeout=HANGS)
