"""Weights that are equal are in memory once: bytes that malloc has given out, over distinct bytes.

Usage: python benchmarks/common_weights.py [--rounds N]

The variants of two examples and of families that papers publish, made small: exits of one network,
two heads on one trunk, blocks of half the width between blocks that stay, and blocks left out, so
that equal layers stand at other positions. Each program is built by flowc; a bare process opens
its variants. Counted are the bytes of the blocks of memory that malloc has given out and that hold
weights: all of at least `LEAST` bytes, by a library loaded before malloc. The peer is a session of
ONNX Runtime for each variant's file, one for variants of the same file. `distinct` is the size of
the tensors that differ, in the files, and `laid out` the same as ONNX Runtime lays them out, with
channels filled up to whole blocks: bytes are shown over these. Times are CPU times of one inference of each variant, in turns with the peer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
from flowc.networks.supergraph import tensor_digest
from flowc.runtime.code import session
from flowc.runtime.reference import load_deployment
from flowc.runtime.segments import Segments
from onnx import TensorProto, helper, numpy_helper
from paired import Spread, alternate, execute, rounds, table
from variant_texts import text_of

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
#: Blocks of fewer bytes are those of the sessions' own tables.
LEAST = 4096
CHANNELS, SIZE = 64, 28
IMAGE = np.zeros((1, 3, SIZE, SIZE), np.float32)
CODE = """
import numpy as np
class Camera:
    def __call__(self): return np.zeros((1, 3, 28, 28), np.float32)
class Show:
    def __call__(self, y): pass
"""
#: malloc and its kin, with the bytes of all large blocks that are given out.
COUNTER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
#include <errno.h>
static long bytes;
long large_bytes(void) { return __atomic_load_n(&bytes, __ATOMIC_RELAXED); }
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static void *add(void *p) {
    size_t n = p ? malloc_usable_size(p) : 0;
    if (n >= LEAST) __atomic_add_fetch(&bytes, n, __ATOMIC_RELAXED);
    return p;
}
static void del(void *p) {
    size_t n = p ? malloc_usable_size(p) : 0;
    if (n >= LEAST) __atomic_sub_fetch(&bytes, n, __ATOMIC_RELAXED);
}
void *malloc(size_t n) { return add(__libc_malloc(n)); }
void *calloc(size_t k, size_t n) { return add(__libc_calloc(k, n)); }
void *realloc(void *p, size_t n) { del(p); return add(__libc_realloc(p, n)); }
void *memalign(size_t a, size_t n) { return add(__libc_memalign(a, n)); }
void *aligned_alloc(size_t a, size_t n) { return add(__libc_memalign(a, n)); }
int posix_memalign(void **p, size_t a, size_t n) {
    *p = add(__libc_memalign(a, n));
    return *p ? 0 : ENOMEM;
}
void free(void *p) { del(p); __libc_free(p); }
"""
#: Opens files, or the codes of a build, and says what large blocks they take.
OPENED = """
import ctypes, gc, json, sys
from flowc.runtime.code import session
from flowc.runtime.segments import Segments

count = ctypes.CDLL(None).large_bytes
count.restype = ctypes.c_long
home, warm, files, codes = json.loads(sys.argv[1])
session(warm, 1, False)
gc.collect()
before, kept = count(), [session(file, 1, False) for file in files]
for code in codes:
    parts = [(s["file"], s["reads"], s["makes"]) for s in code["segments"]]
    kept.append(Segments(parts, code["outputs"], common=code["common"]))
    kept[-1].open(home, [], [])
    if kept[-1].apart:
        raise SystemExit(kept[-1].apart)
gc.collect()
print(count() - before)
"""


# -- networks --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Family:
    """Models by file name, and for each variant its file and the output that it gives."""

    title: str
    models: dict[str, onnx.ModelProto]
    variants: tuple[tuple[str, str], ...]


