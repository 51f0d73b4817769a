"""The calls of rknn-toolkit2: they return 0 or raise, and are refused in another order than that of
its documentation. A converted network is its model with the names and shapes of its tensors."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import onnxruntime


class RKNN:
    def __init__(self, verbose: bool = False) -> None:
        self._target = ""
        self._loaded: dict[str, Any] = {}
        self._built = False
        self._session: Any = None

    def config(self, target_platform: str) -> int:
        self._target = target_platform
        return 0

    def load_onnx(
        self, model: str, inputs: list[str], input_size_list: list[list[int]], outputs: list[str]
    ) -> int:
        assert self._target == "rk3588"
        if os.environ.get("RKNN_REFUSES"):
            raise ValueError("Traceback\nValueError: Not support 'Foo' of opset-9!")
        print("noise of the toolkit")
        self._loaded = {"model": model, "inputs": inputs, "outputs": outputs}
        self._loaded["shapes"] = input_size_list
        return 0

    def build(self, do_quantization: bool) -> int:
        assert self._loaded and not do_quantization
        self._built = True
        return 0

    def export_rknn(self, path: str) -> int:
        assert self._built and path.endswith(".rknn")
        with open(path, "w") as stream:
            json.dump(self._loaded, stream)
        return 0

    def init_runtime(self) -> int:
        assert self._built
        self._session = session(self._loaded)
        return 0

    def inference(self, inputs: list[np.ndarray], data_format: list[str]) -> list[np.ndarray]:
        return inferred(self._session, self._loaded, inputs, data_format)

    def release(self) -> None:
        self._session = None


def session(loaded: dict[str, Any]) -> Any:
    """A session of the model."""
    return onnxruntime.InferenceSession(loaded["model"], providers=["CPUExecutionProvider"])


def inferred(
    session_: Any, loaded: dict[str, Any], inputs: list[np.ndarray], data_format: list[str]
) -> list[np.ndarray]:
    """An inference, with inputs by position, in the layout of ONNX."""
    assert data_format == ["nchw"] * len(inputs)
    assert [list(a.shape) for a in inputs] == loaded["shapes"]
    assert all(a.flags.c_contiguous for a in inputs)
    made: list[np.ndarray] = session_.run(
        loaded["outputs"], dict(zip(loaded["inputs"], inputs, strict=True))
    )
    return made
