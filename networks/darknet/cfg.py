"""The text of a Darknet `.cfg`: its sections and options, and where they stand.

In: a path. Out: the sections in their order, which read their options as numbers, lists and words,
and note what is wrong with them. What sections and options mean is left to `layers`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from ...model.diagnostic import Diagnostic, did_you_mean, one_of
from ...model.files import read_bytes
from ...model.span import Span
from ..onnx.interface import NetworkError

#: Names of the section that a .cfg begins with.
NET = ("net", "network")
_HEADER = re.compile(r"\[\s*(\w+)\s*\]")
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
#: Options of any layer that matter in training alone.
_TRAINING = frozenset(
    {
        "burnin_update",
        "clip",
        "dont_update",
        "learning_rate",
        "onlyforward",
        "stopbackward",
        "train_only_bn",
    }
)


class CfgError(NetworkError):
    """Everything that is wrong with a `.cfg`: `diagnostics` with their places, and in `message` a
    line for each.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        # A line that two options depend on is asked twice.
        once = dict.fromkeys(diagnostics)
        self.diagnostics = tuple(sorted(once, key=lambda d: d.span.line if d.span else 0))
        lines = []
        for fault in self.diagnostics:
            place = f"{fault.span.file}:{fault.span.line}: " if fault.span else ""
            lines.append(place + fault.message)
        helps = (d.help for d in self.diagnostics if d.help)
        super().__init__("F402", "\n".join(lines), next(helps, ""))


@dataclass(frozen=True, slots=True)
class CfgOption:
    """The text after `=`, and the place of the line."""

    value: str
    span: Span


@dataclass(slots=True)
class Section:
    """One section, which notes faults in `faults`, a list that it shares with the others.

    Of a `broken` section not every line could be read, so that nothing follows from what is missing
    in it. Where an option is faulty, its default is read: the network is refused anyway.
    """

    kind: str
    span: Span
    faults: list[Diagnostic]
    options: dict[str, list[CfgOption]] = field(default_factory=dict)
    broken: bool = False
    _asked: set[str] = field(default_factory=set)

    def refuse(self, message: str, option: str = "", help: str = "") -> None:
        """Note a fault, at an option if it is there."""
        lines = self.options.get(option)
        self.faults.append(
            Diagnostic("F402", message, lines[0].span if lines else self.span, help=help)
        )

    def text(self, name: str, default: str | None = None) -> str | None:
        """The text of an option. One that contradicts itself is a fault, as Darknet would take the
        first silently.
        """
        self._asked.add(name)
        stated = self.options.get(name)
        if not stated:
            return default
        again = next((o for o in stated if o.value != stated[0].value), None)
        if again is not None:
            message = f"`{name}` is {stated[0].value} and {again.value}"
            self.faults.append(
                Diagnostic("F402", message, again.span, help="leave one of the two lines")
            )
        return stated[0].value

    def whole(self, name: str, default: int | None, least: int = 1) -> int:
        """A whole number that is not below `least`; without a default it has to be there."""
        text = self.text(name)
        if text is None:
            if default is None and not self.broken:
                self.refuse(f"[{self.kind}] does not say its `{name}`", help=f"add `{name}=...`")
            return least if default is None else default
        if not _WHOLE.fullmatch(text):
            self.refuse(f"`{name}` is {text!r}, not a whole number", name)
        elif int(text) < least:
            self.refuse(f"`{name}` is {text}, and has to be {least} or more", name)
        else:
            return int(text)
        return least if default is None else default

    def wholes(self, name: str) -> list[int] | None:
        """A list of whole numbers; empty without the option, None where it is faulty."""
        items = self._items(name)
        wrong = [item for item in items if not _WHOLE.fullmatch(item)]
        if wrong:
            self.refuse(f"`{name}` lists {wrong[0]!r}, not a whole number", name)
        return None if wrong else [int(item) for item in items]

    def reals(self, name: str) -> list[float] | None:
        """A list of numbers; empty without the option, None where it is faulty."""
        try:
            reals = [float(item) for item in self._items(name)]
        except ValueError:
            reals = [float("nan")]
        if not all(map(isfinite, reals)):
            self.refuse(f"`{name}` is not a list of numbers", name)
            return None
        return reals

    def _items(self, name: str) -> list[str]:
        items = [item.strip() for item in (self.text(name) or "").split(",")]
        return items if items[-1] else items[:-1]  # a comma at the end is common

    def word(self, name: str, default: str, known: Collection[str]) -> str:
        """One of the known words."""
        text = self.text(name, default) or ""
        if text in known:
            return text
        self.refuse(
            f"`{name}={text}` is not read by flowc",
            name,
            did_you_mean(text, known) or f"it reads {one_of(known)}",
        )
        return default

    def only(self, name: str, value: str) -> None:
        """An option that would change what the layer computes: with another value it is refused."""
        text = self.text(name, value)
        if text != value and not (_number(text) == _number(value) is not None):
            self.refuse(
                f"`{name}={text}` is not supported in [{self.kind}]",
                name,
                f"only `{name}={value}` is" if value else "",
            )

    def anything_else(self) -> None:
        """Allow all options that are not asked for."""
        self._asked.update(self.options)

    def refuse_others(self) -> None:
        """Report unknown options: ignoring them would give another network than Darknet's."""
        for name in self.options:
            if name not in self._asked and name not in _TRAINING:
                self.refuse(
                    f"[{self.kind}] has no option `{name}` that flowc reads",
                    name,
                    did_you_mean(name, self._asked),
                )


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def is_darknet(path: Path) -> bool:
    """Does the file begin as a `.cfg` of Darknet? Raises NetworkError (F401) where it cannot be
    read.
    """
    for line in _text(path).split("\n"):
        if _bare(line):
            header = _HEADER.fullmatch(_bare(line))
            return header is not None and header[1] in NET
    return False


