"""Two hundred requests at a time: a program with open ends against a pool of threads.

A request is a picture. A network finds things in it, up to 16 of which are cut out and go through a
second network; the answer is JSON. Both sides use the same functions and networks, in one process,
and 200 coroutines that ask again as soon as they have an answer:

    flowc, each alone    `aask` of a program on two cores, mapped by hand
    flowc, in batches    the same text with `batch up to 8 within 1 ms`
    pool of threads      an executor with as many threads as is fastest here (of 2, 4, 8, 16), each
                         request a call from end to end; sessions of one thread, the crops of a
                         request in one run

Answers are compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from paired import Others, Spread, alternate, machine, ratio, rounds, table

AT_ONCE, EACH = 200, 3
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
    Service.picture -> core[0]   Service.scaled -> core[0]   Service.find -> core[0]   Service.crops -> core[1]
    Service.classify -> core[1]   Service.answer -> core[1]   Service.json -> core[1]
}
"""


def write_network(file: Path, side: int, layers: list[tuple[int, int]], out: int) -> None:
    """Convolutions (channels, stride); a map of `out` channels, or without a side left, scores."""
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


def asked(
    ask: Callable[[np.ndarray], Awaitable[np.ndarray]],
    pictures: list[np.ndarray],
    wanted: list[bytes],
    times: list[float],
) -> Callable[[], float]:
    """Seconds for all requests of 200 coroutines; what each took goes to `times`."""

    async def one(k: int) -> None:
        for n in range(EACH):
            which = (k * EACH + n) % len(pictures)
            begin = time.perf_counter()
            found = await ask(pictures[which])
            times.append(time.perf_counter() - begin)
            classes = [(f["class"], f["box"]) for f in json.loads(bytes(found))["found"]]
            expected = [(f["class"], f["box"]) for f in json.loads(wanted[which])["found"]]
            assert classes == expected, (classes, expected)

    async def everybody() -> None:
        await asyncio.gather(*(one(k) for k in range(AT_ONCE)))

    def run() -> float:
        begin = time.perf_counter()
        asyncio.run(everybody())
        return time.perf_counter() - begin

    return run


def pooled(
    threads: int, plain: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], Awaitable[np.ndarray]]:
    """The calls in an executor."""
    pool = ThreadPoolExecutor(threads)

    async def ask(picture: np.ndarray) -> np.ndarray:
        return await asyncio.get_running_loop().run_in_executor(pool, plain, picture)

    return ask


def main() -> None:
    """Print requests per second and the slowest percent, over those of the pool."""
    count = rounds(__doc__, 9)
    random = np.random.default_rng(4)
    pictures = [random.integers(0, 255, (3, SIDE, SIDE), np.uint8) for _ in range(50)]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "tasks.py").write_text(PYTHON)
        write_network(folder / "find.onnx", SIDE, [(16, 2), (32, 2), (32, 2), (32, 1)], 1)
        write_network(folder / "classify.onnx", CROP, [(16, 2), (32, 2)], 10)
        plain = plainly(folder)
        wanted = [plain(picture).tobytes() for picture in pictures]
        found = [len(json.loads(w)["found"]) for w in wanted]
        times: dict[str, list[float]] = {}
        fastest: dict[int, float] = {}
        for threads in (2, 4, 8, 16):
            fastest[threads] = asked(pooled(threads, plain), pictures, wanted, [])()
        threads = min(fastest, key=lambda n: fastest[n])
        pool = f"pool of {threads} threads"
        sides = {pool: asked(pooled(threads, plain), pictures, wanted, times.setdefault(pool, []))}
        batches = {
            "each alone": ("", "batch 1", "batch 16"),
            "in batches": ("batch up to 8 within 1 ms", "batch 8", "batch 128"),
        }
        for side, (batch, one, crops) in batches.items():
            text, written = folder / f"{side.replace(' ', '_')}.flow", TEXT
            for word, clause in (("BATCH8", one), ("BATCH16", crops), ("BATCH", batch)):
                written = written.replace(word, clause)
            text.write_text(written)
            with contextlib.redirect_stderr(io.StringIO()):
                running = stack.enter_context(
                    flowc.open(text, folder / text.stem, platform="board")
                )
            key = f"flowc, {side}"
            sides[key] = asked(running.aask, pictures, wanted, times.setdefault(key, []))
        for run in sides.values():
            run()
        for spent in times.values():
            spent.clear()
        others = Others()
        samples = alternate(sides, count)
        print(f"{machine()}; {others.text()}")
        print(
            f"{count} rounds of {AT_ONCE * EACH} requests, {AT_ONCE} at a time; {sum(found) / len(found):.1f} things"
            " in a picture; answers agree\n"
        )
    rows = [
        [
            "side",
            "requests/s",
            "p50 ms",
            "p99 ms",
            "requests/s over the pool's",
            "p99 over the pool's",
        ]
    ]
    most = {side: float(np.quantile(spent, 0.99)) for side, spent in times.items()}
    for side, seconds in samples.items():
        over = "" if side == pool else ratio(samples[pool], seconds).text()
        rows.append(
            [
                side,
                f"{AT_ONCE * EACH / Spread.of(seconds).median:.0f}",
                f"{1e3 * float(np.quantile(times[side], 0.5)):.0f}",
                f"{1e3 * most[side]:.0f}",
                over,
                "" if side == pool else f"{most[side] / most[pool]:.2f}",
            ]
        )
    print(table(rows))


if __name__ == "__main__":
    main()
