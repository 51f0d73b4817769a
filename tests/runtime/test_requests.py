"""Requests in batches: each gets its own answer, whatever lies in the batch beside it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from builds import HANGS, Write, harness, run
from request_texts import PLAIN, TWICE

TASKS = """
import numpy as np

def pre(image):
    if image[0, 0, 0] == 13:
        raise ValueError("unlucky")
    return image[None].astype("float32") / 255

def find(x, y):
    count = round(float(x[0, 0, 0, 0]) * 255) % 5
    crops = [x[:, :, i : i + 4, i : i + 4] + np.float32(i) for i in range(count)]
    return crops, [np.array([i, count], np.int32) for i in range(count)]

def show(y, box, image):
    number = round(float(image[0, 0, 0, 0]) * 255)
    if number == 17:
        raise RuntimeError("seventeen")
    boxes = np.array(box).reshape(-1, 2)
    return np.array([number, len(y), boxes[:, 0].sum()], np.int32)
"""
#: What is found in an image is a list inside of a batch: the classifier has all crops of all requests.
TEXT = """
type Image = float32[1, 3, 16, 16]
type Crop = float32[1, 3, 4, 4]
task Pre { in image: uint8[3, 16, 16]   out x: Image   on error skip   stateless   python "tasks.py:pre" }
task Find {
    in x: Image   in y: float32[1, 4]   stateless
    out crop: Crop rate up to 4 by n   out box: int32[2] rate up to 4 by n   python "tasks.py:find"
}
network Detect from "detect.onnx" { batch 8   in x: Image   out y: float32[1, 4] }
network Classify from "classify.onnx" { batch 8   in x: Crop   out y: float32[1, 4] }
task Show {
    in y: float32[1, 4] rate up to 4 by n   in box: int32[2] rate up to 4 by n   in image: Image
    out answer: int32[3]   on error skip   stateless   python "tasks.py:show"
}
app Service {
    batch up to 8 within 2 ms
    in image: uint8[3, 16, 16]   in tag: int32   out answer: int32[3]   out tagged: int32
    pre: Pre   detect: Detect   find: Find   classify: Classify   show: Show
    image -> pre -> detect -> find.y
    pre -> find.x
    find.crop -> classify -> show.y
    find.box -> show.box
    pre -> show.image
    show -> answer
    tag -> tagged
}
platform board { cpu core[2] }
"""
PINS = {
    "on one core": "mapping on board { " + " ".join(
        f"Service.{task} -> core[0]"
        for task in ("image", "tag", "answer", "tagged", "pre", "detect", "find", "classify", "show")
    ) + " }",
    "on two cores": "mapping on board { Service.classify -> core[1]   Service.show -> core[1]   Service.answer -> core[0] }",
    "in turn": "mapping on board { " + " ".join(
        f"Service.{task} -> core[0], core[1]" for task in ("pre", "detect", "find", "classify", "show")
    ) + " }",
}  # fmt: skip


def write_network(file: Path, size: int) -> None:
    """One matrix, for any number of images."""
    weights = np.random.default_rng(1).normal(0, 0.1, (size, 4)).astype(np.float32)
    side = round((size / 3) ** 0.5)
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], axis=1),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file
    )


def plainly(folder: Path) -> Callable[[int], list[int] | str]:
    """The answer to a request, without flowc: numbers, or why it fails."""
    names: dict[str, Any] = {}
    exec(TASKS, names)
    detect, classify = (
        onnxruntime.InferenceSession(folder / name, providers=["CPUExecutionProvider"])
        for name in ("detect.onnx", "classify.onnx")
    )

    def answer(number: int) -> list[int] | str:
        try:
            x = names["pre"](np.full((3, 16, 16), number, np.uint8))
            crops, boxes = names["find"](x, detect.run(None, {"x": x})[0])
            ys = [classify.run(None, {"x": crop})[0] for crop in crops]
            return [int(k) for k in names["show"](ys, boxes, x)]
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return answer


@pytest.fixture
def detector(write: Write, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Writes the text of a detector with these pins."""

    def of(pins: str) -> Path:
        flow = write(TEXT + PINS[pins], tasks_py=TASKS)
        write_network(flow.parent / "detect.onnx", 3 * 16 * 16)
        write_network(flow.parent / "classify.onnx", 3 * 4 * 4)
        return flow

    yield of