class Layers:
    """Weights of layers by their names: equal names are equal weights, in every network."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def conv(self, read: str, name: str, ins: int, outs: int, size: int) -> str:
        """A convolution and its activation; the name of what they make."""
        made = f"t{len(self.nodes)}"
        weight = self._weight(f"{name}_{ins}_{outs}", (outs, ins, size, size))
        bias = self._weight(f"{name}_b{outs}", (outs,))
        pads = [size // 2] * 4
        self.nodes.append(helper.make_node("Conv", [read, weight, bias], [f"{made}c"], pads=pads))
        self.nodes.append(helper.make_node("Relu", [f"{made}c"], [made]))
        return made

    def block(self, read: str, name: str, inner: int) -> str:
        """A block with a narrow part and a way around it."""
        made = self.conv(read, f"{name}_first", CHANNELS, inner, 1)
        made = self.conv(made, f"{name}_middle", inner, inner, 3)
        made = self.conv(made, f"{name}_last", inner, CHANNELS, 1)
        made = self.conv(made, f"{name}_after", CHANNELS, CHANNELS, 3)
        self.nodes.append(helper.make_node("Add", [made, read], [f"{made}s"]))
        return f"{made}s"

    def head(self, read: str, name: str, output: str) -> str:
        """Mean over the image, and classes."""
        weight = self._weight(f"{name}_{CHANNELS}_100", (CHANNELS, 100))
        self.nodes.append(helper.make_node("GlobalAveragePool", [read], [f"{output}p"]))
        self.nodes.append(helper.make_node("Flatten", [f"{output}p"], [f"{output}f"]))
        self.nodes.append(helper.make_node("MatMul", [f"{output}f", weight], [output]))
        return output

    def model(self, *outputs: str) -> onnx.ModelProto:
        """All of it."""
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIZE, SIZE])]
        made = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 100]) for t in outputs]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "net", given, made, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _weight(self, name: str, shape: tuple[int, ...]) -> str:
        rng = np.random.default_rng(list(name.encode()))
        self.weights[name] = rng.normal(0, 0.05, shape).astype(np.float32)
        return name


def network(
    blocks: list[tuple[str, int]], head: str = "head", exit_after: int = 0
) -> onnx.ModelProto:
    """Blocks with their inner channels one after another; with an exit behind some of them."""
    layers, outputs = Layers(), []
    read = layers.conv("x", "stem", 3, CHANNELS, 3)
    for number, (name, inner) in enumerate(blocks, 1):
        read = layers.block(read, name, inner)
        if number == exit_after:
            outputs.append(layers.head(read, "exit", "soon"))
    outputs.append(layers.head(read, head, "y"))
    return layers.model(*outputs)


def families() -> list[Family]:
    """Each with two variants."""
    whole = [(f"block{k}", CHANNELS) for k in range(6)]
    halves = [(name, inner // (1 + k % 2)) for k, (name, inner) in enumerate(whole)]
    return [
        Family(
            "early exit",
            {"net": network(whole, exit_after=4)},
            (("net", "y"), ("net", "soon")),
        ),
        Family(
            "two heads",
            {"one": network(whole, "one"), "other": network(whole, "other")},
            (("one", "y"), ("other", "y")),
        ),
        Family(
            "halves of the width",
            {"whole": network(whole), "half": network(halves)},
            (("whole", "y"), ("half", "y")),
        ),
        Family(
            "blocks left out",
            {"deep": network(whole), "shallow": network(whole[1::2])},
            (("deep", "y"), ("shallow", "y")),
        ),
    ]


# -- programs --------------------------------------------------------------------------------------
def variants_of(build: Path) -> list[dict[str, Any]]:
    """The codes of the variants of a program."""
    codes = {}
    for state in load_deployment(str(build))["scenario"]["states"]:
        for app in state["apps"]:
            for task in app["tasks"]:
                if task["code"]["kind"] in ("segments", "onnx"):
                    codes[json.dumps(task["code"], sort_keys=True)] = task["code"]
    return list(codes.values())


def distinct_bytes(models: list[onnx.ModelProto]) -> int:
    """Of tensors that differ."""
    sizes = {}
    for model in models:
        for weight in model.graph.initializer:
            sizes[tensor_digest(weight)] = numpy_helper.to_array(weight).nbytes
    return sum(sizes.values())


def built(home: Path, family: Family) -> Path:
    """The program of a family."""
    for name, model in family.models.items():
        onnx.save(model, home / f"{name}.onnx")
    variants = [
        f'variant v{k} from "{file}.onnx" {{ in x from "x"   out y from "{output}" }}'
        for k, (file, output) in enumerate(family.variants)
    ]
    (home / "net.flow").write_text(text_of(variants, SIZE, 100))
    (home / "code.py").write_text(CODE)
    flowc.build(home / "net.flow", home / "b", platform="one", measure=False)
    return home / "b"


# -- measurements ----------------------------------------------------------------------------------
def counter(folder: Path) -> Path:
    """The library that counts, compiled."""
    (folder / "count.c").write_text(COUNTER)
    library = folder / "count.so"
    execute("cc", "-O2", "-fPIC", "-shared", f"-DLEAST={LEAST}", folder / "count.c", "-o", library)
    return library


def held(
    library: Path, home: Path, warm: Path, codes: list[dict[str, Any]], files: list[Path]
) -> int:
    """Bytes of large blocks that these codes and files take in a process of their own."""
    segments = [code for code in codes if code["kind"] == "segments"]
    alone = [str(home / code["file"]) for code in codes if code["kind"] == "onnx"]
    given = [str(home), str(warm), [*alone, *map(str, files)], segments]
    environment = dict(os.environ, LD_PRELOAD=str(library))
    command = [sys.executable, "-c", OPENED, json.dumps(given)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return int(done.stdout)


def firing(codes: list[dict[str, Any]], home: Path) -> Callable[[], float]:
    """CPU seconds of one inference of every code, one after another."""
    opened: list[Segments] = []
    for code in codes:
        parts = [(s["file"], s["reads"], s["makes"]) for s in code["segments"]]
        opened.append(Segments(parts, code["outputs"], common=code["common"]))
        opened[-1].open(str(home), [], [])
    return timed([partial(code.fire, [IMAGE], 0) for code in opened])


def apart(paths: list[tuple[Path, str]]) -> Callable[[], float]:
    """The same of sessions of files, each for one output."""
    sessions = [(session(str(path), 1, False), output) for path, output in paths]
    return timed([partial(s.run, [output], {"x": IMAGE}) for s, output in sessions])


def timed(calls: list[Callable[[], object]]) -> Callable[[], float]:
    """CPU seconds of all calls."""

    def spent() -> float:
        begin = time.thread_time()
        for call in calls:
            call()
        return time.thread_time() - begin

    spent()
    return spent


def main() -> None:
    """Print a line for each family."""
    count = rounds(__doc__, 30)
    rows = [["variants", "distinct KB", "laid out KB", "apart", "in a program", "time"]]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        library = counter(folder)
        warm = folder / "warm.onnx"
        onnx.save(network([("warm", 8)]), warm)
        for name in ("patrol", "drone"):
            home, files = folder / name, sorted((EXAMPLES / name).glob("*.onnx"))
            flowc.build(EXAMPLES / name / f"{name}.flow", home, measure=False)
            distinct = distinct_bytes([onnx.load(f) for f in files])
            own = held(library, home, warm, variants_of(home), [])
            each = held(library, home, warm, [], files)
            rows.append(row(f"example {name}", distinct, laid_out(home), each, own, ""))
        for family in families():
            home = folder / family.title.replace(" ", "_")
            home.mkdir()
            build = built(home, family)
            codes = variants_of(build)
            files = [home / f"{file}.onnx" for file, _ in family.variants]
            distinct = distinct_bytes([*family.models.values()])
            own, each = held(library, build, warm, codes, []), held(library, build, warm, [], files)
            outputs = [output for _, output in family.variants]
            sides = {
                "shared": firing(codes, build),
                "apart": apart(list(zip(files, outputs, strict=True))),
            }
            spent = alternate(sides, count)
            times = Spread.of([a / b for a, b in zip(spent["shared"], spent["apart"], strict=True)])
            rows.append(row(family.title, distinct, laid_out(build), each, own, times.text()))
    print(table(rows))


def row(title: str, distinct: int, whole: int, each: int, own: int, times: str) -> list[str]:
    """A line of the table."""
    ratios = [f"{size / whole:.2f}" for size in (each, own)]
    return [title, f"{distinct / 1e3:.1f}", f"{whole / 1e3:.1f}", *ratios, times]


def laid_out(build: Path) -> int:
    """Bytes of the weights that a program plans."""
    planned: int = load_deployment(str(build))["planned"]["weights"]
    return planned


if __name__ == "__main__":
    main()
