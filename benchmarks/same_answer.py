"""Whether `flowc map` of one network gives the same good answer each time.

Five small networks (0.1 to 20 ms) are mapped several times with 25 s and with 60 s. The answer of
each map then runs against the plain loops of one_network.py, in turns, each in a process of its
own. A row per network and budget: the answers with how often they came, the least and the median
throughput over the best plain loop, and how many answers reach 0.98 of it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

import flowc
import numpy as np
import onnx
import steady
import structures
from flowc.driver.solve.map import find_mapping
from one_network import WAYS, Mapped, write_app
from onnx import TensorProto, helper, numpy_helper
from paired import Others, alternate, machine, ratio, table

BUDGETS = (25.0, 60.0)
#: What each answer should reach of the best plain loop.
LEAST = 0.98


def keyword(folder: Path) -> Path:
    """A network that spots keywords: three dense layers over 49 frames of 10 coefficients."""
    rng = np.random.default_rng(0)
    sizes = [490, 700, 700, 700, 12]
    nodes, weights = [helper.make_node("Reshape", ["x", "flat"], ["h0"])], []
    weights.append(numpy_helper.from_array(np.array([1, 490], np.int64), "flat"))
    for k, (before, after) in enumerate(itertools.pairwise(sizes)):
        weight = rng.standard_normal((before, after), np.float32) / np.sqrt(before)
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w{k}"))
        nodes.append(helper.make_node("MatMul", [f"h{k}", f"w{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"h{k + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 49, 10]), (f"h{len(sizes) - 1}", [1, 12]))
    ]
    graph = helper.make_graph(nodes, "keyword", ends[:1], ends[1:], weights)
    path = folder / "keyword.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def networks(folder: Path) -> dict[str, Path]:
    """The five networks, written."""
    known = structures.write(folder, ["mobilenet", "squeezenet", "resnet18", "light_shufflenet"])
    return {"keyword": keyword(folder), **known}


def answers(
    name: str, network: Path, folder: Path, budget: float, maps: int, rounds: int
) -> list[tuple[str, float]]:
    """Of each map: what it chose, and its throughput over the best plain loop."""
    found = []
    for number in range(maps):
        own = folder / str(number)
        text = write_app(own, network)
        best = find_mapping(text, budget=budget).mapping.contestants[0]
        flowc.build(text, own / "build")
        seconds = steady.long_enough(best.measured_ns or best.predicted_ns)
        one = Mapped(name, network, own, best.configuration, seconds)
        one.check()
        samples = alternate(one.sides, rounds)
        plain = min(WAYS, key=lambda way: median(samples[way]))
        found.append((best.name, ratio(samples[plain], samples["flowc"]).median))
        print(f"{name} {budget:g} s: {found[-1][0]} {found[-1][1]:.3f}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--maps", type=int, default=10, help="of each network and budget")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", metavar="NAME", help="repeatable")
    parser.add_argument("--budget", action="append", type=float, help="25 and 60 without it")
    given = parser.parse_args()
    others = Others()
    rows = [["network", "budget s", "answers", "least", "median", f">= {LEAST}"]]
    with tempfile.TemporaryDirectory() as scratch:
        for name, network in networks(Path(scratch)).items():
            if given.only and name not in given.only:
                continue
            for budget in given.budget or BUDGETS:
                folder = Path(scratch) / f"{name}-{budget:g}"
                found = answers(name, network, folder, budget, given.maps, given.rounds)
                chosen = Counter(what for what, _ in found)
                gains = [gain for _, gain in found]
                told = ", ".join(f"{count} x {what}" for what, count in chosen.most_common())
                good = sum(gain >= LEAST for gain in gains)
                numbers = f"{min(gains):.3f}", f"{median(gains):.3f}", f"{good} of {len(gains)}"
                rows.append([name, f"{budget:g}", told, *numbers])
    print(f"{machine()}; {others.text()}\n{given.maps} maps, {given.rounds} rounds each\n")
    print(table(rows))


if __name__ == "__main__":
    main()
