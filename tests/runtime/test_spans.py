"""Frames as spans of OpenTelemetry, as its exporters see them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest

from builds import Write
from limits import HANGS
from request_texts import PLAIN, TWICE

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Iterator[Any]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test")
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> list[Any]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_a_frame_is_in_the_span_of_its_request(
    write: Write, tmp_path: Path, tracer: Any, exporter: InMemorySpanExporter
) -> None:
    flow = write(PLAIN.replace("BATCH", ""), tasks_py=TWICE)

    async def request(service: Any, n: int) -> None:
        with tracer.start_as_current_span(f"request {n}"):
            await asyncio.wait_for(service.aask(np.float32([n, 0, 0])), HANGS)

    async def requests(service: Any) -> None:
        asked = [request(service, n) for n in (1, 3, 5)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(failure, service.Skipped) for failure in failures] == [
            False,
            True,
            False,
        ]

    with flowc.open(flow, tmp_path / "out", measure=False, spans=tracer) as service:
        asyncio.run(requests(service))
    frames = named(exporter, "Plain")
    assert [frame.attributes["flowc.frame"] for frame in frames] == [0, 1, 2]
    for frame, n in zip(frames, (1, 3, 5), strict=True):
        (caller,) = named(exporter, f"request {n}")
        assert frame.parent.span_id == caller.context.span_id
        assert caller.start_time <= frame.start_time <= frame.end_time
    firings = named(exporter, "Plain.twice")
    assert [f.parent.span_id for f in firings] == [f.context.span_id for f in frames]
    assert all(f.start_time <= f.end_time for f in firings)
    assert all(f.attributes["flowc.processor"].startswith("cpu[") for f in firings)


def test_a_batch_is_linked_with_the_spans_of_its_requests(
    write: Write, tmp_path: Path, tracer: Any, exporter: InMemorySpanExporter
) -> None:
    flow = write(PLAIN.replace("BATCH", "batch up to 4 within 1000 s"), tasks_py=TWICE)
    with flowc.open(flow, tmp_path / "out", measure=False, spans=tracer) as service:
        asked = []
        for n in range(4, 12):
            with tracer.start_as_current_span(f"request {n}"):
                asked.append(service.ask(np.float32([n, 0, 0])))
        service.end()
    for frame, numbers in zip(named(exporter, "Plain"), (range(4, 8), range(8, 12)), strict=True):
        callers = [named(exporter, f"request {n}")[0].context.span_id for n in numbers]
        assert [link.context.span_id for link in frame.links] == callers
        inside = [
            span
            for span in named(exporter, "Plain.twice")
            if span.parent.span_id == frame.context.span_id
        ]
        assert sum(span.attributes["flowc.firings"] for span in inside) == 4


def test_an_exporter_that_fails_spoils_no_answer(
    write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def start_span(self, *_: Any, **__: Any) -> Any:
            raise OSError("no collector")

    flow = write(PLAIN.replace("BATCH", ""), tasks_py=TWICE)
    with flowc.open(flow, tmp_path / "out", measure=False, spans=Broken()) as service:
        assert service.ask(np.float32([1, 0, 0])).result(HANGS)[0] == 2
    assert "a frame has no spans: OSError: no collector" in caplog.text
    assert "frames without spans: 1" in caplog.text
