"""Two hundred requests at a time: a program with open ends against a pool of threads.

A request is a picture. A network finds things in it, up to 16 of which are cut out and go through a
second network; the answer is JSON. All sides use the same functions and networks, each in a process
of its own, with 200 coroutines that ask again as soon as they have an answer:

    pool of threads      an executor with as many threads as is fastest here (of 2, 4, 8, 16), each
                         request a call from end to end; sessions of one thread, the crops of a
                         request in one run
    flowc, each alone    `aask` of a program whose tasks are on one core
    flowc, in batches    the same with `batch up to 16 within 1 ms`
    flowc, in turn       the same, where two cores take batches in turn

Answers are compared. The functions and networks of a request alone, one call after the other in one
thread, say how much of a request is not the side's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from paired import Others, Spread, alternate, machine, ratio, rounds, table

AT_ONCE, EACH = 200, 3
PICTURES = 50
SIDE, CROP = 96, 32
PYTHON = '''"""What is done around the networks."""

import json

import numpy as np

CLASSES = 10


def scaled(picture):
    return picture[None].astype(np.float32) / 255


def crops(x, heat):
    """The warmest places, with what is around them."""
    heat = np.round(heat[0, 0], 2)
    count = round(float(x[0, 0, 0, 0]) * 255) % 17
    found = np.argsort(-heat, axis=None, kind="stable")[:count]
    rows, columns = (np.minimum(place, 8) for place in np.divmod(found, heat.shape[1]))
    boxes = np.stack([8 * rows, 8 * columns], axis=1).astype(np.int32)
    cut = [x[:, :, r : r + 32, c : c + 32] for r, c in boxes.tolist()]
    return cut, boxes


def answer(scores, box):
    found = [
        {"class": int(np.argmax(s)), "score": round(float(np.max(s)), 3), "box": b}
        for s, b in zip(scores, np.asarray(box).reshape(-1, 2).tolist())
    ]
    text = json.dumps({"found": found}).encode()
    return np.frombuffer(text.ljust(2048), np.uint8)
'''
TEXT = """type Picture = float32[1, 3, 96, 96]
type Crop = float32[1, 3, 32, 32]
task Scaled { in picture: uint8[3, 96, 96]   out x: Picture   stateless   python "tasks.py:scaled" }
network Find from "find.onnx" { BATCH8 }
task Crops { in x: Picture   in heat: float32[1, 1, 12, 12]   stateless
    out crop: Crop rate up to 16 by n   out box: int32[2] rate up to 16 by n   python "tasks.py:crops" }
network Classify from "classify.onnx" { BATCH16 }
task Answer { in scores: float32[1, 10] rate up to 16 by n   in box: int32[2] rate up to 16 by n
    out json: uint8[2048]   stateless   python "tasks.py:answer" }
