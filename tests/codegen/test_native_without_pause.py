"""Programs in C++ whose states differ in variants of networks: changes between two frames, and at once.

One program is built and run many times. Needs a C++ compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.codegen.native.files import PROGRAM
from onnx import TensorProto

from builds import HANGS
from models import N, save
from native import disagreement_of, disagreement_with_variants
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
#: Random texts, more of them where that is asked for.
SEEDS = range(1 + int(os.environ.get("FLOWC_FUZZ", "0")) // 100)
#: Products of one of the networks, of which each takes some 0.1 s where matrices are large.
PRODUCTS = 2000
#: How states change where there is a transition.
PROTOCOLS = {
    ("stepping", "good"): "at once",
    ("good", "saving"): "next",
    ("saving", "low"): "next",
    ("low", "stepping"): "at once",
}
TEXT = """\
type Row = float32[1, 4]
task Camera(endless: int = -1) { out x: Row   state n: int64   c "a.c:camera" }
task Sum { in y: Row   in before: Row   out after: Row   c "a.c:add" }
task Show { in y: Row   c "a.c:show" }
network See {
    in x: Row from "x"   out y: Row
    variant whole from "net.onnx" { out y from "late" }
    variant early from "net.onnx" { out y from "soon" }
    variant tiny from "tiny.onnx" { out y from "y" }
    variant products from "products.onnx" { out y from "y" }
}
app A {
    camera: Camera   see: See   sum: Sum   show: Show
    camera -> see -> sum.y   sum -> delay 1 -> sum.before   sum -> show
}
app B { camera: Camera   see: See   sum: Sum   sum -> delay 1 -> sum.before   camera -> see -> sum.y }
scenario S {
    event turn, elsewhere
    initial state stepping { run A, B   A.see = products   B.see = tiny }
    state good { run A, B   A.see = whole   B.see = early }
    state saving { run A, B   A.see = early   B.see = early }
    state low { run A, B   A.see = tiny   B.see = whole }
    state alone { run A   A.see = early }
    stepping -> good on turn at once
    good -> saving on turn   saving -> low on turn   low -> stepping on turn at once
    saving -> alone on elsewhere   alone -> good on elsewhere
}
platform four { cpu core[4] }
mapping on four {
    A.camera -> core[0]   A.sum -> core[0]   A.show -> core[0]   B.camera -> core[3]   B.sum -> core[3]
    A.see.whole -> core[1]   A.see.early -> core[1]   A.see.tiny -> core[1]   A.see.products -> core[1]
    B.see.whole -> core[2], core[3]   B.see.early -> core[2], core[3]
    B.see.tiny -> core[2], core[3]   B.see.products -> core[2], core[3]
}
"""
CODE = """\
#include <stdio.h>
#include <stdlib.h>

int camera(void *state, float *x, const camera_params *p)
{
    camera_state *s = state;
    for (int i = 0; i < 4; i++)
        x[i] = (float)((s->n + i) % 7);
    x[3] = s->n == p->endless ? 2000 : 2;  /* rows of matrices in one of the networks */
    s->n++;
    return 0;
}

int add(void *state, const float *y, const float *before, float *after, const void *p)
{
    for (int i = 0; i < 4; i++)
        after[i] = (before[i] + y[i]) / 2;
    return 0;
}

void *show_init(const void *p)
{
    puts("it begins");
    return malloc(1);
}

int show(void *state, const float *y, const void *p)
{
    printf("y %a %a\\n", y[0], y[1]);
    return 0;
}

void show_exit(void *state)
{
    puts("it ends");
    free(state);
}
"""


def networks(folder: Path) -> None:
    """One with an early and a late exit, a small one, and one that multiplies matrices as large as
    its input says."""
    by = {name: np.float32([n]) for name, n in (("a", 3), ("b", 0.5), ("c", -2), ("d", 0.25))}
    nodes = [N("Mul", ["x", "a"], ["h"]), N("Add", ["h", "b"], ["soon"]), N("Mul", ["soon", "c"], ["late"])]  # fmt: skip
    save(folder / "net.onnx", nodes, {"x": [1, 4]}, by, "soon late")
    save(folder / "tiny.onnx", [N("Mul", ["x", "d"], ["y"])], {"x": [1, 4]}, by, "y")
    given = {"last": np.int64([3]), "one": np.int64([1])}
    nodes = [
        N("Gather", ["x", "last"], ["picked"], axis=1),
        N("Cast", ["picked"], ["size"], to=TensorProto.INT64),
        N("Reshape", ["size", "one"], ["n"]),
        N("Concat", ["n", "n"], ["shape"], axis=0),
        N("ConstantOfShape", ["shape"], ["m0"]),
        *(N("MatMul", ["m0", f"m{k}"], [f"m{k + 1}"]) for k in range(PRODUCTS)),
        N("ReduceMax", [f"m{PRODUCTS}"], ["zero"], keepdims=0),
        N("Add", ["x", "zero"], ["y"]),
    ]
    save(folder / "products.onnx", nodes, {"x": [1, 4]}, given, "y")


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build that agrees with the sequential reference."""
    folder = tmp_path_factory.mktemp("pause")
    networks(folder)
    (folder / "a.flow").write_text(TEXT)
    (folder / "a.c").write_text(CODE)
    flowc.build(folder / "a.flow", folder / "b", platform="four", native=True, measure=False)
    assert disagreement_of(folder / "b", folder / "record") == ""
    return folder / "b"


