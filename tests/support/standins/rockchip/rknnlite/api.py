"""The calls of rknn-toolkit-lite2 on what the stand-in for rknn-toolkit2 has converted. Each inference
is a line of the file that RKNN_CORES names: the mask of the core that it ran on."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from rknn.api import inferred, session


class RKNNLite:
    NPU_CORE_AUTO, NPU_CORE_0, NPU_CORE_1, NPU_CORE_2 = 0, 1, 2, 4

    def __init__(self, verbose: bool = False) -> None:
        self._loaded: dict[str, Any] = {}
        self._session: Any = None
        self._mask = 0

    def load_rknn(self, path: str) -> int:
        with open(path) as stream:
            self._loaded = json.load(stream)
        return 0

    def init_runtime(self, core_mask: int) -> int:
        if os.environ.get("RKNN_REFUSES"):
            return -1
        assert self._loaded
        self._mask = core_mask
        self._session = session(self._loaded)
        return 0

    def inference(self, inputs: list[np.ndarray], data_format: list[str]) -> list[np.ndarray]:
        with open(os.environ["RKNN_CORES"], "a") as stream:
            stream.write(f"{self._mask}\n")
        return inferred(self._session, self._loaded, inputs, data_format)

    def release(self) -> None:
        self._session = None
