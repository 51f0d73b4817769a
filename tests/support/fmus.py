"""Functional Mock-up Units, driven step by step by FMPy, and what the sequential reference makes of
the same graph."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.driver.build.fmu import BuiltFmu, build_fmu
from flowc.runtime.reference import Reference, load_deployment
from fmpy import extract, read_model_description
from fmpy.simulation import instantiate_fmu
from fmpy.validation import validate_fmu

from builds import HANGS, Write, build
from graphs import consistent

COMPILER = shutil.which("cc") or ""
SMOOTH = """
task Smooth(weight: float = 0.5) { in x: float32   out y: float32   state last: float32   c "smooth.c:smooth" }
graph Low { in x: float32   out y: float32   a: Smooth(weight = 0.25)   b: Smooth   x -> a -> b -> y }
"""
SMOOTH_C = """
int smooth(void *state, const float *x, float *y, const smooth_params *p)
{
    smooth_state *s = state;
    *y = s->last += (float)p->weight * (*x - s->last);
    return 0;
}
"""


def low(folder: Path, text: str = SMOOTH) -> Path:
    """Two low passes in C, or another text that uses them."""
    (folder / "smooth.c").write_text(SMOOTH_C)
    flow = folder / "low.flow"
    flow.write_text(text)
    return flow


def made(
    write: Write, text: str, graph: str = "G", *, native: bool = False, **files: str
) -> BuiltFmu:
    """The unit of a text, in the folder `out` beside it."""
    flow = write(text, **files)
    return build_fmu(flow, graph, flow.parent / "out", native=native)


@contextmanager
def compiled_quickly() -> Iterator[None]:
    """Compile without optimizing, which takes a third of the time, and let all code round alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", "-O0 -ffp-contract=off")
        yield


class Unit:
    """An extracted unit without problems, of which there may be several instances."""

    def __init__(self, file: Path) -> None:
        assert validate_fmu(str(file)) == []
        self.description = read_model_description(str(file))
        self.folder = Path(extract(str(file)))
        self.variables = {v.name: v for v in self.description.modelVariables}

    @property
    def fmi(self) -> str:
        """The version of FMI."""
        return str(self.description.fmiVersion)

    def names(self, causality: str) -> list[str]:
        """The names of all inputs, outputs or parameters."""
        return [n for n, v in self.variables.items() if v.causality == causality]


class Instance:
    """One instance of a unit. `said` has what it has logged."""

    def __init__(self, unit: Unit) -> None:
        self.said: list[str] = []
        self._unit, self._time = unit, 0.0
        proposed = unit.description.defaultExperiment
        self._size = float(proposed.stepSize) if proposed else 0.5
        self._fmu = instantiate_fmu(
            str(unit.folder), unit.description, "CoSimulation", logger=self._log
        )

    def _log(self, *words: Any) -> None:
        self.said.append(words[-1].decode())

    def start(self, **parameters: Any) -> None:
        """Begin, with values of parameters: `task__name` stands for `Graph.task.name`."""
        if self._unit.fmi == "2.0":
            self._fmu.setupExperiment(startTime=0.0)
        for name, value in parameters.items():
            self.set(f"{self._unit.description.modelName}.{name.replace('__', '.')}", value)
        self._fmu.enterInitializationMode()
        self._fmu.exitInitializationMode()

    def set(self, name: str, value: Any) -> None:
        """Set a variable."""
        variable = self._unit.variables[name]
        values = [value] if isinstance(value, str) else np.ravel(value).tolist()
        getattr(self._fmu, f"set{variable.type}")([variable.valueReference], values)

    def get(self, name: str) -> Any:
        """The value of a variable, with its shape."""
        variable = self._unit.variables[name]
        size = int(np.prod(variable.shape)) if variable.shape else 1
        more = {} if self._unit.fmi == "2.0" else {"nValues": size}
        values = getattr(self._fmu, f"get{variable.type}")([variable.valueReference], **more)
        return np.reshape(values, variable.shape) if variable.shape else values[0]

    def step(self, **inputs: Any) -> dict[str, Any]:
        """Put in, do a step, get all outputs."""
        for name, value in inputs.items():
            self.set(name, value)
        self.advance(self._size)
        return {name: self.get(name) for name in self._unit.names("output")}

    def advance(self, size: float) -> None:
        """Do a step of so many seconds."""
        self._fmu.doStep(self._time, size)
        self._time += size

    def reset(self) -> None:
        """As new."""
        self._fmu.reset()

    def end(self) -> None:
        """Terminate and free it."""
        self._fmu.terminate()
        self.free()

    def free(self) -> None:
        """Free it, in whatever state it is."""
        self._fmu.freeInstance()


