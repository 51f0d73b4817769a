"""What the machine takes: read from meters where there are some, else by the model of the platform.

In: where sysfs is, whether the program works on a GPU, and for each state the mean power that it
has by the model. Out: joules by state.
"""

from __future__ import annotations

import ctypes
import glob
import os
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

#: Seconds between two looks at a meter: power in between counts as the mean of both.
TICK = 0.1
#: The rail that all others are behind, where a board has it.
WHOLE = "VDD_IN"


def _number(path: str) -> int:
    with open(path) as stream:
        return int(stream.read())


def _word(path: str) -> str:
    """What a file says; nothing where there is none."""
    try:
        with open(path) as stream:
            return stream.read().strip()
    except FileNotFoundError:
        return ""


class Rapl:
    """The energy counters of processor packages. Only root may read them on most machines; they
    begin again at 0."""

    name = "rapl"

    def __init__(self, root: str) -> None:
        self._counters: List[Tuple[str, int]] = []
        for folder in sorted(glob.glob(os.path.join(root, "class/powercap/intel-rapl:*"))):
            if _word(os.path.join(folder, "name")).startswith("package"):
                path = os.path.join(folder, "energy_uj")
                self._counters.append((path, _number(os.path.join(folder, "max_energy_range_uj"))))
        self._last = [_number(path) for path, _ in self._counters]

    @property
    def there(self) -> bool:
        """Is there anything to read?"""
        return bool(self._counters)

    def joules(self, seconds: float) -> float:
        """Since it was last asked."""
        total = 0
        for n, (path, wraps) in enumerate(self._counters):
            now = _number(path)
            total += now - self._last[n] + (wraps if now < self._last[n] else 0)
            self._last[n] = now
        return total / 1e6


class Ina3221:
    """Voltages and currents of a board's rails."""

    name = "ina3221"

    def __init__(self, root: str) -> None:
        self._rails: List[Tuple[str, str]] = []
        whole: List[Tuple[str, str]] = []
        for folder in sorted(glob.glob(os.path.join(root, "class/hwmon/hwmon*"))):
            if _word(os.path.join(folder, "name")) != self.name:
                continue
            for number in range(1, 4):
                rail = tuple(
                    os.path.join(folder, what % number) for what in ("in%d_input", "curr%d_input")
                )
                if all(os.path.exists(path) for path in rail):
                    self._rails.append((rail[0], rail[1]))
                    if _word(os.path.join(folder, "in%d_label" % number)) == WHOLE:
                        whole.append(self._rails[-1])
        self._rails = whole or self._rails
        self._last = self._watts()

    @property
    def there(self) -> bool:
        """Is there anything to read?"""
        return bool(self._rails)

    def _watts(self) -> float:
        return sum(_number(volts) * _number(amperes) for volts, amperes in self._rails) / 1e6

    def joules(self, seconds: float) -> float:
        """Since it was last asked, so many seconds ago."""
        last, self._last = self._last, self._watts()
        return (last + self._last) / 2 * seconds


class Nvml:
    """NVIDIA's GPUs, by the library of their driver: counters of energy, or where there are none
    what they take now.

    Numbers and names are those of nvml.h. On a Jetson the library knows of no power.
    """

    name = "nvml"
    library = "libnvidia-ml.so.1"

    def __init__(self, root: str) -> None:
        self._gpus: List[Any] = []
        self._counted = True
        try:
            self._nvml = ctypes.CDLL(self.library)
        except OSError:  # there is no such driver
            return
        self._call("nvmlInit_v2")
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for index in range(count.value):
            gpu = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(gpu))
            self._gpus.append(gpu)
        try:
            self._last = self._millijoules()
        except OSError:  # counters came with Volta
            self._counted = False
            self._last = self._milliwatts()

    def _call(self, name: str, *arguments: Any) -> None:
        """Raises OSError, also where the library is too old to know of it."""
        function = getattr(self._nvml, name, None)
        status = "unknown" if function is None else function(*arguments)
        if status:
            raise OSError("%s: %s" % (name, status))

    @property
    def there(self) -> bool:
        """Is there anything to read?"""
        return bool(self._gpus)

    def _millijoules(self) -> float:
        return self._sum("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)

    def _milliwatts(self) -> float:
        return self._sum("nvmlDeviceGetPowerUsage", ctypes.c_uint)

    def _sum(self, name: str, kind: Any) -> float:
        total = 0
        for gpu in self._gpus:
            value = kind()
            self._call(name, gpu, ctypes.byref(value))
            total += value.value
        return total

    def joules(self, seconds: float) -> float:
        """Since it was last asked, so many seconds ago."""
        last = self._last
        self._last = self._millijoules() if self._counted else self._milliwatts()
        return (self._last - last if self._counted else (last + self._last) / 2 * seconds) / 1e3


Meter = Union[Rapl, Ina3221, Nvml]


class Power(threading.Thread):
    """Counts joules for whatever state the program is in. `source` has the names of the meters, or
    `model`.

    With a `gpu` that one counts as well.
    """

    def __init__(self, root: str = "/sys", gpu: bool = False) -> None:
        threading.Thread.__init__(self, name="power", daemon=True)
        self.joules: Dict[str, float] = {}
        self._meters = meters(root, gpu)
        self._state: Optional[Tuple[str, Optional[float]]] = None
        self._since = time.perf_counter()
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def source(self) -> str:
        """Where joules come from."""
        return " + ".join(meter.name for meter in self._meters) or "model"

    def run(self) -> None:
        while self._meters and not self._over.wait(TICK):
            self._count()

    def enter(self, state: str, energy_mw: Optional[float]) -> None:
        """What comes now is for that state, which takes so much by the model (None = not known)."""
        self._count()
        self._state = state, energy_mw

    def end(self) -> None:
        """Count what is left, and stop."""
        self._over.set()
        self._count()
        self._state = None

    def _count(self) -> None:
        with self._lock:
            now = time.perf_counter()
            seconds, self._since = now - self._since, now
            watts = None if self._state is None or self._state[1] is None else self._state[1] / 1000
            spent: Optional[float] = None if watts is None else watts * seconds
            if self._meters:
                try:
                    spent = sum(meter.joules(seconds) for meter in self._meters)
                except (OSError, ValueError):
                    self._meters = []  # one of them has gone: the rest is by the model
            if self._state is not None and spent is not None:
                name = self._state[0]
                self.joules[name] = self.joules.get(name, 0.0) + spent


def meters(root: str, gpu: bool) -> Sequence[Meter]:
    """The board, or the packages of its processors; and GPUs that are no part of these."""
    board: Tuple[Type[Meter], ...] = (Rapl, Ina3221)
    return [*_first(root, board), *(_first(root, (Nvml,)) if gpu else ())]


def _first(root: str, kinds: Sequence[Type[Meter]]) -> List[Meter]:
    """The first that can be read."""
    for kind in kinds:
        try:
            meter = kind(root)
        except (OSError, ValueError):  # not for us to read
            continue
        if meter.there:
            return [meter]
    return []
