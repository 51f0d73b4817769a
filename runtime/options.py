"""The options of a program: what `main.py`, `flowc run` and the Python face understand, each said
once.

A new option is a field of `RunOptions`, and what the program does about it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, fields, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

#: The variable of the environment that has settings of parameters, with `;` between.
SETTINGS = "FLOWC_SET"


def count(text: str) -> int:
    """A number that is not negative. Raises ValueError."""
    value = int(text)
    if value < 0:
        raise ValueError("must not be negative")
    return value


def duration(text: str) -> float:
    """A time in seconds. Raises ValueError."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError("must be a number of seconds, 0 or more")
    return value


def frames_of(text: str) -> Tuple[int, Optional[int]]:
    """`100:120`, `100:` or `:20` as the first frame and the one behind the last. Raises
    ValueError."""
    first, colon, last = text.partition(":")
    found = int(first or 0), int(last) if last else None
    if not colon or found[0] < 0 or (found[1] is not None and found[1] <= found[0]):
        raise ValueError("`%s` is no range of frames: write `100:120`, `100:` or `:20`" % text)
    return found


def range_of_frames(text: str) -> str:
    """A range of frames such as `100:120`, as it was written. Raises ValueError."""
    frames_of(text)
    return text


def _option(
    about: str,
    metavar: str = "",
    *,
    default: Any = None,
    name: str = "",
    parse: Callable[[str], Any] = str,
    choices: Sequence[str] = (),
    alone: bool = False,
) -> Any:
    """A field: its description, the word for its value (none: a flag), and its name where that is
    not the field's.

    `parse` raises ValueError. An option that is about one machine `alone` is no option of a program
    in parts.
    """
    return field(
        default=default,
        metadata={
            "about": about,
            "metavar": metavar,
            "name": name,
            "parse": parse,
            "choices": tuple(choices),
            "alone": alone,
        },
    )


def flight(text: str) -> str:
    """What a flight recorder keeps: `60s`, or `60s:FILE`. Raises ValueError."""
    length = text.partition(":")[0]
    if not length.endswith("s") or not 0.1 <= float(length[:-1]) <= 3600:
        raise ValueError("no seconds")
    return text


class Mistake(Exception):
    """The program cannot be run so; the message says why."""


@dataclass(frozen=True)
class RunOptions:
    """How a program is to run."""

    frames: Optional[int] = _option("stop after N iterations of each app", "N", parse=count)
    seconds: Optional[float] = _option(
        "begin no frames after S seconds, and finish those that have begun", "S", parse=duration
    )
    full_speed: bool = _option("ignore periods: run as fast as data allows", default=False)
    strict: bool = _option("wait after each kernel on a GPU: failures name it", default=False)
    twin: bool = _option("let CPU threads play GPU, DLAs and NPUs", default=False, alone=True)
    fail_on_miss: bool = _option(
        "exit with status 1 if a deadline was missed, or a frame of an app with deadlines was left"
        " out after an error: it is late for ever",
        default=False,
    )
    settings: Sequence[str] = _option(
        "start with another value of a parameter; may be repeated (%s has several, with `;`"
        " between)" % SETTINGS,
        "APP.TASK.NAME=VALUE",
        default=(),
        name="set",
    )
    trace: Optional[str] = _option("write a trace for ui.perfetto.dev", "FILE", alone=True)
    trace_frames: Optional[str] = _option(
        "only frames A to B - 1 of each app are in the trace",
        "A:B",
        parse=range_of_frames,
        alone=True,
    )
    trace_bands: bool = _option(
        "units of bands of rows are in the trace, too", default=False, alone=True
    )
    flight_recorder: Optional[str] = _option(
        "keep the last seconds of a trace, and write them when a deadline is missed or the program"
        " fails, but not when its process crashes (to flight-recorder.json)",
        "60s[:FILE]",
        parse=flight,
        alone=True,
    )
    report_to: Optional[str] = _option("write the measurements as JSON", "FILE", name="report")
    table: Optional[str] = _option(
        "write the table to FILE instead of standard output", "FILE", alone=True
    )
    live: Optional[int] = _option(
        "write a line of JSON to this file descriptor every half second",
        "FD",
        parse=count,
        alone=True,
    )
    start: Optional[str] = _option("begin in that state", "STATE", alone=True)
    events: Optional[str] = _option(
        "raise the events of a file: lines `2.5 s EVENT`, or `120 APP EVENT`", "FILE", alone=True
    )
    control: Optional[str] = _option(
        "raise the events that come in at a Unix datagram socket", "PATH", alone=True
    )
    record: Optional[str] = _option(
        "write what channels carry, and what was decided, to an MCAP file", "FILE"
    )
    channels: Optional[str] = _option("record only these channels: `cam.image,plan.*`", "NAMES")
    replay: Optional[str] = _option(
        "do again what a recording has, and compare; or feed sources from a bag of ROS 2; or change"
        " states as a report says",
        "FILE",
        alone=True,
    )
    clocks: str = _option(
        "`set` the clock rates that the mapping has chosen for states, leave them as they are"
        " (`model`), or wait after each firing as long as it would take (`emulate`)",
        "HOW",
        default="model",
        choices=("set", "model", "emulate"),
        alone=True,
    )
    quiet: bool = _option("no progress and no table", default=False)
    watchdog: float = _option(
        "stop when a firing (not of a source that waits for data), a start or a close takes"
        " longer than S seconds; 0 = never (default 60)",
        "S",
        default=60.0,
        parse=duration,
    )

    def words(self) -> List[str]:
        """The same as words of a command line; what is as it is by default is left out."""
        found: List[str] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if value == each.default:
                continue
            if not each.metadata["metavar"]:
                found.append(flag(each))
                continue
            values = value if isinstance(each.default, tuple) else [value]
            for one in values:
                found += [flag(each), str(one)]
        return found

    def in_parts(self) -> RunOptions:
        """Those that each part of a program on several machines has: the others are as they are by
        default."""
        alone: Dict[str, Any] = {
            each.name: each.default for each in fields(self) if each.metadata["alone"]
        }
        return replace(self, **alone)