@contextmanager
def opened(file: Path) -> Iterator[Unit]:
    """A unit, extracted for a while."""
    unit = Unit(file)
    try:
        yield unit
    finally:
        shutil.rmtree(unit.folder)


def simulated(
    file: Path, inputs: Sequence[Mapping[str, Any]], **parameters: Any
) -> list[dict[str, Any]]:
    """The outputs of one instance after each step."""
    with opened(file) as unit:
        instance = Instance(unit)
        instance.start(**parameters)
        found = [instance.step(**given) for given in inputs]
        instance.end()
    return found


def expected(flow: Path, app: str, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the sequential reference makes of an app with open ends whose only sources they are,
    step by step."""
    out = flow.parent / "reference"
    build(flow, out)
    (document,) = [a for a in load_deployment(str(out))["apps"] if a["name"] == app]
    ends = {
        kind: [t for t in document["tasks"] if t["code"]["kind"] == kind] for kind in ("in", "out")
    }
    produced: dict[str, dict[int, list[np.ndarray]]] = {}
    for task in ends["in"]:
        (port,) = task["outputs"]
        blocks = [
            np.asarray(i[port["name"]], port["dtype"]).reshape(-1, *port["shape"]) for i in inputs
        ]
        produced[task["name"]] = {
            k: [np.array(token)] for k, token in enumerate(np.concatenate(blocks))
        }
    reference = Reference(document, str(out))
    reference.run([(document, len(inputs))], produced, {})
    found: list[dict[str, Any]] = [{} for _ in inputs]
    for task in ends["out"]:
        (port,), count = task["inputs"], task["firings"]
        tokens = [block[0] for block in reference.expected[task["name"]] if block is not None]
        for step, values in enumerate(found):
            block = np.stack(tokens[step * count : (step + 1) * count])
            values[port["name"]] = block if count > 1 else block[0]
    return found


def tokens_for(file: Path, steps: int, seed: int = 0) -> list[dict[str, Any]]:
    """Inputs for a unit: small whole numbers, drawn by lot."""
    rng = np.random.default_rng(seed)
    variables = [
        v for v in read_model_description(str(file)).modelVariables if v.causality == "input"
    ]
    return [
        {
            v.name: rng.integers(0, 2 if v.type == "Boolean" else 100, v.shape or ()).tolist()
            for v in variables
        }
        for _ in range(steps)
    ]


def same(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> None:
    """Are all outputs of all steps equal, to the last bit?"""
    assert len(found) == len(wanted) > 0
    for step, (here, there) in enumerate(zip(found, wanted, strict=True)):
        assert here.keys() == there.keys()
        for name in here:
            np.testing.assert_array_equal(here[name], there[name], f"{name} after step {step}")


HOST = r"""
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
static void say(void *e, int status, const char *category, const char *message) { (void)e, (void)category; printf("%d %s\n", status, message); }
int main(int n, char **given)
{
    void *unit = dlopen(given[1], RTLD_NOW | RTLD_LOCAL);
    void *(*make)(const char *, const char *, const char *, bool, bool, bool, bool, const void *, size_t, void *, void *, void *);
    int (*enter)(void *, bool, double, double, bool, double), (*leave)(void *);
    int (*set)(void *, const unsigned *, size_t, const float *, size_t), (*get)(void *, const unsigned *, size_t, float *, size_t);
    int (*step)(void *, double, double, bool, bool *, bool *, bool *, double *);
    float x[3] = { 1, 2, 3 }, sum;
    unsigned in = 0, out = 2;
    bool a, b, c;
    double t;
    if (!unit) { puts(dlerror()); return 1; }
    *(void **)&make = dlsym(unit, "fmi3InstantiateCoSimulation");
    *(void **)&enter = dlsym(unit, "fmi3EnterInitializationMode");
    *(void **)&leave = dlsym(unit, "fmi3ExitInitializationMode");
    *(void **)&set = dlsym(unit, "fmi3SetFloat32");
    *(void **)&get = dlsym(unit, "fmi3GetFloat32");
    *(void **)&step = dlsym(unit, "fmi3DoStep");
    void *one = make("one", given[2], given[3], 0, 0, 0, 0, NULL, 0, NULL, (void *)say, NULL);
    if (!one || enter(one, 0, 0, 0, 0, 0) || leave(one) || set(one, &in, 1, x, 3)) return 2;
    if (step(one, 0, atof(given[4]), 0, &a, &b, &c, &t) || get(one, &out, 1, &sum, 1)) return 3;
    printf("%.9g\n", sum);
    return 0 * n;
}
"""


def stepped_without_python(built: BuiltFmu, folder: Path) -> Any:
    """What a simulator in C without Python gets of a unit for 1, 2 and 3: its first input are three
    tokens, and its last output is a number."""
    (folder / "host.c").write_text(HOST)
    subprocess.run(
        [COMPILER, "host.c", "-o", "host", "-ldl"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=HANGS,
    )
    extracted = folder / "extracted"
    with zipfile.ZipFile(built.file) as archive:
        archive.extractall(extracted)
    (library,) = extracted.glob("binaries/*/*.so")
    host, resources = str(folder / "host"), f"{extracted}/resources/"
    command = [host, str(library), built.token, resources, built.step or "1"]
    env = {"FLOWC_HOME": "/of/another/program"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS, env=env, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return np.float32(done.stdout)


# -- graphs that are drawn by lot ------------------------------------------------------------------
TYPES = {
    "float64": "double", "float32": "float", "int32": "int32_t", "uint8": "uint8_t", "int64": "int64_t", "bool": "_Bool",
}  # fmt: skip


def random_text(seed: int, folder: Path) -> Path | None:
    """A graph of C tasks with several rates, phases, delays, cycles, windows, shapes and types, as
    app A with open ends.

    Each task counts its firings, and mixes all that it gets. None if the graph that was drawn
    blocks.
    """
    rng = random.Random(seed)
    graph, _ = consistent(rng, most_tasks=5)
    kinds = {f"{c.source}.{c.source_port}": rng.choice(list(TYPES)) for c in graph.channels}
    shapes = {name: rng.choice(["", "", "[2]", "[2, 3]"]) for name in kinds}
    arrows = {
        f"{c.destination}.{c.destination_port}": f"{c.source}.{c.source_port}"
        for c in graph.channels
    }
    declared, code, lines = [], ["#include <math.h>\n"], []
    for number, task in enumerate(graph.tasks):
        short = task.name.partition(".")[2]
        ports, inputs, outputs = [], [], []
        for port in (*task.inputs, *task.outputs):
            key = f"{task.name}.{port.name}"
            kind, shape = kinds[arrows.get(key, key)], shapes[arrows.get(key, key)]
            rates = list(port.rates) if len(port.rates) > 1 else port.rates[0]
            seen = (
                rng.choice([0, 0, max(port.rates) + rng.randint(0, 3)])
                if port.direction == "in"
                else 0
            )
            ports.append(
                f"{port.direction} {port.name}: {kind}{shape} rate {rates}"
                + (f" window {seen}" if seen else "")
            )
            of = inputs if port.direction == "in" else outputs
            of.append((port.name, kind, port.rates, {"": 1, "[2]": 2, "[2, 3]": 6}[shape], seen))
        for way, of in (("in", inputs), ("out", outputs)):
            if not of or (way, number) == ("out", 0) or rng.random() < 0.3:
                kind, rate = rng.choice(list(TYPES)), rng.randint(1, 2)
                end = f"{'xy'[way == 'out']}{number}"
                ports.append(f"{way} {end}: {kind} rate {rate}")
                of.append((end, kind, (rate,), 1, 0))
                lines.insert(0, f"{way} {end}: {kind}")
                lines.append(
                    f"{end} -> {short}.{end}" if way == "in" else f"{short}.{end} -> {end}"
                )
        gain = rng.randint(1, 9) / 4
        declared.append(
            f'task T{number}(gain: float = {gain}) {{ {"  ".join(ports)}  state n: int64  c "a.c:f{number}" }}'
        )
        code.append(_function(number, inputs, outputs))
        lines.append(f"{short}: T{number}")
    for c in graph.channels:
        values = (
            f" = {[rng.randint(0, 1) for _ in range(c.delay)]}"
            if c.delay and rng.random() < 0.5
            else ""
        )
        delay = f"delay {c.delay}{values} -> " if c.delay else ""
        ends = f"{c.source}.{c.source_port}", f"{c.destination}.{c.destination_port}"
        lines.append(" -> ".join(e.partition(".")[2] for e in ends).replace(" -> ", f" -> {delay}"))
    (folder / "a.c").write_text("".join(code))
    flow = folder / "a.flow"
    flow.write_text("\n".join(declared) + "\napp A {\n    " + "\n    ".join(lines) + "\n}\n")
    checked = flowc.check(flow)
    codes = {d.code for d in checked.diagnostics if d.severity == "error"}
    assert codes <= {"F204"}, [d.message for d in checked.diagnostics]
    return None if codes else flow


def _function(number: int, inputs: list[Any], outputs: list[Any]) -> str:
    arguments = [f"const {TYPES[kind]} *{name}" for name, kind, *_ in inputs]
    arguments += [f"{TYPES[kind]} *{name}" for name, kind, *_ in outputs]
    body = [f"f{number}_state *s = state;", "double sum = p->gain * (s->n + 1);", "long k;"]
    for name, _, rates, size, seen in inputs:
        counts = (
            f"((long[]){{{', '.join(map(str, rates))}}}[s->n % {len(rates)}])"
            if not seen
            else str(seen)
        )
        body.append(
            f"for (k = 0; k < {counts} * {size}; k++) sum = fmod(sum * 3 + (double){name}[k], 251);"
        )
    for name, kind, rates, size, _ in outputs:
        counts = f"((long[]){{{', '.join(map(str, rates))}}}[s->n % {len(rates)}])"
        value = "fmod(sum + k, 2) < 1" if kind == "bool" else "fmod(sum + k, 100)"
        body.append(
            f"for (k = 0; k < {counts} * {size}; k++) {name}[k] = ({TYPES[kind]})({value});"
        )
    body += ["s->n++;", "return 0;"]
    head = f"int f{number}(void *state, {', '.join(arguments)}, const f{number}_params *p)"
    return f"{head}\n{{\n    " + "\n    ".join(body) + "\n}\n"


if (
    __name__ == "__main__"
):  # a process of its own: UNIT FILE, with inputs of each step and parameters; prints the outputs
    told, settings = json.loads(Path(sys.argv[2]).read_text())
    outputs = simulated(Path(sys.argv[1]), told, **settings)
    print(
        json.dumps([{name: np.asarray(v).tolist() for name, v in step.items()} for step in outputs])
    )