def read_sections(path: Path) -> tuple[Section, ...]:
    """The sections of a `.cfg`, with at least one after the first, which is `[net]`; they share the
    list of faults.

    Comments stand behind `#`, or on lines that begin with `;`. Raises NetworkError (F401) where the
    file cannot be read, and CfgError where it is not a network.
    """
    faults: list[Diagnostic] = []
    sections: list[Section] = []
    for number, raw in enumerate(_text(path).split("\n"), 1):
        line = _bare(raw)
        if not line:
            continue
        start = len(raw) - len(raw.lstrip()) + 1
        span = Span(str(path), number, start, number, start + len(line))
        if line.startswith("["):
            _begin(line, span, sections, faults)
        elif not sections:
            raise CfgError(
                [
                    Diagnostic(
                        "F402", "a line before the first section", span, help="begin with [net]"
                    )
                ]
            )
        else:
            name, equals, value = (part.strip() for part in line.partition("="))
            if name and value:
                sections[-1].options.setdefault(name, []).append(CfgOption(value, span))
            else:
                sections[-1].broken = True
                what = f"{line!r} is no `option=value`"
                if equals and name:
                    what = f"`{name}` has no value"
                sections[-1].faults.append(
                    Diagnostic("F402", what, span, help="write `option=value`")
                )
    _check_frame(path, sections)
    return tuple(sections)


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise NetworkError(
            "F401", f"cannot read `{path}`: {error.strerror}", "check the path"
        ) from error


def _bare(line: str) -> str:
    """A line without its comment."""
    line = line.partition("#")[0].strip()
    return "" if line.startswith(";") else line


def _begin(line: str, span: Span, sections: list[Section], faults: list[Diagnostic]) -> None:
    header = _HEADER.fullmatch(line)
    sections.append(Section(header[1] if header else "", span, faults, broken=header is None))
    if header is None:
        sections[-1].refuse(f"{line!r} is no section", help="write `[name]` on a line of its own")


def _check_frame(path: Path, sections: Sequence[Section]) -> None:
    if not sections:
        place = Span(str(path), 1, 1, 1, 1)
        raise CfgError(
            [Diagnostic("F402", f"`{path.name}` has no sections", place, help="begin with [net]")]
        )
    first = sections[0]
    if first.kind not in NET and not first.broken:
        first.refuse(
            f"the first section is [{first.kind}], not [net]",
            help="width, height and channels stand in [net]",
        )
        raise CfgError(first.faults)
    if len(sections) == 1:
        first.refuse("there is no layer after [net]")
        raise CfgError(first.faults)
