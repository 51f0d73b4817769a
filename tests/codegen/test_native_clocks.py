"""Clock rates of states in programs in C++: what is written to a folder of clocks, beside what the
runtime in Python writes there, and what a program does and says of them.

Needs a C++ compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flowc.codegen.native.files import PROGRAM, RUNTIME
from flowc.driver.plan.program import deployment, write_program
from flowc.driver.text.check import prepare
from flowc.model.deployment import DeployedClock
from flowc.runtime.clocks import Clocks, RatesRefused, Wanted

from limits import HANGS, next_line
from native_compiler import LIMIT, in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
MHZ = 1_000_000
SLOW: Wanted = {"core": ("cpu", 1200 * MHZ, 2400 * MHZ), "volta": ("gpu", 600 * MHZ, 1300 * MHZ)}
FAST: Wanted = {"core": ("cpu", 2400 * MHZ, 2400 * MHZ), "volta": ("gpu", 600 * MHZ, 1300 * MHZ)}
#: States, the folders of clocks that are there, and what is asked for, one after the other.
CASES: dict[str, tuple[list[Wanted], list[str], list[str]]] = {
    "all": (
        [SLOW, FAST],
        ["policy0", "gv11b"],
        ["lower 0", "reach 1", "reach 0", "lower 0", "lower 1", "restore"],
    ),
    "several pools": (
        [{"big": ("cpu", 2400 * MHZ, 2400 * MHZ), "small": ("cpu", 1200 * MHZ, 1800 * MHZ)}],
        ["policy0", "policy1"],
        ["lower 0", "restore"],
    ),
    "no clock": ([{"nvdla": ("dla", MHZ, MHZ)}], ["policy0", "gv11b"], ["lower 0"]),
    "no rate": ([{"core": ("cpu", 1300 * MHZ, 2400 * MHZ)}], ["policy0"], ["lower 0"]),
    "half of it": ([SLOW], ["policy0 half", "gv11b"], ["lower 0"]),
    "gone": ([SLOW, FAST], ["policy0", "gv11b"], ["lower 0", "remove", "lower 1", "restore"]),
}


def folders(root: Path, names: list[str]) -> None:
    """Clocks of two kinds of CPUs, and of a GPU."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name in names:
        if name == "gv11b":
            folder = root / "class/devfreq/17000000.gv11b"
            texts = {"min_freq": 300 * MHZ, "max_freq": 1300 * MHZ}
        else:
            highest = 1800 if name == "policy1" else 2400
            folder = root / "devices/system/cpu/cpufreq" / name.split()[0]
            texts = {"scaling_min_freq": 1_000_000, "scaling_max_freq": highest * 1000}
            texts["cpuinfo_max_freq"] = highest * 1000
        folder.mkdir(parents=True)
        for file, number in texts.items():
            (folder / file).write_text(f"{number}\n")
        if name.startswith("policy"):
            rates = f"1000000 1200000 {highest}000"
            (folder / "scaling_available_frequencies").write_text(rates)
        if name.endswith("half"):
            (folder / "scaling_min_freq").unlink()


def limits(root: Path) -> str:
    """What all clocks may take."""
    files = [*root.rglob("*min_freq"), *root.rglob("scaling_max_freq"), *root.rglob("max_freq")]
    return " ".join(file.read_text().strip() for file in sorted(files))


def remove(root: Path) -> None:
    """A clock that was there is gone."""
    (root / "devices/system/cpu/cpufreq/policy0/scaling_max_freq").unlink()


def in_python(root: Path, states: list[Wanted], steps: list[str]) -> list[str]:
    """What the clocks may take after each step, or why a step is refused."""
    found = []
    try:
        clocks = Clocks(states, str(root))
        for step in steps:
            word, _, state = step.partition(" ")
            if word == "remove":
                remove(root)
                continue
            try:
                getattr(clocks, word)(*[states[int(state)]] if state else [])
            except RatesRefused as refused:
                found.append(str(refused))
            found.append(limits(root))
    except (RatesRefused, OSError) as refused:
        found.append(str(refused))
    return found


DRIVER = """\
#include <iostream>

#include "clocks.hpp"

using namespace flow;

int main(int, char **words)
{
    State *const *const states = find_states(words[1]);
    std::vector<State *> all;
    for (State *const *state = states; *state; state++)
        all.push_back(*state);
    try {
        SetRates rates(all);
        std::cout << "ready" << std::endl;
        for (std::string word; std::cin >> word;) {
            size_t number = 0;
            if (word != "restore")
                std::cin >> number;
            try {
                if (word == "restore")
                    rates.restore();
                else if (word == "reach")
                    rates.reach(all[number]->clocks);
                else
                    rates.lower(all[number]->clocks);
                std::cout << "done" << std::endl;
            } catch (const RatesRefused &why) {
                std::cout << why.what() << std::endl;
            }
        }
    } catch (const RatesRefused &why) {
        std::cout << why.what() << std::endl;
    }
}
"""