@pytest.mark.parametrize("pins", list(PINS))
def test_each_request_gets_its_own_answer(
    detector: Callable[[str], Path], pins: str, tmp_path: Path
) -> None:
    flow = detector(pins)
    wanted = plainly(flow.parent)
    rng = random.Random(7)
    with flowc.open(flow, tmp_path / "out", platform="board", measure=False) as service:

        def ask(tag: int) -> bool:
            number = rng.randrange(25)
            image = np.full((3, 16, 16), number, np.uint8)
            try:
                found = service.ask(image=image, tag=tag).result(HANGS)
            except service.Skipped as skipped:
                return skipped.reason == wanted(number)
            return found["tagged"] == tag and found["answer"].tolist() == wanted(number)

        with ThreadPoolExecutor(24) as pool:
            assert all(pool.map(ask, range(400)))
        report = service.report()
    assert report["tasks"]["Service.pre"]["firings"] == 400
    assert report["tasks"]["Service.show"]["firings"] == 400
    lists = report["tasks"]["Service.image"]["lists"]["image"]
    assert lists["limit"] == 8 and 1 < lists["mean"] <= lists["most"] <= 8
    assert report["apps"]["Service"]["frames"] == lists["written"] < 400


def test_a_recorded_batch_is_repeated(detector: Callable[[str], Path], tmp_path: Path) -> None:
    flow, file = detector("on one core"), tmp_path / "run.mcap"
    with flowc.open(
        flow, tmp_path / "out", platform="board", measure=False, record=file
    ) as service:
        images = [np.full((3, 16, 16), n, np.uint8) for n in range(12)]
        asked = [service.ask(image=image, tag=n) for n, image in enumerate(images)]
        for future in asked:
            future.result(HANGS)
    done = run(tmp_path / "out", "--replay", str(file))
    assert done.returncode == 0 and "equal, bit for bit" in done.stderr, done.stderr


@pytest.mark.parametrize("pins", ["on two cores", "in turn"])
def test_a_batch_equals_the_sequential_reference(
    detector: Callable[[str], Path], pins: str, tmp_path: Path
) -> None:
    out = flowc.build(detector(pins), tmp_path / "out", platform="board", measure=False).directory
    done = harness(out)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def plain(write: Write, tmp_path: Path) -> Callable[..., Any]:
    """Opens the plain service with this batch."""
    return lambda batch: flowc.open(
        write(PLAIN.replace("BATCH", batch), tasks_py=TWICE), tmp_path / "out", measure=False
    )


def test_a_lone_request_waits_for_no_others_for_longer_than_it_says(
    plain: Callable[..., Any],
) -> None:
    with plain("batch up to 8 within 0 ms") as service:
        assert service.ask(np.float32([1, 2, 5])).result(HANGS).tolist() == [2, 4, 10]


def test_ends_have_the_types_of_one_request(plain: Callable[..., Any]) -> None:
    with plain("batch up to 4 within 1 ms") as service:
        types = service.app("Plain").types
        assert types and set(types.values()) == {"float32[3]"}


def test_a_full_batch_waits_for_no_time(plain: Callable[..., Any]) -> None:
    with plain("batch up to 4 within 1000 s") as service:
        asked = [service.ask(np.float32([n, 0, 0])) for n in range(8) if n != 3]
        asked.append(service.ask(np.float32([8, 0, 0])))
        answers = [future.result(HANGS)[0] for future in asked]
        assert answers == [2 * n for n in range(9) if n != 3]
        lists = service.report()["tasks"]["Plain.x"]["lists"]["x"]
        assert (lists["written"], lists["mean"], lists["most"]) == (2, 4.0, 4)


def test_the_end_completes_a_batch(plain: Callable[..., Any]) -> None:
    """The inlet does not wait for requests that cannot come any more."""
    with plain("batch up to 4 within 1000 s") as service:
        asked: list[Future[Any]] = [service.ask(np.float32([n, 0, 0])) for n in (1, 2)]
        service.end()
        assert [future.result(HANGS)[0] for future in asked] == [2, 4]


def test_a_request_that_fails_spoils_no_others_of_its_batch(plain: Callable[..., Any]) -> None:
    with plain("batch up to 4 within 1000 s") as service:
        asked = [service.ask(np.float32([n, 0, 0])) for n in (1, 3, 5, 3)]
        assert asked[0].result(HANGS)[0] == 2 and asked[2].result(HANGS)[0] == 10
        for k in (1, 3):
            with pytest.raises(service.Skipped, match="three"):
                asked[k].result(HANGS)


def test_what_is_put_comes_out_in_order(plain: Callable[..., Any]) -> None:
    with plain("batch up to 4 within 1 ms") as service:
        found = []
        for n in range(4, 34):
            service.put(np.float32([n, 0, 0]))
            if n % 5 == 0:
                time.sleep(0.003)
        service.end()
        found = [result[0] for result in service]
    assert found == [2 * n for n in range(4, 34)]


def test_coroutines_share_batches(plain: Callable[..., Any]) -> None:
    with plain("batch up to 8 within 5 ms") as service:

        async def all_of_them() -> list[Any]:
            return await asyncio.gather(
                *(service.aask(np.float32([n, 0, 0])) for n in range(4, 104))
            )

        assert [y[0] for y in asyncio.run(all_of_them())] == [2 * n for n in range(4, 104)]
        assert service.report()["tasks"]["Plain.x"]["lists"]["x"]["most"] == 8
