"""Measuring the power of a platform's CPUs: `profile --power`.

In: a text with its platform, and a machine with a meter. Out: the numbers that a platform states,
`idle`, `busy` and `power`, with their intervals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...machines.host import HERE, Host, last_words
from ...model.diagnostic import Diagnostic, Errors, listed
from ...model.platform import Platform, Pool
from ...profiling.power import Fitted, PowerFit, fitted
from ..text.check import Report, prepare

#: Every step is measured so many times.
BLOCKS = 3
#: What the model may leave of the mean power, and how far a number may be off, before a warning.
LEFT, OFF = 0.05, 0.3


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """The power of the CPUs of a platform; `rates` are those in Hz that were measured, by pool."""

    platform: Platform
    pools: tuple[Pool, ...]
    rates: dict[str, tuple[int, ...]]
    fit: PowerFit
    diagnostics: tuple[Diagnostic, ...]

    @property
    def in_words(self) -> list[str]:
        """What the platform states then."""
        lines = []
        for pool in self.pools:
            rates = self.rates[pool.name]
            words = f"{pool.kind} {pool.name}"
            if rates:
                words += f" frequencies [{', '.join(f'{hz / 1e6:g}' for hz in rates)}] MHz"
            idle, busy = (_row(of[pool.name]) for of in (self.fit.idle, self.fit.busy))
            lines.append(f"{words} idle {idle} W busy {busy} W")
        return [*lines, f"power {max(0.0, self.fit.board.watts):.3f} W"]


def _row(numbers: tuple[Fitted, ...]) -> str:
    watts = [f"{max(0.0, number.watts):.3f}" for number in numbers]
    return watts[0] if len(watts) == 1 else f"[{', '.join(watts)}]"


def measure_power(
    path: str | Path,
    *,
    platform: str = "host",
    host: Host = HERE,
    seconds: float = 5.0,
    meter: str = "",
    root: str = "/sys",
    report: Report | None = None,
) -> MeasuredPower:
    """Let CPUs of each pool work at each rate, and fit the model to what the machine takes: `meter`
    is a command that prints watts, else the machine's own meters are read below `root`.

    Every step lasts so many seconds. Raises Errors (F663).
    """
    valid = prepare(path, platform=platform, mapped=False, host=host).require()
    board = valid.platform
    pools = tuple(pool for pool in board.pools if pool.kind == "cpu")
    request = {
        "pools": [
            {
                "name": pool.name,
                "cores": [board.cores[p] for p in pool.processors],
                "rates": [round(hz) for hz in pool.frequencies_hz],
            }
            for pool in pools
        ],
        "seconds": seconds,
        "blocks": BLOCKS,
        "seed": 0,
        "meter": meter,
        "root": root,
    }
    if report is not None:
        steps = 1 + sum(3 * max(1, len(pool.frequencies_hz)) for pool in pools)
        report(f"measuring power for about {steps * BLOCKS * (seconds + 0.3):.0f} s")
    said = metered(host, "power", request)
    rates = {pool.name: tuple(round(hz) for hz in pool.frequencies_hz) for pool in pools}
    warnings = [*_not_measured(board)]
    if said["refused"]:
        rates = dict.fromkeys(rates, ())
        message = f"clocks stay as they are, and so only these were measured: {said['refused']}"
        help_text = "run it as root, on a machine with the clocks of the platform"
        warnings.append(_warning(message, help_text))
    sizes = [(pool.name, pool.count, max(1, len(rates[pool.name]))) for pool in pools]
    fit = fitted(said["rows"], sizes, BLOCKS)
    return MeasuredPower(board, pools, rates, fit, (*warnings, *_doubts(fit)))


def metered(host: Host, module: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a module of `profiling.there` that reads a meter. Raises Errors (F663)."""
    done = host.module(f"profiling.there.{module}", [json.dumps(request)])
    if done.status:
        raise _not_to_be_measured(last_words(done.stderr) or f"status {done.status}")
    said: dict[str, Any] = json.loads(done.stdout)
    if "error" in said:
        raise _not_to_be_measured(said["error"])
    return said


def _not_to_be_measured(why: str) -> Errors:
    help_text = "`--meter CMD` is a command that prints what the machine takes, in watts"
    return Errors([Diagnostic("F663", f"power cannot be measured: {why}", None, help=help_text)])


def _warning(message: str, help_text: str) -> Diagnostic:
    return Diagnostic("F663", message, None, help=help_text, severity="warning")


def _not_measured(board: Platform) -> list[Diagnostic]:
    """Accelerators, which no loop of flowc keeps busy."""
    others = [pool.name for pool in board.pools if pool.kind not in ("cpu", "link")]
    if not others:
        return []
    message = f"only CPUs are measured: {listed(others)} count as part of the board"
    return [_warning(message, "state `idle` and `busy` of the others by their data sheets")]


def _doubts(fit: PowerFit) -> list[Diagnostic]:
    found = []
    if fit.residual > LEFT:
        message = f"the model leaves {fit.residual:.0%} of the power: CPUs do not add up"
        found.append(_warning(message, "let nothing else run, and measure for longer"))
    wide = [
        name
        for name, numbers in fit.busy.items()
        if any(number.off > OFF * abs(number.watts) for number in numbers)
    ]
    if wide:
        message = f"the power of a busy CPU of {listed(wide)} may be off by more than {OFF:.0%}"
        found.append(_warning(message, "measure for longer: `--seconds 30`"))
    return found