def of_both(built: Path, *words: object) -> list[tuple[dict[str, Any], str]]:
    """What the program in C++ and the one in Python report and print."""
    found = []
    for program in ([built / PROGRAM], [sys.executable, built / "main.py"]):
        file = built.parent / "report.json"
        done = subprocess.run(
            [*program, *map(str, words), "--quiet", "--full-speed", "--report", file],
            capture_output=True, text=True, timeout=HANGS, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        found.append((json.loads(file.read_text()), done.stdout))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_random_texts_with_variants_equal_the_reference(seed: int, tmp_path: Path) -> None:
    assert disagreement_with_variants(seed, tmp_path) == ""


def test_stays_without_a_pause_are_repeated_as_in_python(built: Path) -> None:
    frames = {"stepping": 3, "good": 4, "saving": 1, "low": 5, "alone": 2}
    way = ["stepping", "good", "saving", "alone", "good", "saving", "low", "stepping"]
    stays = []
    for state in way:
        own = {"A": frames[state]} | ({"B": frames[state] + 2} if state != "alone" else {})
        stays.append({"state": state, "frames": own})
    (built.parent / "stays.json").write_text(json.dumps({"stays": stays}))
    made, expected = of_both(built, "--replay", built.parent / "stays.json")
    assert made[1] == expected[1]
    assert made[1].count("it begins") == made[1].count("it ends") == 1
    assert made[0]["stays"] == expected[0]["stays"] == stays
    assert list(made[0]) == list(expected[0])
    for key in ("from", "to", "event", "protocol", "bound_ms", "control_ms"):
        ends = [[change[key] for change in found["switches"]] for found, _ in (made, expected)]
        assert ends[0] == ends[1], key
    protocols = [change["protocol"] for change in made[0]["switches"]]
    assert protocols == ["at once", "next", "idle", "idle", "next", "next", "at once"]
    for table, keys in (("tasks", ("processor", "firings", "failed", "skipped")),
                        ("channels", ("capacity",)), ("states", ("entered",))):  # fmt: skip
        assert list(made[0][table]) == list(expected[0][table])
        for name, one in expected[0][table].items():
            assert {k: made[0][table][name][k] for k in keys} == {k: one[k] for k in keys}, name
    assert made[0]["tasks"]["A.see.products"]["firings"] == 6


def test_at_once_an_inference_is_broken_off_and_its_frame_done_again(built: Path) -> None:
    """Frame 4 of the first state would take minutes."""
    (built.parent / "script").write_text("0.3 s turn\n")
    words = ["--events", built.parent / "script", "--set", "A.camera.endless=4", "--frames", 9]
    made, expected = of_both(built, *words)
    assert made[1] == expected[1] != ""
    for document, _ in (made, expected):
        stays = [(stay["state"], stay["frames"]["A"]) for stay in document["stays"]]
        assert stays == [("stepping", 4), ("good", 5)]
        (change,) = document["switches"]
        assert (change["protocol"], change["event"]) == ("at once", "turn")
        assert change["first_ms"] is not None and change["control_ms"] is None
        tasks = document["tasks"]
        firings = [tasks[f"A.see.{name}"]["firings"] for name in ("products", "whole", "tiny")]
        assert firings == [4, 5, 0]


def test_events_change_it_without_a_pause_and_a_report_repeats_it(built: Path) -> None:
    script, report = built.parent / "many", built.parent / "report.json"
    script.write_text("".join(f"{n} A turn\n" for n in range(0, 300, 2)))
    words = [built / PROGRAM, "--quiet", "--full-speed", "--report", report]
    made = []
    for more in (["--events", script, "--frames", "400"], ["--replay", report]):
        done = subprocess.run([*words, *more], capture_output=True, timeout=HANGS, check=True)
        made.append((done.stdout, json.loads(report.read_text())))
    assert made[0][0] == made[1][0]
    assert made[0][1]["stays"] == made[1][1]["stays"]
    first = made[0][1]
    # events that come together lead to where no transition does: then frames end first
    for change in first["switches"]:
        ends = change["from"], change["to"]
        assert change["protocol"] == PROTOCOLS.get(ends, "idle"), ends
    assert first["switches"] and first["apps"]["A"]["frames"] == 400
    firings = {n: t["firings"] for n, t in first["tasks"].items() if n.startswith("A.see")}
    assert len(firings) == 4 and sum(firings.values()) == 400
