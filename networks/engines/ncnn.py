"""ncnn on CPUs, for boards with Arm cores: what it takes.

Its tensors have no batch: the first dimension of each input and output is 1, and pnnx, which
converts a file, finds out along which one a network works on each sample alone. So what it makes is
known when a program is built, and compared with ONNX Runtime there.
"""

from __future__ import annotations

from ...model.application import Network
from .engine import Engine, Refusal

REMEDY = "leave `engine` out: ONNX Runtime runs it"
#: ncnn's tensors have at most four dimensions, behind that of the batch.
MOST_DIMENSIONS = 5


def _refusal(network: Network) -> Refusal | None:
    """See `Engine.refusal`."""
    if network.library:
        return "it has operators of a library for ONNX Runtime", REMEDY
    if network.one_piece:
        return f"it has {network.one_piece}, which only ONNX Runtime is known to run", REMEDY
    if network.external:
        return "its weights are in files of their own", REMEDY
    if network.batch > 1:
        return f"it groups {network.batch} firings, and ncnn has no batches", REMEDY
    for tensor in (*network.inputs, *network.outputs):
        if tensor.type.open or tensor.type.bounded:
            return f"it has a {tensor.type}, and ncnn gets fixed sizes here", REMEDY
        if tensor.type.dtype != "float32":
            return f"`{tensor.name}` is {tensor.type.dtype}, and ncnn has float32", REMEDY
        shape = tensor.type.shape
        if not 2 <= len(shape) <= MOST_DIMENSIONS or shape[0] != 1:
            dimensions = ", ".join(map(str, shape))
            return f"`{tensor.name}` is [{dimensions}], and ncnn has one sample, [1, ...]", REMEDY
    return None


ENGINE = Engine(
    "ncnn",
    "ncnn",
    ("ncnn",),
    "pip install 'flowc[ncnn]' && pip install --no-deps pnnx",
    "ncnn",
    "`engine ncnn` of networks on CPUs (BSD-3-Clause, 10 MB, pnnx 80 MB)",
    "Ncnn",
    ("fp32",),
    _refusal,
    made_for="aarch64",
)
