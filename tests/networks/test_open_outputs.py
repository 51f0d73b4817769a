"""Networks whose outputs have a size that depends on data."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from builds import Write, build, run
from models import N, save


def write_finder(file: Path, shape: list[object]) -> None:
    """Where a matrix is not 0: a row for each place."""
    nodes = [N("NonZero", ["x"], ["found"]), N("Transpose", ["found"], ["places"])]
    save(file, nodes, {"x": shape}, {}, "places", {"places": TensorProto.INT64})


@pytest.mark.parametrize(("core", "rate"), [(0, 1), (1, 1), (1, 4)])
def test_a_size_that_changes_later_is_the_fault_of_the_network(
    write: Write, tmp_path: Path, core: int, rate: int
) -> None:
    """In one worker, in two, and in batches: a declared size is held to at every firing."""
    write_finder(tmp_path / "find.onnx", ["n", 2])
    text = f"""
        network Find from "find.onnx" {{ in x: float32[1, 2]   out places: int64[1, 2]   batch {rate} }}
        task Camera {{ out x: float32[1, 2] rate {rate}   python "t.py:Camera" }}
        task Keep {{ in places: int64[1, 2]   python "t.py:keep" }}
        app A {{ camera: Camera   net: Find   keep: Keep   camera -> net -> keep }}
        platform two {{ cpu core[2] }}
        mapping on two {{ A.camera -> core[0]   A.net -> core[{core}]   A.keep -> core[0] }}
    """
    code = f"""
import numpy as np
class Camera:
    "One number of each row is not 0, but of row 6 both."
    def __init__(self): self.n = 0
    def __call__(self):
        rows = range(self.n, self.n + {rate})
        self.n += {rate}
        made = np.array([[[1, n == 6]] for n in rows], np.float32)
        return made if len(made) > 1 else made[0]
def keep(places): print("kept", places.shape)
"""
    done = run(build(write(text, t_py=code), tmp_path / "out", platform="two"))
    assert done.returncode == 1
    firing, found = (4, 5) if rate > 1 else (6, 2)
    said = (
        f"task A.net failed at firing {firing}: returned int64[{found}, 2] for port `places`, which is int64[{rate}, 2]"
    )
    assert said in done.stderr
