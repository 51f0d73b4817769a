"""The GPU of this machine, through the library that is installed.

cuda-python (bindings of NVIDIA) is taken where it is there, else PyCUDA, which many Jetson images
carry.
"""

from __future__ import annotations

from functools import lru_cache

from .cuda import Cuda, CudaError
from .cuda_python import CudaPython
from .py_cuda import PyCuda


@lru_cache(maxsize=None)
def open_cuda() -> Cuda:
    """The GPU, through the library that is installed. Raises CudaError: none is there, or what to
    install."""
    missing = []
    for make in (CudaPython, PyCuda):
        try:
            return make()
        except ImportError as error:
            missing.append("%s (%s)" % (make.library, error))
    raise CudaError(
        "no CUDA library for Python is installed: pip install cuda-python, or pycuda (%s); "
        "--twin runs this program without a GPU" % "; ".join(missing)
    )
