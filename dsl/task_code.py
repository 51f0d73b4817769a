"""Checks that code named in a text exists, and that it can be called as a firing.

In: a clause of a task, and the task. Out: an `Implementation`, or diagnostics. Code is read, never
run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..model.application import Implementation, Port
from ..model.diagnostic import Note, closest, did_you_mean, listed, one_of
from ..model.platform import KINDS
from . import syntax as s
from .code import Callable, PythonSymbol, c_functions, read_python
from .context import Context
from .kernels import LaunchBuilder
from .template import beside, unreadable

LANGUAGES = {"python": "cpu", "c": "cpu", "cuda": "gpu"}


class TaskCode:
    """Finds the code of tasks, and reports its faults."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def implementation(
        self,
        item: s.ImplementationDecl,
        task: s.TaskDecl,
        inputs: tuple[Port, ...] | None,
        parameters: tuple[str, ...],
        has_state: bool,
        earlier: Iterable[Implementation],
        launches: LaunchBuilder,
    ) -> Implementation | None:
        """One clause with code; `inputs` is None if a port has a fault, so arguments are not
        known."""
        language = item.language.text
        if language not in LANGUAGES:
            help_text = did_you_mean(language, LANGUAGES) or f"use {one_of(LANGUAGES)}"
            self._context.fault(
                "F114", f"`{language}` is no language of tasks", item.language.span, help=help_text
            )
            return None
        kind = item.kind.text if item.kind is not None else LANGUAGES[language]
        where = item.kind.span if item.kind is not None else item.language.span
        if kind not in KINDS:
            help_text = did_you_mean(kind, KINDS) or f"use {one_of(KINDS)}"
            self._context.fault("F114", f"`{kind}` is no kind of processor", where, help=help_text)
            return None
        if kind != LANGUAGES[language]:
            help_text = f"write `on {LANGUAGES[language]} {language} ...`"
            self._context.fault(
                "F114", f"{language} code does not run on a {kind}", where, help=help_text
            )
            return None
        if language == "cuda":
            if inputs is None:
                self.named(item.code, language)
                return None
            return self._kernel(item, kind, list(earlier), launches)
        for given, what in (
            (item.arguments, "arguments"),
            (item.grid, "a grid"),
            (item.block, "a block"),
            (item.shared, "shared memory"),
        ):
            if given is not None:
                message = (
                    f"{language} code has no {what.removeprefix('a ')}: only a kernel of CUDA is"
                    " launched"
                )
                self._context.fault("F114", message, item.span, help="leave it out")
                return None
        for other in earlier:
            if (other.kind, other.language) == (kind, language):
                note = Note("the first one", other.span)
                self._context.fault(
                    "F115", f"two {language} implementations on a {kind}", item.span, notes=[note]
                )
                return None
        found = self.named(item.code, language)
        if found is None:
            return None
        file, path, symbol, python = found
        if python is None or inputs is None:
            return Implementation(kind, language, file, path, symbol, item.span)
        passes = self._signature(item, task, python, symbol, inputs, parameters)
        is_class = python.kind == "class"
        if has_state and python.kind == "function":
            self._context.fault(
                "F304",
                f"`{symbol}` is a function, but task `{task.name.text}` has state",
                item.code.span,
                help="make it a class: state set in `__init__`, one firing in `__call__`",
            )
        return Implementation(
            kind,
            language,
            file,
            path,
            symbol,
            item.span,
            is_class or python.kind == "other",
            passes,
        )

    def _kernel(
        self,
        item: s.ImplementationDecl,
        kind: str,
        earlier: list[Implementation],
        launches: LaunchBuilder,
    ) -> Implementation | None:
        """Add a kernel to a CUDA implementation."""
        found = self.named(item.code, "cuda")
        if found is None:
            return None
        file, path, symbol, _ = found
        launch = launches.launch(item, Path(path), symbol)
        if launch is None:
            return None
        first = next((i for i in earlier if i.language == "cuda"), None)
        if first is None:
            return Implementation(kind, "cuda", file, path, symbol, item.span, launches=(launch,))
        if first.path != path:
            note = Note("the first one", first.span)
            self._context.fault(
                "F115",
                "the kernels of a task come from one file",
                item.code.span,
                "",
                [note],
                "`#include` the other file in one of them",
            )
            return None
        return replace(first, launches=(*first.launches, launch))

    def reference(
        self,
        item: s.ReferenceDecl,
        task: s.TaskDecl,
        inputs: tuple[Port, ...],
        parameters: tuple[str, ...],
    ) -> Implementation | None:
        """The reference on a CPU; always Python."""
        if item.language.text != "python":
            message = f"a reference is python, not {item.language.text}"
            help_text = (
                'write `reference python "file.py:function"`; C code is an implementation: `on cpu'
                " c ...`"
            )
            self._context.fault("F114", message, item.language.span, help=help_text)
            return None
        found = self.named(item.code, "python")
        if found is None:
            return None
        file, path, symbol, python = found
        assert python is not None
        passes = self._signature(item, task, python, symbol, inputs, parameters)
        return Implementation(
            "cpu", "python", file, path, symbol, item.span, python.kind != "function", passes
        )

    def named(
        self, code: s.Text, language: str
    ) -> tuple[str, str, str, PythonSymbol | None] | None:
        """Resolve `"file.py:name"` to (file as written, its path, symbol, what is known of it)."""
        file, colon, symbol = code.value.rpartition(":")
        if not colon or not file or not symbol.isidentifier():
            example = {
                "python": "file.py:function",
                "c": "file.c:function",
                "cuda": "file.cu:kernel",
            }[language]
            self._context.fault(
                "F302",
                f"`{code.value}` names no code",
                code.span,
                help=f'write it as `"{example}"`',
            )
            return None
        place = beside(code.span, file)
        reason = unreadable(place)
        if reason:
            siblings: list[str] = []
            with contextlib.suppress(OSError):  # a name that no file could have
                siblings = (
                    [p.name for p in place.parent.glob("*" + place.suffix)]
                    if os.path.isdir(place.parent)
                    else []
                )
            folder = file[: len(file) - len(place.name)] if file.endswith(place.name) else ""
            near = closest(place.name, siblings)
            help_text = (
                f"did you mean `{folder}{near}`?"
                if near
                else "the path is relative to the .flow file"
            )
            self._context.fault(
                "F301",
                f"`{file}` {reason}",
                code.span,
                label=f"looked for `{place}`",
                help=help_text,
            )
            return None
        if language == "python":
            python = self._python_symbol(code, file, place, symbol)
            return None if python is None else (file, str(place), symbol, python)
        # kernels are looked up with their parameters
        known = c_functions(place) if language == "c" else ()
        if language == "c" and symbol not in known:
            self._missing(code, file, symbol, known)
        return file, str(place), symbol, None

    def _python_symbol(
        self, code: s.Text, file: str, place: Path, symbol: str
    ) -> PythonSymbol | None:
        source = read_python(place)
        if source.error:
            line = f" in line {source.error_line}" if source.error_line else ""
            self._context.fault(
                "F305", f"`{file}` is not valid Python: {source.error}{line}", code.span
            )
            return None
        if symbol not in source.symbols:
            self._missing(code, file, symbol, source.symbols)
            return None
        return source.symbols[symbol]

    def _missing(self, code: s.Text, file: str, symbol: str, known: Iterable[str]) -> None:
        names = [n for n in known if not n.startswith("_")]
        help_text = did_you_mean(symbol, names) or (f"it has {one_of(names)}" if names else "")
        self._context.fault("F302", f"`{file}` has no `{symbol}`", code.span, help=help_text)

    def _signature(
        self,
        item: s.ImplementationDecl | s.ReferenceDecl,
        task: s.TaskDecl,
        python: PythonSymbol,
        symbol: str,
        inputs: tuple[Port, ...],
        parameters: tuple[str, ...],
    ) -> tuple[str, ...] | None:
        """Check that the code can be called as a firing; the parameters it accepts (None = all)."""
        if python.kind == "class":
            if not python.can_fire:
                help_text = f"a firing calls `{symbol}(...)(inputs)`: add `def __call__(self, ...)`"
                self._context.fault(
                    "F303", f"class `{symbol}` has no `__call__`", item.code.span, help=help_text
                )
                return None
            if python.fires is not None:
                self._call(item, f"{symbol}.__call__", python.fires, inputs, (), task)
            if python.makes is None:
                return None
            return self._call(item, f"{symbol}.__init__", python.makes, (), parameters, task)
        if python.fires is None:
            return None
        return self._call(item, symbol, python.fires, inputs, parameters, task)

    def _call(
        self,
        item: s.ImplementationDecl | s.ReferenceDecl,
        name: str,
        target: Callable,
        inputs: tuple[Port, ...],
        parameters: tuple[str, ...],
        task: s.TaskDecl,
    ) -> tuple[str, ...] | None:
        n = len(inputs)
        keywords = tuple(f"{keyword}=" for keyword in target.keyword_only)
        called = f"`{name}({', '.join(target.positional + keywords)})`"
        gives = listed([p.name for p in inputs]) or "no input"
        if len(target.positional) < n and not target.any_positional:
            self._context.fault(
                "F303",
                f"{called} takes {_count(len(target.positional))}, `{task.name.text}` has {n}",
                item.code.span,
                label=f"defined in line {target.line} of its file",
                help=f"a firing gives it {gives}, in this order",
            )
            return None
        names = target.positional[n:] + target.keyword_only
        needed = [r for r in target.required[n:] + target.keyword_required if r not in parameters]
        if needed:
            self._context.fault(
                "F303",
                f"{called} gets no value for {one_of(needed).replace(' or ', ' and ')}",
                item.code.span,
                label=f"defined in line {target.line} of its file",
                help=f"a firing gives it {gives}; "
                + (
                    f"parameters of the task are {one_of(parameters)}"
                    if parameters
                    else "the task has no parameters"
                ),
            )
            return None
        if target.any_keyword:
            return None
        for parameter in parameters:
            near = closest(parameter, [n for n in names if n not in parameters])
            if parameter not in names and near:  # a misspelt one would silently keep its default
                help_text = f"give both the same name: `{parameter}`"
                message = f"{called} does not take parameter `{parameter}`, but `{near}`"
                self._context.fault("F303", message, item.code.span, help=help_text)
        return tuple(p for p in parameters if p in names)


def _count(inputs: int) -> str:
    return f"{inputs} input{'' if inputs == 1 else 's'}"
