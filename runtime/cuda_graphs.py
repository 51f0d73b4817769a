"""CUDA graphs of firings: work that is recorded once and started as a whole.

A graph contains the addresses of its tokens:
a worker has one for each combination of addresses.
"""

from __future__ import annotations

from typing import Callable, Dict, Sequence, Tuple

from .cuda import CudaError, DeviceGraph, DeviceStream

#: Graphs that a worker keeps of one task.
MOST_GRAPHS = 512


class CudaGraphs:
    """The graphs of one task in one worker.

    `rehearse`: TensorRT prepares a context for new addresses in an ordinary run,
    and only the run after it can be recorded.
    """

    def __init__(self, rehearse: bool = False) -> None:
        self._rehearse = rehearse
        self._graphs: Dict[Tuple[int, ...], DeviceGraph] = {}

    def run(self, stream: DeviceStream, addresses: Sequence[int], work: Callable[[], None]) -> None:
        """Put work into the stream that depends on these addresses alone. Raises CudaError."""
        key = tuple(addresses)
        if key in self._graphs:
            self._graphs[key].launch(stream)
            return
        if len(self._graphs) >= MOST_GRAPHS:
            work()
            return
        if self._rehearse:
            work()
            self._record(stream, key, work)
        elif self._record(stream, key, work):
            self._graphs[key].launch(stream)
        else:
            work()

    def _record(self, stream: DeviceStream, key: Tuple[int, ...], work: Callable[[], None]) -> bool:
        """Record work. False where the library cannot."""
        if not stream.begin_capture():
            return False
        try:
            work()
        except BaseException as error:
            stream.drop_capture()
            if not isinstance(error, CudaError):
                raise
            raise CudaError("%s, in a graph: leave `graph` out of its pin" % error) from error
        self._graphs[key] = stream.end_capture()
        return True
