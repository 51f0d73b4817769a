"""What the machine takes: read from a meter where there is one, else by the model of the platform.

In: where sysfs is, and for each state the mean power that it has by the model. Out: joules by state.
"""

from __future__ import annotations

import glob
import os
import threading
import time
from typing import Dict, List, Optional, Tuple, Type, Union

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
    """The energy counters of processor packages. Only root may read them on most machines; they begin again at 0."""

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
                rail = tuple(os.path.join(folder, what % number) for what in ("in%d_input", "curr%d_input"))
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


class Power(threading.Thread):
    """Counts joules for whatever state the program is in. `source` is the meter's name, or `model`."""

    def __init__(self, root: str = "/sys") -> None:
        threading.Thread.__init__(self, name="power", daemon=True)
        self.joules: Dict[str, float] = {}
        self._meter = _meter(root)
        self._state: Optional[Tuple[str, Optional[float]]] = None
        self._since = time.perf_counter()
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def source(self) -> str:
        """Where joules come from."""
        return "model" if self._meter is None else self._meter.name

    def run(self) -> None:
        while self._meter is not None and not self._over.wait(TICK):
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
            if self._meter is not None:
                try:
                    spent = self._meter.joules(seconds)
                except (OSError, ValueError):
                    self._meter = None  # it has gone: the rest is by the model
            if self._state is not None and spent is not None:
                name = self._state[0]
                self.joules[name] = self.joules.get(name, 0.0) + spent


def _meter(root: str) -> Optional[Union[Rapl, Ina3221]]:
    kinds: Tuple[Type[Union[Rapl, Ina3221]], ...] = (Rapl, Ina3221)
    for kind in kinds:
        try:
            meter = kind(root)
        except (OSError, ValueError):
            continue  # not for us to read
        if meter.there:
            return meter
    return None
