"""Checks that code named in a text exists, and that it can be called as a firing.

In: a clause of a task, and the task. Out: an `Implementation`, or diagnostics. Code is read, never
run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..model.application import Implementation
from ..model.diagnostic import closest, did_you_mean, listed, one_of
from ..model.platform import KINDS
from ..model.span import Span
from . import syntax as s
from .code import Callable, PythonSymbol, c_functions, c_may_define, read_python
from .context import Context
from .kernels import LaunchBuilder
from .template import beside, unreadable

#: The languages of tasks, and the kind of processor that runs each.
LANGUAGES = {"python": "cpu", "c": "cpu", "cuda": "gpu"}
EXAMPLES = {"python": "file.py:function", "c": "file.c:function", "cuda": "file.cu:kernel"}


@dataclass(frozen=True, slots=True)
class FiringText:
    """How a firing calls the code of its task: tokens of `inputs` in this order, and `parameters`
    by name.
    """

    task: str
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    has_state: bool


@dataclass(frozen=True, slots=True)
class LocatedCode:
    """`"file.py:name"` in a text: the file as it is written there, its path, and the name."""

    file: str
    path: Path
    symbol: str

    def implementation(self, kind: str, language: str, span: Span) -> Implementation:
        """An implementation by this code."""
        return Implementation(kind, language, self.file, str(self.path), self.symbol, span)


class TaskCode:
    """Finds the code of tasks, and reports its faults."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def implementation(
        self,
        item: s.ImplementationDecl,
        firing: FiringText | None,
        earlier: Sequence[Implementation],
        launches: LaunchBuilder,
    ) -> Implementation | None:
        """One clause with code; None after a fault. `firing` is None if a port has a fault, so it
        is not known how the code is called.
        """
        kind = self._kind(item)
        if kind is None:
            return None
        language = item.language.text
        if language == "cuda":
            return self._kernel(item, kind, firing is not None, earlier, launches)
        if self._has_launch(item) or self._is_second(item, kind, earlier):
            return None
        if language == "c":
            return self._c_function(item, kind)
        return self._python_code(item, kind, firing)

    def _kind(self, item: s.ImplementationDecl) -> str | None:
        """The kind of processor that runs it; None after a fault."""
        language = item.language.text
        if language not in LANGUAGES:
            help_text = did_you_mean(language, LANGUAGES) or f"use {one_of(LANGUAGES)}"
            message = f"`{language}` is no language of tasks"
            self._context.fault("F114", message, item.language.span, help=help_text)
            return None
        wanted = LANGUAGES[language]
        if item.kind is None or item.kind.text == wanted:
            return wanted
        kind, span = item.kind.text, item.kind.span
        if kind not in KINDS:
            help_text = did_you_mean(kind, KINDS) or f"use {one_of(KINDS)}"
            self._context.fault("F114", f"`{kind}` is no kind of processor", span, help=help_text)
        else:
            message = f"{language} code does not run on a {kind}"
            help_text = f"write `on {wanted} {language} ...`"
            self._context.fault("F114", message, span, help=help_text)
        return None

    def _has_launch(self, item: s.ImplementationDecl) -> bool:
        """True after a fault: code for a CPU has clauses of a kernel."""
        clauses = {
            "arguments": item.arguments,
            "grid": item.grid,
            "block": item.block,
            "shared memory": item.shared,
        }
        for name, clause in clauses.items():
            if clause is not None:
                message = (
                    f"{item.language.text} code has no {name}: only a kernel of CUDA is launched"
                )
                self._context.fault("F114", message, item.span, help="leave it out")
                return True
        return False

    def _is_second(
        self, item: s.ImplementationDecl, kind: str, earlier: Sequence[Implementation]
    ) -> bool:
        """True after a fault: there is code in that language already."""
        language = item.language.text
        for other in earlier:
            if (other.kind, other.language) == (kind, language):
                message = f"two {language} implementations on a {kind}"
                self._context.repeated("F115", message, item.span, other.span)
                return True
        return False

    def _c_function(self, item: s.ImplementationDecl, kind: str) -> Implementation | None:
        code = self._located(item.code, "c")
        if code is None:
            return None
        if not c_may_define(code.path, code.symbol):
            self._missing(item.code, code, c_functions(code.path))
        return code.implementation(kind, "c", item.span)

    def _python_code(
        self, item: s.ImplementationDecl, kind: str, firing: FiringText | None
    ) -> Implementation | None:
        located = self.python(item.code)
        if located is None:
            return None
        code, python = located
        implementation = code.implementation(kind, "python", item.span)
        if firing is None:
            return implementation
        passes = self._signature(item.code, python, code.symbol, firing)
        if firing.has_state and python.kind == "function":
            self._context.fault(
                "F304",
                f"`{code.symbol}` is a function, but task `{firing.task}` has state",
                item.code.span,
                help="make it a class: state set in `__init__`, one firing in `__call__`",
            )
        return replace(implementation, is_class=python.kind != "function", passes=passes)

    def _kernel(
        self,
        item: s.ImplementationDecl,
        kind: str,
        ports_known: bool,
        earlier: Sequence[Implementation],
        launches: LaunchBuilder,
    ) -> Implementation | None:
        """Add a kernel to a CUDA implementation."""
        code = self._located(item.code, "cuda")
        if code is None or not ports_known:
            return None
        launch = launches.launch(item, code.path, code.symbol)
        if launch is None:
            return None
        first = next((i for i in earlier if i.language == "cuda"), None)
        if first is None:
            return replace(code.implementation(kind, "cuda", item.span), launches=(launch,))
        if first.path != str(code.path):
            message = "the kernels of a task come from one file"
            help_text = "`#include` the other file in one of them"
            self._context.repeated("F115", message, item.code.span, first.span, help=help_text)
            return None
        return replace(first, launches=(*first.launches, launch))

    def reference(self, item: s.ReferenceDecl, firing: FiringText) -> Implementation | None:
        """The reference on a CPU; always Python."""
        if item.language.text != "python":
            message = f"a reference is python, not {item.language.text}"
            help_text = (
                'write `reference python "file.py:function"`; C code is an implementation: `on cpu'
                " c ...`"
            )
            self._context.fault("F114", message, item.language.span, help=help_text)
            return None
        located = self.python(item.code)
        if located is None:
            return None
        code, python = located
        passes = self._signature(item.code, python, code.symbol, firing)
        implementation = code.implementation("cpu", "python", item.span)
        return replace(implementation, is_class=python.kind != "function", passes=passes)

    # -- names -------------------------------------------------------------------------------------
    def python(self, code: s.Text) -> tuple[LocatedCode, PythonSymbol] | None:
        """What `"file.py:name"` denotes; None after a fault."""
        named = self._located(code, "python")
        if named is None:
            return None
        source = read_python(named.path)
        if source.error:
            line = f" in line {source.error_line}" if source.error_line else ""
            message = f"`{named.file}` is not valid Python: {source.error}{line}"
            self._context.fault("F305", message, code.span)
            return None
        if named.symbol not in source.symbols:
            self._missing(code, named, source.symbols)
            return None
        return named, source.symbols[named.symbol]

    def _located(self, code: s.Text, language: str) -> LocatedCode | None:
        """The file exists, and what is behind the colon may be a name; None after a fault."""
        file, _, symbol = code.value.rpartition(":")
        if not file or not symbol.isidentifier():
            message = f"`{code.value}` names no code"
            help_text = f'write it as `"{EXAMPLES[language]}"`'
            self._context.fault("F302", message, code.span, help=help_text)
            return None
        place = beside(code.span, file)
        reason = unreadable(place)
        if reason:
            self._context.fault(
                "F301",
                f"`{file}` {reason}",
                code.span,
                label=f"looked for `{place}`",
                help=_similar_file(file, place),
            )
            return None
        return LocatedCode(file, place, symbol)

    def _missing(self, text: s.Text, code: LocatedCode, known: Iterable[str]) -> None:
        names = [n for n in known if not n.startswith("_")]
        help_text = did_you_mean(code.symbol, names)
        if names and not help_text:
            help_text = f"it has {one_of(names)}"
        message = f"`{code.file}` has no `{code.symbol}`"
        self._context.fault("F302", message, text.span, help=help_text)

    # -- signatures --------------------------------------------------------------------------------
    def _signature(
        self, code: s.Text, python: PythonSymbol, symbol: str, firing: FiringText
    ) -> tuple[str, ...] | None:
        """Check that the code can be called as a firing; the parameters it accepts (None = all)."""
        if python.kind == "class":
            return self._class_signature(code, python, symbol, firing)
        if python.fires is None:
            return None
        return self._call(code, symbol, python.fires, firing)

    def _class_signature(
        self, code: s.Text, python: PythonSymbol, symbol: str, firing: FiringText
    ) -> tuple[str, ...] | None:
        """Inputs go to `__call__`, parameters to `__init__`."""
        if not python.can_fire:
            message = f"class `{symbol}` has no `__call__`"
            help_text = f"a firing calls `{symbol}(...)(inputs)`: add `def __call__(self, ...)`"
            self._context.fault("F303", message, code.span, help=help_text)
            return None
        if python.fires is not None:
            self._call(code, f"{symbol}.__call__", python.fires, replace(firing, parameters=()))
        if python.makes is None:
            return None
        return self._call(code, f"{symbol}.__init__", python.makes, replace(firing, inputs=()))

    def _call(
        self, code: s.Text, name: str, target: Callable, firing: FiringText
    ) -> tuple[str, ...] | None:
        """Check one call; the parameters that are handed on, None for all of them."""
        inputs, parameters = len(firing.inputs), firing.parameters
        keywords = tuple(f"{keyword}=" for keyword in target.keyword_only)
        called = f"`{name}({', '.join(target.positional + keywords)})`"
        gives = listed(firing.inputs) or "no input"
        defined = f"defined in line {target.line} of its file"
        if len(target.positional) < inputs and not target.any_positional:
            takes = _count(len(target.positional))
            message = f"{called} takes {takes}, `{firing.task}` has {inputs}"
            help_text = f"a firing gives it {gives}, in this order"
            self._context.fault("F303", message, code.span, label=defined, help=help_text)
            return None
        required = target.required[inputs:] + target.keyword_required
        needed = [name for name in required if name not in parameters]
        if needed:
            message = f"{called} gets no value for {one_of(needed).replace(' or ', ' and ')}"
            known = "the task has no parameters"
            if parameters:
                known = f"parameters of the task are {one_of(parameters)}"
            help_text = f"a firing gives it {gives}; {known}"
            self._context.fault("F303", message, code.span, label=defined, help=help_text)
            return None
        if target.any_keyword:
            return None
        names = target.positional[inputs:] + target.keyword_only
        self._check_spelling(code, called, names, parameters)
        return tuple(parameter for parameter in parameters if parameter in names)

    def _check_spelling(
        self, code: s.Text, called: str, names: tuple[str, ...], parameters: tuple[str, ...]
    ) -> None:
        """Report parameters whose name in the code is misspelt: they would keep their defaults."""
        for parameter in parameters:
            near = closest(parameter, [name for name in names if name not in parameters])
            if parameter not in names and near:
                message = f"{called} does not take parameter `{parameter}`, but `{near}`"
                help_text = f"give both the same name: `{parameter}`"
                self._context.fault("F303", message, code.span, help=help_text)


def _similar_file(file: str, place: Path) -> str:
    """Help for a file that does not exist."""
    siblings: list[str] = []
    with contextlib.suppress(OSError):  # a name that no file could have
        if os.path.isdir(place.parent):
            siblings = [p.name for p in place.parent.glob("*" + place.suffix)]
    near = closest(place.name, siblings)
    if not near:
        return "the path is relative to the .flow file"
    folder = file.removesuffix(place.name) if file.endswith(place.name) else ""
    return f"did you mean `{folder}{near}`?"


def _count(inputs: int) -> str:
    return "1 input" if inputs == 1 else f"{inputs} inputs"
