"""The cost of a single request: a program with open ends, used from Python, against plain calls.

A frame goes through a network that takes about 17 ms here, with a function before and one behind
it. Both sides wait 300 ms before each request, as between people who come now and then, so that
caches and clocks are equally cold:

    flowc on one core     `ask` of a program that was opened in this process, everything on one
    processor
    flowc on two cores    the same with the network on a processor of its own
    plain calls           the same functions and a session of one thread, called one after the other

Results are compared with those of the plain calls.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import flowc
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from paired import Others, Spread, alternate, machine, ratio, rounds, table, verdict

SIZE, CHANNELS, LAYERS = 56, 64, 7
PAUSE = 0.3
MOST_MS = 20.0
PYTHON = '''"""What is done before and behind the network."""

import numpy as np


def scaled(frame):
    return frame[None].astype(np.float32) / 255


def mean(y):
    return y.mean(axis=(0, 2, 3))
'''
TEXT = f"""type Frame = uint8[{CHANNELS}, {SIZE}, {SIZE}]
type Tensor = float32[1, {CHANNELS}, {SIZE}, {SIZE}]
task Scaled {{ in frame: Frame   out x: Tensor   python "tasks.py:scaled" }}
network Net from "net.onnx"
task Mean {{ in y: Tensor   out answer: float32[{CHANNELS}]   python "tasks.py:mean" }}
app Service {{
    in frame: Frame   out answer: float32[{CHANNELS}]
    scaled: Scaled   net: Net   mean: Mean
    frame -> scaled -> net -> mean -> answer
}}
platform board {{ cpu core[2] }}
mapping on board {{
    Service.frame -> core[0]  Service.scaled -> core[0]  Service.mean -> core[0]  Service.answer -> core[0]
    Service.net -> core[NET]
}}
"""


def write_network(path: Path) -> None:
    """A chain of convolutions."""
    random = np.random.default_rng(3)
    nodes, weights, x = [], [], "x"
    for k in range(LAYERS):
        w = random.normal(0, 0.05, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        out = "y" if k + 1 == LAYERS else f"c{k}"
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [out], pads=[1, 1, 1, 1]))
        x = out
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, CHANNELS, SIZE, SIZE])
        for n in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )


def plain_calls(folder: Path) -> Callable[[np.ndarray], np.ndarray]:
    """The service as a function."""
    names: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    exec(PYTHON, names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        folder / "net.onnx", options, providers=["CPUExecutionProvider"]
    )
    return lambda frame: names["mean"](session.run(["y"], {"x": names["scaled"](frame)})[0])


def timed(
    answer: Callable[[np.ndarray], np.ndarray], frame: np.ndarray, wanted: np.ndarray
) -> Callable[[], float]:
    """A request after a pause, in ms."""

    def request() -> float:
        time.sleep(PAUSE)
        begin = time.perf_counter()
        found = answer(frame)
        spent = 1e3 * (time.perf_counter() - begin)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
        return spent

    return request


def main() -> None:
    """Print latencies, and what flowc adds."""
    count = rounds(__doc__, 40)
    frame = np.random.default_rng(4).integers(0, 255, (CHANNELS, SIZE, SIZE), np.uint8)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "tasks.py").write_text(PYTHON)
        write_network(folder / "net.onnx")
        plain = plain_calls(folder)
        wanted = plain(frame)
        sides: dict[str, Callable[[], float]] = {"plain calls": timed(plain, frame, wanted)}
        for side, core in (("flowc on one core", 0), ("flowc on two cores", 1)):
            text = folder / f"on{core}.flow"
            text.write_text(TEXT.replace("NET", str(core)))
            with contextlib.redirect_stderr(io.StringIO()):
                running = stack.enter_context(
                    flowc.open(text, folder / f"build{core}", platform="board")
                )
            sides[side] = timed(lambda x, ask=running.ask: ask(x).result(), frame, wanted)  # type: ignore[misc]
        for request in sides.values():
            request()
        others = Others()
        samples = alternate(sides, count)
        print(f"{machine()}; {others.text()}")
        print(f"{count} requests of each, {PAUSE * 1e3:.0f} ms apart; answers agree\n")
    rows = [["side", "ms: median [quartiles] least..most", "aim"]]
    for side, times in samples.items():
        aim = (
            ""
            if side == "plain calls"
            else verdict(Spread.of(times).median, most=MOST_MS, digits=0)
        )
        rows.append([side, Spread.of(times).text(), aim])
    print(table(rows) + "\n")
    rows = [["flowc takes", "times plain calls: median [quartiles] least..most", "more us"]]
    for side, times in samples.items():
        if side != "plain calls":
            more = Spread.of(
                [a - b for a, b in zip(times, samples["plain calls"], strict=True)]
            ).median
            rows.append([side, ratio(times, samples["plain calls"]).text(), f"{1e3 * more:+.0f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
