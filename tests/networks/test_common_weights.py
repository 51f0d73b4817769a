"""Weights that are equal are in memory once, at whatever place of which network they stand, and
every network computes what its own file does."""

from __future__ import annotations

import ctypes
import gc
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from flowc.codegen.kinds.common_weights import place_common
from flowc.codegen.kinds.segments import name_of
from flowc.codegen.sources import Sources
from flowc.model.application import Segments as Planned
from flowc.networks.common_weights import parts_in_program
from flowc.networks.supergraph import WholeNetwork, saved
from flowc.runtime import memory
from flowc.runtime.segments import Segments
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from forks import forks
from models import N, model, weights

CHANNELS = 32
SHAPE = (1, CHANNELS, 8, 8)
TAKEN = [weights(CHANNELS, CHANNELS, 3, 3) / 8 for _ in range(4)]
BIASES = [weights(CHANNELS) for _ in range(4)]
ONE = 4 * CHANNELS * CHANNELS * 9


def network(
    layers: Sequence[tuple[int, int]], prefix: str, taken: Sequence[np.ndarray] = TAKEN
) -> Any:
    """Convolutions, each with the number of its weight and that of its bias, under names that begin
    with a prefix."""
    channels = taken[0].shape[0]
    nodes, used, read = [], {}, "x"
    for k, (weight, bias) in enumerate(layers):
        names = [f"{prefix}w{k}", f"{prefix}b{k}"]
        used |= {names[0]: taken[weight], names[1]: np.resize(BIASES[bias], channels)}
        nodes.append(N("Conv", [read, *names], [f"{prefix}c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(N("Relu", [f"{prefix}c{k}"], [f"{prefix}r{k}"]))
        read = f"{prefix}r{k}"
    return model(nodes, {"x": (1, channels, 8, 8)}, used, read)


def whole(net: Any) -> WholeNetwork:
    shape = tuple(d.dim_value for d in net.graph.input[0].type.tensor_type.shape.dim)
    return WholeNetwork(net, (("x", shape),), (net.graph.output[0].name,))


def written(parts: Sequence[Planned | None], folder: Path) -> list[Segments]:
    """The files of networks that have common weights, and what a program makes of these."""
    sources = Sources(Path("/net"))
    codes = []
    for part in parts:
        assert part is not None and part.common is not None
        segments = [
            (sources.place("networks", f"/net/{name_of(s.digest)}", s.model), s.reads, s.makes)
            for s in part.segments
        ]
        names = {form.digest: name_of(form.digest) for form in part.common.forms}
        common = place_common(part.common, names, sources)
        codes.append(Segments(segments, part.outputs, common=common))
    for file, content in sources.plan.items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        assert isinstance(content, bytes)
        path.write_bytes(content)
    return codes


def opened(parts: Sequence[Planned | None], folder: Path) -> list[Segments]:
    codes = written(parts, folder)
    for code in codes:
        code.open(str(folder), [], [])
    return codes


def answer(net: Any, x: np.ndarray) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        net.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


LAYERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5)


@settings(max_examples=15, deadline=None)
@given(st.lists(LAYERS, min_size=2, max_size=3))
def test_every_weight_is_there_once_and_results_are_those_of_the_files(
    plans: list[list[tuple[int, int]]],
) -> None:
    nets = [network(plan, f"n{k}") for k, plan in enumerate(plans)]
    wholes = [whole(net) for net in nets]
    parts = parts_in_program(wholes, "/net", worth=1)
    used = [weight for plan in plans for weight, _ in plan]
    told = saved(wholes, parts)
    if len(set(used)) == len(used):
        return  # nothing is common but biases, which are too small
    assert 0 <= told.built - told.distinct < ONE // 2
    shared = [(net, p) for net, p in zip(nets, parts, strict=True) if p is not None]
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    with TemporaryDirectory() as place:
        folder = Path(place)
        codes = opened([p for _, p in shared if p.common is not None], folder)
        for (net, _), code in zip([s for s in shared if s[1].common], codes, strict=True):
            assert not code.layout
            np.testing.assert_allclose(code.fire([x], 0)[0], answer(net, x), 1e-4, 1e-5)


def test_one_other_bit_is_another_weight() -> None:
    nets = [network([(0, 0), (1, 0)], "a"), network([(1, 1), (0, 1)], "b")]
    changed = nets[1].graph.initializer[0]
    array = numpy_helper.to_array(changed).copy()
    array.reshape(-1)[7] = np.nextafter(array.reshape(-1)[7], np.float32(9))
    changed.CopyFrom(numpy_helper.from_array(array, changed.name))
    parts = parts_in_program([whole(net) for net in nets], "/net", worth=1)
    common = parts[0] and parts[0].common
    assert common is not None and len(common.tensors) == 1 and common.weights == ONE


@pytest.mark.parametrize("worth", [ONE, ONE + 1])
def test_little_is_not_worth_it(worth: int) -> None:
    nets = [network([(0, 0), (1, 0)], "a"), network([(2, 1), (1, 2)], "b")]
    parts = parts_in_program([whole(net) for net in nets], "/net", worth)
    assert (parts == (None, None)) == (worth > ONE)


def test_malloc_counts_equal_weights_once(tmp_path: Path) -> None:
    """Of layers at other positions of the other network, with biases of their own."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("only glibc counts")
    plans = [[(k, k) for k in range(4)] * 2, [(3 - k, k) for k in range(4)] * 2]
    taken = [weights(128, 128, 3, 3) / 16 for _ in range(4)]
    nets = [network(plan, f"n{k}", taken) for k, plan in enumerate(plans)]
    codes = written(parts_in_program([whole(net) for net in nets], "/net"), tmp_path)
    warm = Segments([(str(tmp_path / "warm"), [("x", 0)], [("y", 1)])], [1])
    (tmp_path / "warm").write_bytes(
        model([N("Relu", ["x"], ["y"])], {"x": SHAPE}, {}, "y").SerializeToString()
    )
    warm.open(str(tmp_path), [], [])
    heap = []
    for version in ("here", "another"):
        listed = tmp_path / codes[0].common
        if version == "another":
            document = json.loads(listed.read_text()) | {"onnxruntime": ["0", "1"]}
            listed = listed.with_name("another.json")
            listed.write_text(json.dumps(document))
        gc.collect()
        before = memory._heap()
        for code in codes:
            code.common = str(listed.relative_to(tmp_path))
            code.open(str(tmp_path), [], [])
        gc.collect()
        heap.append(memory._heap() - before)
    assert codes[0].layout == "weights apart: made for ONNX Runtime 0.1"
    distinct = sum(array.nbytes for array in taken)
    tables = 400_000  # of the sessions, for 32 layers
    assert distinct <= heap[0] < distinct + tables and heap[1] > 2 * distinct


COUNT = """
import hashlib, sys
from flowc.networks.common_weights import parts_in_program
from flowc.networks.supergraph import WholeNetwork
import onnx
wholes = []
for file in sys.argv[1:]:
    net = onnx.load(file)
    wholes.append(WholeNetwork(net, (("x", (1, 32, 8, 8)),), (net.graph.output[0].name,)))
(first, _) = parts_in_program(wholes, "/net", worth=1)
print([hashlib.sha256(form.model).hexdigest() for form in first.common.forms])
"""


def test_models_are_the_same_bytes_at_every_start(tmp_path: Path) -> None:
    """ONNX Runtime numbers its tensors by chance."""
    import onnx

    files = []
    for name, plan in (("a", [(0, 0), (1, 1), (2, 2)]), ("b", [(2, 0), (0, 1), (3, 2)])):
        files.append(str(tmp_path / f"{name}.onnx"))
        onnx.save(network(plan, name), files[-1])
    (tmp_path / "count.py").write_text(COUNT)
    answers = set()
    for _ in range(2):
        done = forks().run([tmp_path / "count.py", *files], cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout)
    assert len(answers) == 1