app Service {
    BATCH
    in picture: uint8[3, 96, 96]   out json: uint8[2048]
    scaled: Scaled   find: Find   crops: Crops   classify: Classify   answer: Answer
    picture -> scaled -> find -> crops.heat
    scaled -> crops.x
    crops.crop -> classify -> answer.scores
    crops.box -> answer.box
    answer -> json
}
platform board { cpu core[2] }
mapping on board {
    Service.picture -> core[0]   Service.json -> core[0]
    Service.scaled -> CORES   Service.find -> CORES   Service.crops -> CORES
    Service.classify -> CORES   Service.answer -> CORES
}
"""
#: What stands for words of the text, by side.
IN_BATCHES = {"BATCH8": "batch 1", "BATCH16": "batch 256", "BATCH": "batch up to 16 within 1 ms"}
TEXTS = {
    "flowc, each alone": {
        "BATCH8": "batch 1", "BATCH16": "batch 16", "BATCH": "", "CORES": "core[0]"
    },
    "flowc, in batches": {**IN_BATCHES, "CORES": "core[0]"},
    "flowc, in turn": {**IN_BATCHES, "CORES": "core[0], core[1]"},
}  # fmt: skip


def write_network(file: Path, side: int, layers: list[tuple[int, int]], out: int) -> None:
    """Convolutions (channels, stride); a map of `out` channels, or without a side left, scores."""
    import onnx  # not in the processes of the sides, whose memory is measured
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(3)
    nodes, weights, x, channels = [], [], "x", 3
    for k, (width, stride) in enumerate([*layers, (out, 1)]):
        w = random.normal(0, (2 / (9 * channels)) ** 0.5, (width, channels, 3, 3)).astype(
            np.float32
        )
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(
            helper.make_node(
                "Conv", [x, f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1], strides=[stride] * 2
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        x, channels = f"r{k}", width
    shape: list[Any] = ["N", out, SIDE // 8, SIDE // 8]
    if file.name == "classify.onnx":
        nodes += [
            helper.make_node("GlobalAveragePool", [x], ["p"]),
            helper.make_node("Flatten", ["p"], ["y"]),
        ]
        shape = ["N", out]
    else:
        nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file
    )


def plainly(folder: Path) -> Callable[[np.ndarray], np.ndarray]:
    """A request as a call from end to end."""
    import onnxruntime  # as in a program: not before the process of the side has begun

    names: dict[str, Any] = {}
    exec(PYTHON, names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    find, classify = (
        onnxruntime.InferenceSession(
            folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"]
        )
        for name in ("find", "classify")
    )

    def answer(picture: np.ndarray) -> np.ndarray:
        x = names["scaled"](picture)
        cut, boxes = names["crops"](x, find.run(None, {"x": x})[0])
        scores = classify.run(None, {"x": np.concatenate(cut)})[0] if cut else []
        return np.asarray(names["answer"](scores, boxes))

    return answer


def pictures() -> list[np.ndarray]:
    """What is asked."""
    random = np.random.default_rng(4)
    return [random.integers(0, 255, (3, SIDE, SIDE), np.uint8) for _ in range(PICTURES)]


def _found(answer: Any) -> list[Any]:
    return [(f["class"], f["box"]) for f in json.loads(bytes(answer))["found"]]


@dataclass(frozen=True)
class Run:
    """What all requests took: seconds, of the CPU as well, and each by itself."""

    seconds: float
    cpu: float
    times: list[float] = field(default_factory=list)


def asked(ask: Callable[[np.ndarray], Awaitable[np.ndarray]], wanted: list[Any]) -> Run:
    """All requests of 200 coroutines."""
    given, times = pictures(), []

    async def one(k: int) -> None:
        for n in range(EACH):
            which = (k * EACH + n) % PICTURES
            begin = time.perf_counter()
            answer = await ask(given[which])
            times.append(time.perf_counter() - begin)
            assert _found(answer) == wanted[which], which

    async def everybody() -> None:
        await asyncio.gather(*(one(k) for k in range(AT_ONCE)))

    begin, cpu = time.perf_counter(), time.process_time()
    asyncio.run(everybody())
    return Run(time.perf_counter() - begin, time.process_time() - cpu, times)


def pooled(folder: Path, wanted: list[Any]) -> Callable[[np.ndarray], Awaitable[np.ndarray]]:
    """The calls in an executor."""
    plain = plainly(folder)

    def of(threads: int) -> Callable[[np.ndarray], Awaitable[np.ndarray]]:
        pool = ThreadPoolExecutor(threads)

        async def ask(picture: np.ndarray) -> np.ndarray:
            return await asyncio.get_running_loop().run_in_executor(pool, plain, picture)

        return ask

    pools = [of(threads) for threads in (2, 4, 8, 16)]
    return min(pools, key=lambda ask: asked(ask, wanted).seconds)


def serve(side: str, folder: Path, wanted: list[Any], told: Connection) -> None:
    """The process of a side: a run for each word that comes, and in the end the memory in KB."""
    with contextlib.ExitStack() as stack:
        if side in TEXTS:
            sys.path.insert(0, str(folder))
            ask = stack.enter_context(importlib.import_module(_name(side)).open()).aask
        else:
            ask = pooled(folder, wanted)
        asked(ask, wanted)
        told.send(None)
        while told.recv():  # no limit: the benchmark ends it
            told.send(asked(ask, wanted))
        (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
        told.send(int(line.split()[1]))


def _name(side: str) -> str:
    return side.replace(", ", "_").replace(" ", "_")


@contextlib.contextmanager
def running(side: str, folder: Path, wanted: list[Any]) -> Iterator[Connection]:
    """A side in a process of its own, that has run once."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(side, folder, wanted, there), daemon=True
    )
    process.start()
    here.recv()
    yield here
    process.join()


