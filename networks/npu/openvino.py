"""OpenVINO on Intel's NPUs: what it takes.

Its compiler is a part of the driver of the NPU, so which operators it takes is known on that
machine alone; shapes have to be fixed. It computes in fp16, and in 8 bits what the file has so
(OpenVINO's documentation, "NPU Device").
"""

from __future__ import annotations

from .engine import NpuEngine

ENGINE = NpuEngine(
    "openvino",
    "OpenVINO",
    "openvino",
    "pip install 'flowc[openvino]'",
    "twins of programs for Intel NPUs",
    ("int8", "fp16"),
    None,
)