def of_case(states: list[Wanted]) -> str:
    """States in C++."""
    made = []
    for wanted in states:
        rates = [
            f'{{"{pool}", "{kind}", {hz}, {most}}}' for pool, (kind, hz, most) in wanted.items()
        ]
        made.append(f'new flow::State{{"", {{}}, {{}}, {{}}, -1, {{{", ".join(rates)}}}, "", 0}}')
    return ", ".join(made)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that sets the clocks of the folder `sys` beside it."""
    folder = tmp_path_factory.mktemp("clocks")
    cases = "".join(
        f'    if (name == "{name}") {{\n        static flow::State *const found[] = '
        f"{{{of_case(states)}, nullptr}};\n        return found;\n    }}\n"
        for name, (states, _, _) in CASES.items()
    )
    finds = (
        f"flow::State *const *find_states(const std::string &name)\n{{\n{cases}    abort();\n}}\n"
    )
    text = DRIVER.replace("int main(", finds + "\nint main(")
    (folder / "driver.cpp").write_text(text)
    command = [os.environ.get("CXX", "g++"), "-std=gnu++17", "-Wall", f"-I{RUNTIME}", "driver.cpp"]
    command += [f'-DFLOWC_SYSFS="{folder}/sys"', "-o", "driver", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=LIMIT)
    return folder / "driver"


@pytest.mark.parametrize("case", CASES)
def test_clocks_are_set_as_in_python(driver: Path, case: str) -> None:
    states, there, steps = CASES[case]
    root = driver.parent / "sys"
    folders(root, there)
    expected = in_python(root, states, steps)
    folders(root, there)
    child = subprocess.Popen(
        [driver, case], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert child.stdin is not None
    found = [line] if (line := next_line(child).strip()) != "ready" else []
    for step in steps if not found else ():
        if step == "remove":
            remove(root)
            continue
        child.stdin.write(f"{step}\n")
        if (line := next_line(child).strip()) != "done":
            found.append(line)
        found.append(limits(root))
    child.communicate(timeout=HANGS)
    assert found == expected != []


# -- in a program ----------------------------------------------------------------------------------
TEXT = """\
task Tick { out n: int64   c "a.c:tick" }
task Wait { in n: int64   c "a.c:wait" }
app A { tick: Tick   wait: Wait   tick -> wait }
scenario S {
    event go
    initial state one { run A }
    state two { run A period 1 ms }
    one -> two on go   two -> one on go
}
platform duo { cpu core[2] }
mapping on duo { A.tick -> core[0]   A.wait -> core[1] }
"""
CODE = """\
#include <unistd.h>
int tick(void *state, int64_t *n, const void *p) { return 0; }
int wait(void *state, const int64_t *n, const void *p) { return usleep(5000); }
"""
#: Rates of both states; of a kind of processor that has none anywhere.
RATES = {
    "chosen": [DeployedClock("core", "cpu", n * 10**9, 10**10) for n in (10, 1)],
    "elsewhere": [DeployedClock("core", "fpga", n * 10**9, 10**10) for n in (10, 1)],
    "none": [],
}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[dict[str, Path]]:
    """Builds whose states have these rates."""
    folder = tmp_path_factory.mktemp("rates")
    (folder / "a.flow").write_text(TEXT)
    (folder / "a.c").write_text(CODE)
    valid = prepare(folder / "a.flow", platform="duo", native=True).require()
    deployed = deployment(valid, None, measure=False)[1]
    scenario = deployed.deployment.scenario
    assert scenario is not None
    made = {}
    with in_a_hurry(shared):
        for name, rates in RATES.items():
            states = [replace(state, clocks=tuple(rates[n : n + 1])) for n, state in enumerate(scenario.states)]  # fmt: skip
            own = replace(deployed.deployment, scenario=replace(scenario, states=tuple(states)))
            made[name] = folder / name
            write_program(replace(deployed, deployment=own), made[name], native=True)
        yield made


def of_both(build: Path, *words: str) -> list[tuple[int, str, dict[str, Any]]]:
    """Exit status, messages and report of the program in C++, and of the one in Python."""
    found = []
    for program in ([build / PROGRAM], [sys.executable, build / "main.py"]):
        report = build.parent / "report.json"
        report.write_text("{}")
        done = subprocess.run(
            [*program, *words, "--quiet", "--report", report],
            capture_output=True, text=True, timeout=HANGS, check=False,
        )  # fmt: skip
        found.append((done.returncode, done.stderr, json.loads(report.read_text())))
    return found


@pytest.mark.parametrize("which", ["elsewhere", "none"])
def test_rates_that_cannot_be_had_are_left_alone(builds: dict[str, Path], which: str) -> None:
    for how in ("set", "emulate") if which == "none" else ("set",):
        made, expected = of_both(builds[which], "--clocks", how, "--frames", "2")
        assert made[:2] == expected[:2]
        assert made[0] == 0 and made[1].startswith("flowc: clock rates are left alone: no ")
        assert made[2]["clocks"] == expected[2]["clocks"]


def test_what_is_no_way_to_have_rates_is_refused(builds: dict[str, Path]) -> None:
    why = (
        "error: argument --clocks: invalid choice: 'fast' (choose from 'set', 'model', 'emulate')\n"
    )
    for status, said, _ in of_both(builds["chosen"], "--clocks", "fast"):
        assert status == 2 and said.endswith(why)


def test_work_takes_as_long_as_at_the_rates_of_a_state(builds: dict[str, Path]) -> None:
    """Ten times as long in the second state."""
    stays = [{"state": state, "frames": {"A": 2}} for state in ("one", "two", "one")]
    file = builds["chosen"].parent / "stays.json"
    file.write_text(json.dumps({"stays": stays}))
    for status, said, report in of_both(
        builds["chosen"], "--clocks", "emulate", "--replay", str(file)
    ):
        assert status == 0, said
        assert report["clocks"] == "emulate" and report["stays"] == stays
        assert report["tasks"]["A.wait"]["max_us"] >= 50_000
        assert report["states"]["two"]["seconds"] >= 0.1
