"""Collects an importer's errors and warnings about files of another tool, so that one run reports
all of them.

In: errors and warnings with their places. Out: errors in the order of the files, raised together,
and warnings, with similar ones merged. The importers decide what is wrong and what is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..model.diagnostic import Diagnostic, Errors, Note
from ..model.span import Span
from .names import listed, shown
from .xml_tree import Element

#: Most digits of a number.
LONGEST = 15


@dataclass(slots=True)
class Collector:
    """Errors and warnings of one import, with their codes `faulty` and `less`."""

    faulty: str
    less: str
    faults: list[Diagnostic] = field(default_factory=list)
    _warnings: list[Diagnostic] = field(default_factory=list)
    _shared: dict[tuple[str, str], list[tuple[str, Span]]] = field(default_factory=dict)

    def fault(
        self, message: str, span: Span, help_text: str = "", notes: Iterable[Note] = ()
    ) -> None:
        """An error: the import is impossible."""
        self.faults.append(
            Diagnostic(self.faulty, message, span, notes=tuple(notes), help=help_text)
        )

    def warn(self, message: str, span: Span, help_text: str = "") -> None:
        """A warning: the import leaves something out or interprets it differently."""
        self._warnings.append(
            Diagnostic(self.less, message, span, help=help_text, severity="warning")
        )

    def warn_together(self, name: str, message: str, span: Span, help_text: str = "") -> None:
        """The same as `warn`, merged for several things: `message` follows their names, at the
        place of the first."""
        self._shared.setdefault((message, help_text), []).append((name, span))

    def forgive(self, part: Collector, what: str) -> bool:
        """Turn the faults of an optional part into warnings; returns whether it had none."""
        self._warnings += part._warnings
        for key, who in part._shared.items():
            self._shared.setdefault(key, []).extend(who)
        for fault in part.faults[:1]:
            more = ""
            if len(part.faults) > 1:
                more = f" (and {len(part.faults) - 1} more faults)"
            left_out = f"{what} is left out: {fault.message}{more}"
            self._warnings.append(
                Diagnostic(self.less, left_out, fault.span, help=fault.help, severity="warning")
            )
        return not part.faults

    def warnings(self) -> tuple[Diagnostic, ...]:
        """All of them, in the order of the files."""
        shared = []
        for (message, help_text), who in self._shared.items():
            shared.append(
                Diagnostic(
                    self.less,
                    f"{listed(dict.fromkeys(n for n, _ in who), 4)}: {message}",
                    who[0][1],
                    help=help_text,
                    severity="warning",
                )
            )
        return tuple(sorted(dict.fromkeys([*self._warnings, *shared]), key=_place))

    def attribute(self, node: Element, name: str) -> str | None:
        """A required attribute; None after a fault."""
        if name not in node.attributes:
            self.fault(
                f"this `{node.tag}` has no `{name}`", node.span, f'write `<{node.tag} {name}="..."`'
            )
        return node.attributes.get(name)

    def attributes(self, node: Element, *names: str) -> list[str] | None:
        """Required attributes; None after faults."""
        values = []
        for name in names:
            value = self.attribute(node, name)
            if value is not None:
                values.append(value)
        if len(values) < len(names):
            return None
        return values

    def whole(self, text: str, of: str, span: Span, least: int = 0) -> int | None:
        """A whole number; None after a fault."""
        if re.fullmatch("[0-9]+", text.strip()) is None:
            self.fault(f"{of} is {shown(text)}, which is not a whole number", span)
            return None
        if len(text.strip()) > LONGEST:
            self.fault(f"{of} is {shown(text)}, which has more than {LONGEST} digits", span)
            return None
        value = int(text)
        if value < least:
            self.fault(f"{of} is {value}: it has to be at least {least}", span)
            return None
        return value

    def stop(self) -> None:
        """Raises Errors in the order of the files, if there are any."""
        if self.faults:
            raise self.errors()

    def errors(self) -> Errors:
        """The errors in the order of the files."""
        return Errors(sorted(dict.fromkeys(self.faults), key=_place))


def _place(d: Diagnostic) -> tuple[str, int, int]:
    if d.span:
        return (d.span.file, d.span.line, d.span.column)
    return ("", 0, 0)
