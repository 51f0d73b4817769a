"""Which kind of code serves a task on which kind of processor, and which package it asks for."""

from __future__ import annotations

from typing import Any

import flowc
import pytest
from flowc.codegen.kinds import KINDS, CodeSite, made_for
from flowc.codegen.libraries import cuda_python, distinct, onnxruntime, onnxruntime_gpu
from flowc.codegen.sources import Sources
from flowc.model.application import Task
from flowc.model.mapping import Placement
from flowc.model.platform import Platform, Pool

from builds import ROOT


@pytest.fixture(scope="module")
def task() -> Task:
    """A task with a network."""
    app = flowc.load(ROOT / "examples" / "digits" / "digits.flow").apps[0]
    return next(task for task in app.tasks if task.network is not None)


def site(kind: Any, tensorrt: tuple[int, ...] = ()) -> CodeSite:
    """On the only processor of a platform."""
    pool = Pool("core", kind, 1, False, "fifo")
    platform = Platform("board", (pool,), (), "", None, tensorrt=tensorrt)
    place = Placement("", pool.processors)
    sources = Sources(ROOT / "examples" / "digits")
    return CodeSite(platform, place, sources, lambda path: (), {}, alone=True, batch=1)


@pytest.mark.parametrize(
    ("processor", "tensorrt", "word"),
    [
        ("cpu", (), "Network"),
        ("gpu", (), "OnnxCuda"),
        ("gpu", (10, 3), "TensorRT"),
        ("dla", (10, 3), "TensorRT"),
    ],
)
def test_networks_by_processor(
    task: Task, processor: str, tensorrt: tuple[int, ...], word: str
) -> None:
    code = made_for(task, site(processor, tensorrt))
    assert code.words == {word}
    assert code.on_device == (processor != "cpu")
    assert (
        type(code.memory).__name__
        == {
            "Network": "CpuMemory",
            "OnnxCuda": "NoneType",
            "TensorRT": "DeviceMemory",
        }[word]
    )


@pytest.mark.parametrize("tensorrt", [(), (10, 3)])
def test_a_kind_of_processor_that_no_engine_names_gets_none(
    task: Task, tensorrt: tuple[int, ...]
) -> None:
    with pytest.raises(LookupError, match="on a npu"):
        made_for(task, site("npu", tensorrt))


def test_each_kind_names_its_processors() -> None:
    assert all(kind.processors for kind in KINDS)
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_a_package_that_contains_another_replaces_it() -> None:
    cuda = cuda_python()
    needed = [cuda, onnxruntime(), onnxruntime_gpu(), cuda]
    assert [library.name for library in distinct(needed)] == ["onnxruntime-gpu", cuda.name]