def alone(folder: Path) -> float:
    """CPU seconds of the functions and networks of a request."""
    plain, given = plainly(folder), pictures()
    best = float("inf")
    for _ in range(20):
        begin = time.process_time()
        for picture in given:
            plain(picture)
        best = min(best, (time.process_time() - begin) / PICTURES)
    return best


def built(folder: Path) -> None:
    """Networks, functions, and a program for each text."""
    import flowc  # the processes of the sides have the build alone

    (folder / "tasks.py").write_text(PYTHON)
    write_network(folder / "find.onnx", SIDE, [(16, 2), (32, 2), (32, 2), (32, 1)], 1)
    write_network(folder / "classify.onnx", CROP, [(16, 2), (32, 2)], 10)
    for side, words in TEXTS.items():
        text, written = folder / f"{_name(side)}.flow", TEXT
        for word, clause in words.items():
            written = written.replace(word, clause)
        text.write_text(written)
        flowc.build(text, folder / _name(side), platform="board", measure=False)


def main() -> None:
    """Print requests per second and the slowest percent, over those of the pool."""
    count = rounds(__doc__, 9)
    pool = "pool of threads"
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        built(folder)
        plain = plainly(folder)
        wanted = [_found(plain(picture)) for picture in pictures()]
        functions = alone(folder)
        sides = {s: stack.enter_context(running(s, folder, wanted)) for s in (pool, *TEXTS)}
        runs: dict[str, list[Run]] = {side: [] for side in sides}

        def run(side: str) -> float:
            sides[side].send(True)
            runs[side].append(sides[side].recv())
            return runs[side][-1].seconds

        others = Others()
        samples = alternate({side: partial(run, side) for side in sides}, count)
        memory = {}
        for side, told in sides.items():
            told.send(False)
            memory[side] = told.recv() / 1000
    print(f"{machine()}; {others.text()}")
    things = sum(map(len, wanted)) / len(wanted)
    print(
        f"{count} rounds of {AT_ONCE * EACH} requests, {AT_ONCE} at a time; {things:.1f} things in a"
        f" picture; answers agree; functions and networks alone take {1e6 * functions:.0f} us\n"
    )
    print(table(_rows(samples, runs, memory, pool)))


def _rows(
    samples: dict[str, list[float]], runs: dict[str, list[Run]], memory: dict[str, float], pool: str
) -> list[list[str]]:
    most, cpu = {}, {}
    for side, done in runs.items():
        most[side] = [float(np.quantile(run.times, 0.99)) for run in done]
        cpu[side] = [run.cpu for run in done]
    rows = [["", "requests/s", "CPU us", "p99 ms", "MB", "requests/s over the pool's"]]
    rows[0] += ["CPU", "p99", "memory"]
    for side, seconds in samples.items():
        over = [
            ratio(samples[pool], seconds).text(),
            ratio(cpu[side], cpu[pool]).text(),
            ratio(most[side], most[pool]).text(),
            f"{memory[side] / memory[pool]:.2f}",
        ]
        requests = AT_ONCE * EACH
        rows.append(
            [
                side,
                f"{requests / Spread.of(seconds).median:.0f}",
                f"{1e6 * Spread.of(cpu[side]).median / requests:.0f}",
                f"{1e3 * Spread.of(most[side]).median:.0f}",
                f"{memory[side]:.0f}",
                *([""] * 4 if side == pool else over),
            ]
        )
    return rows


if __name__ == "__main__":
    main()