def require_no_states(options: RunOptions) -> None:
    """Raises Mistake for an option that is for programs with states."""
    given = [name for name in ("start", "events", "control") if getattr(options, name)]
    given += ["clocks"] if options.clocks != "model" else []
    if given:
        raise Mistake("--%s is for programs with states, and this one has none" % given[0])


def flag(option: Any) -> str:
    """What a field of `RunOptions` is called on a command line."""
    name: str = option.metadata["name"] or option.name
    return "--" + name.replace("_", "-")


def mistake(options: RunOptions) -> Optional[Tuple[str, str]]:
    """The option that does not go with the others, and why; None where all of them do."""
    if options.channels is not None and options.record is None:
        return "--channels", "it is about --record FILE"
    if options.trace is not None and options.flight_recorder is not None:
        return "--flight-recorder", "--trace FILE has everything"
    if options.trace is not None:
        return None
    for name, given in (
        ("--trace-frames", options.trace_frames is not None),
        ("--trace-bands", options.trace_bands),
    ):
        if given:
            return name, "it is about --trace FILE"
    return None


def parsed(arguments: Optional[Sequence[str]]) -> RunOptions:
    """The options of a command line (None: of this process). Says what is wrong with it, and exits
    with status 2."""
    parser = argparse.ArgumentParser(description="Run this program.")
    for each in fields(RunOptions):
        _add(parser, each)
    options = RunOptions(**vars(parser.parse_args(arguments)))
    wrong = mistake(options)
    if wrong is not None:
        parser.error("%s: %s" % wrong)
    return options


def _add(parser: argparse.ArgumentParser, option: Any) -> None:
    about, metavar = option.metadata["about"], option.metadata["metavar"]
    if not metavar:
        parser.add_argument(flag(option), dest=option.name, action="store_true", help=about)
    elif option.metadata["choices"]:
        choices = option.metadata["choices"]
        parser.add_argument(
            flag(option), dest=option.name, choices=choices, default=option.default, help=about
        )
    elif isinstance(option.default, tuple):
        parser.add_argument(
            flag(option), dest=option.name, action="append", default=[], metavar=metavar, help=about
        )
    else:
        parse = _for_argparse(option.metadata["parse"])
        parser.add_argument(
            flag(option),
            dest=option.name,
            type=parse,
            default=option.default,
            metavar=metavar,
            help=about,
        )


def _for_argparse(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same, with the reason of a ValueError, which argparse does not show."""

    def parse_or_say(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_or_say
