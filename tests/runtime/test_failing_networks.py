"""`on error` in a network: what happens to the frames and requests in which it fails."""

from __future__ import annotations

from pathlib import Path

import flowc
import numpy as np
import pytest
from onnx import TensorProto

from builds import HANGS, Write, store_profile
from models import N, save

#: Of the table there are the rows 0 to 3: any other number fails.
SERVICE = """
network Pick from "pick.onnx" { in x: int64[1]   out y: float32[1, 2]   WORDS }
app A { BATCH   in x: int64[1]   out y: float32[1, 2]   pick: Pick   x -> pick -> y }
"""


def write_pick(folder: Path) -> None:
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    save(
        folder / "pick.onnx",
        [N("Gather", ["table", "x"], ["y"])],
        {"x": ["N"]},
        {"table": table},
        "y",
        {"x": TensorProto.INT64},
    )


@pytest.mark.parametrize(
    "words, batch",
    [
        ("batch 1   on error skip", ""),
        ("batch 1   on error restart", ""),
        ("batch 4   on error skip", "batch up to 4 within 1000 s"),
        ("batch 3   on error skip", "batch up to 4 within 1000 s"),
        ("batch 4   on error restart", "batch up to 4 within 1000 s"),
    ],
)
def test_a_network_leaves_out_the_requests_in_which_it_fails(
    write: Write, tmp_path: Path, words: str, batch: str
) -> None:
    flow = write(SERVICE.replace("WORDS", words).replace("BATCH", batch))
    write_pick(flow.parent)
    store_profile(flow)
    with flowc.open(flow, tmp_path / "out", measure=False) as service:
        asked = [service.ask(np.int64([n])) for n in (1, 7, 3, 9, 0, 2, 5, 8)]
        for k, wanted in ((0, 2), (2, 6), (4, 0), (5, 4)):
            assert asked[k].result(HANGS).tolist() == [[wanted, wanted + 1]]
        for k, number in ((1, 7), (3, 9), (6, 5), (7, 8)):
            with pytest.raises(service.Skipped, match=f"={number} "):
                asked[k].result(HANGS)
        assert service.report()["tasks"]["A.pick"]["failed"] == 4


def test_a_network_without_a_word_stops_the_program(write: Write, tmp_path: Path) -> None:
    flow = write(SERVICE.replace("WORDS", "batch 1").replace("BATCH", ""))
    write_pick(flow.parent)
    store_profile(flow)
    with (
        flowc.open(flow, tmp_path / "out", measure=False) as service,
        pytest.raises(service.Failed, match=r"A\.pick failed at firing 0"),
    ):
        service.ask(np.int64([7])).result(HANGS)
