"""Shared state of elaboration: the faults found so far and the table of declared names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..model.diagnostic import Diagnostic, Note, Severity, did_you_mean
from ..model.span import Span
from ..model.types import DTYPES
from .syntax import Declaration, Named, TypeDecl, Word

KIND_WORDS = {
    "UseDecl": "an include",
    "ConstDecl": "a constant",
    "TypeDecl": "a type",
    "TaskDecl": "a task",
    "NetworkDecl": "a network",
    "GraphDecl": "a graph",
    "AppDecl": "an app",
    "PlatformDecl": "a platform",
    "MappingDecl": "a mapping",
    "ScenarioDecl": "a scenario",
}

#: Types of parameters that are no types of tokens.
_WORDS_OF_TOKENS = dict.fromkeys(
    ("string", "file"),
    "strings and files are parameters of tasks; a token of bytes is `uint8[up to N]`",
)


def kind_word(declaration: Declaration) -> str:
    """`a task`, `a type`, ... for messages."""
    return KIND_WORDS[type(declaration).__name__]


@dataclass
class Context:
    """Mutable: every part of elaboration adds its faults here, and none stops at the first one."""

    names: dict[str, Named] = field(default_factory=dict)
    poisoned: set[str] = field(default_factory=set)
    used_graphs: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    instances: int = 0
    faults: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, str, Span | None]] = field(default_factory=set)
    _notes: list[Note] = field(default_factory=list)

    def fault(
        self,
        code: str,
        message: str,
        span: Span | None,
        label: str = "",
        notes: Iterable[Note] = (),
        help: str = "",
        severity: Severity = "error",
    ) -> None:
        """Report once: a definition used a hundred times has one fault."""
        self.report(Diagnostic(code, message, span, label, tuple(notes), help, severity))

    def report(self, fault: Diagnostic) -> None:
        """The same of a diagnostic that is there already."""
        key = (fault.code, fault.message, fault.span)
        if key not in self._seen:
            self._seen.add(key)
            self.faults.append(replace(fault, notes=(*fault.notes, *self._notes)))

    def blamed(self, path: str) -> bool:
        """Does another fault explain why nothing is called so: a declaration that did not parse, or
        an instance that has a fault?"""
        parts = path.split(".")
        prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        return parts[0] in self.poisoned or not prefixes.isdisjoint(self.broken)

    def repeated(self, code: str, message: str, span: Span, first: Span, *, help: str = "") -> None:
        """Report what may stand once, at its second place; the note shows the first one."""
        self.fault(code, message, span, notes=[Note("the first one", first)], help=help)

    def called_twice(self, what: str, name: Word, first: Span) -> None:
        """Report the second one of two `ports`, `states`, ... that have the same name."""
        self.repeated("F102", f"two {what} are called `{name.text}`", name.span, first)

    @contextmanager
    def within(self, *notes: Note) -> Iterator[None]:
        """Errors found inside carry these notes, e.g. the instance whose arguments led there."""
        outside = len(self._notes)
        self._notes.extend(notes)
        try:
            yield
        finally:
            del self._notes[outside:]

    def lookup(
        self, word: Word, kinds: tuple[type[Declaration], ...], wanted: str
    ) -> Declaration | None:
        """The declaration of that name if it is one of `kinds`; otherwise a fault and None."""
        declaration = self.names.get(word.text)
        if isinstance(declaration, kinds):
            return declaration
        if declaration is not None:
            self.fault(
                "F103",
                f"`{word.text}` is not {wanted}",
                word.span,
                f"{wanted} is needed here",
                [Note(f"`{word.text}` is {kind_word(declaration)}", declaration.name.span)],
            )
        elif word.text not in self.poisoned:
            known = [name for name, other in self.names.items() if isinstance(other, kinds)]
            help_text = ""
            if TypeDecl in kinds:
                known.extend(DTYPES)
                help_text = _WORDS_OF_TOKENS.get(word.text, "")
            self.fault(
                "F101",
                f"`{word.text}` is not declared",
                word.span,
                f"{wanted} is needed here",
                help=help_text or did_you_mean(word.text, known),
            )
        return None
