"""Clock rates of the machine, as states want them: set through sysfs, read back, and given back at
the end.

In: the rates of pools of processors, and where sysfs is. Out: the same rates on the machine, or one
line about why not: then they stay as they are, and only the model knows them.
"""

from __future__ import annotations

import glob
import os
from typing import Dict, List, Sequence, Tuple

#: What the folders of clocks are called below `class/devfreq`, by kind of processor.
DEVICES = {"gpu": ("gv11b", "ga10b", "gp10b", "gpu"), "dla": ("nvdla", "dla")}

#: Of a pool: its kind, the rate that it is to have, and the highest one that it has, in Hz.
Wanted = Dict[str, Tuple[str, int, int]]


class RatesRefused(Exception):
    """Rates cannot be set; the message says why."""


class Knob:
    """One clock: files with the least and the highest rate that it may take, `unit` Hz each, and
    the rates it knows."""

    def __init__(self, folder: str, least: str, most: str, known: str, unit: int) -> None:
        self._least, self._most = os.path.join(folder, least), os.path.join(folder, most)
        self._unit = unit
        #: As it was found.
        self.before = self.limits()
        try:
            self.known = [int(word) * unit for word in _read(os.path.join(folder, known)).split()]
        except (OSError, ValueError):
            self.known = []  # it takes any between its limits

    def limits(self) -> Tuple[int, int]:
        """The least and the highest rate in Hz."""
        return int(_read(self._least)) * self._unit, int(_read(self._most)) * self._unit

    def hold(self, least: int, most: int) -> None:
        """Set both, in the order in which the least never passes the highest. Raises OSError."""
        both = [(self._least, least), (self._most, most)]
        for path, hz in reversed(both) if most > self.limits()[1] else both:
            with open(path, "w") as stream:
                stream.write("%d\n" % (hz // self._unit))


def _read(path: str) -> str:
    with open(path) as stream:
        return stream.read()


class Clocks:
    """The clocks of some pools below `root`. Nothing is written before `reach` or `lower` is
    called.

    Raises Refused where one cannot be found, or does not know a rate that some state wants.
    """

    name = "set"

    def __init__(self, states: Sequence[Wanted], root: str = "/sys") -> None:
        pools = {
            name: (kind, highest)
            for wanted in states
            for name, (kind, _, highest) in wanted.items()
        }
        self._knobs = {
            name: _knobs(root, kind, highest, pools) for name, (kind, highest) in pools.items()
        }
        self._now: Dict[str, int] = {}
        for wanted in states:
            for name, (_, hz, _) in wanted.items():
                if not self._knobs[name]:
                    raise RatesRefused("no clock of `%s` is to be found below %s" % (name, root))
                for knob in self._knobs[name]:
                    if knob.known and hz not in knob.known:
                        raise RatesRefused(
                            "a clock of `%s` has no rate of %g MHz" % (name, hz / 1e6)
                        )

    def reach(self, wanted: Wanted) -> None:
        """Make the clocks faster that are to be faster. Raises Refused."""
        self._set({name: hz for name, (_, hz, _) in wanted.items() if hz > self._now.get(name, 0)})

    def lower(self, wanted: Wanted) -> None:
        """The rates, slower ones too. Raises Refused."""
        self._set({name: hz for name, (_, hz, _) in wanted.items() if hz != self._now.get(name)})

    def _set(self, rates: Dict[str, int]) -> None:
        for name, hz in rates.items():
            for knob in self._knobs[name]:
                try:
                    knob.hold(hz, hz)
                    found = knob.limits()
                except (OSError, ValueError) as error:
                    said = getattr(error, "strerror", None) or error
                    raise RatesRefused(
                        "the clock of `%s` cannot be set: %s" % (name, said)
                    ) from None
                if found != (hz, hz):
                    least, most = (limit / 1e6 for limit in found)
                    raise RatesRefused(
                        "the clock of `%s` stays between %g and %g MHz" % (name, least, most)
                    )
            self._now[name] = hz

    def restore(self) -> None:
        """As everything was found; whatever cannot be set again stays."""
        for knob in (k for knobs in self._knobs.values() for k in knobs):
            try:
                if knob.limits() != knob.before:
                    knob.hold(*knob.before)
            except (OSError, ValueError):
                pass


class EmulatedClocks:
    """Emulated clocks: a worker that has computed at the highest rate waits for as long as a slower
    one takes.

    That shows which deadlines hold. A core is free meanwhile, and memory as fast as ever.
    """

    name = "emulate"

    def __init__(self) -> None:
        #: How many times as long work takes, by pool.
        self.factors: Dict[str, float] = {}

    def reach(self, wanted: Wanted) -> None:
        """Make the clocks faster that are to be faster."""
        for pool, factor in _factors(wanted).items():
            self.factors[pool] = min(factor, self.factors.get(pool, factor))

    def lower(self, wanted: Wanted) -> None:
        """The rates, slower ones too."""
        self.factors = {**self.factors, **_factors(wanted)}

    def restore(self) -> None:
        """There is nothing to be given back."""


def _factors(wanted: Wanted) -> Dict[str, float]:
    return {pool: highest / hz for pool, (_, hz, highest) in wanted.items()}


def _knobs(root: str, kind: str, highest: int, pools: Dict[str, Tuple[str, int]]) -> List[Knob]:
    """The clocks of a pool. Several pools of CPUs are told apart by their highest rates."""
    if kind != "cpu":
        folders = sorted(glob.glob(os.path.join(root, "class/devfreq/*")))
        own = [
            f for f in folders if any(word in os.path.basename(f) for word in DEVICES.get(kind, ()))
        ]
        return [Knob(folder, "min_freq", "max_freq", "available_frequencies", 1) for folder in own]
    folders = sorted(glob.glob(os.path.join(root, "devices/system/cpu/cpufreq/policy*")))
    if sum(k == "cpu" for k, _ in pools.values()) > 1:
        folders = [
            f for f in folders if int(_read(os.path.join(f, "cpuinfo_max_freq"))) * 1000 == highest
        ]
    return [
        Knob(folder, "scaling_min_freq", "scaling_max_freq", "scaling_available_frequencies", 1000)
        for folder in folders
    ]
