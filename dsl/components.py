"""Task and network declarations, with their arguments, to templates that instances are stamped from."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from ..model.application import FilePath, Implementation, OnError, Parameter, Port, StateField, Task
from ..model.diagnostic import Note, closest, did_you_mean, listed, one_of
from ..model.platform import KINDS
from . import syntax as s
from .code import Callable, PythonSymbol, c_functions, read_python
from .context import Context
from .evaluate import Asked, Evaluator, Scope, shown
from .kernels import LaunchBuilder
from .network_templates import NetworkBuilder
from .template import Template, beside, unreadable
from .variants import Variants

#: Bytes of a file that is a task's parameter: all of it is part of what a measured time belongs to.
MOST_DATA = 1 << 30
LANGUAGES = {"python": "cpu", "c": "cpu", "cuda": "gpu"}
PARAMETER_TYPES = ("int", "float", "bool", "string", "file")


class Components:
    """Makes templates, each once per set of arguments."""

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self._context = context
        self._evaluate = evaluator
        self._templates: dict[tuple[str, tuple[tuple[str, Parameter], ...]], Template | None] = {}
        self._variants = Variants(context, evaluator, NetworkBuilder(context, evaluator, self.code).build)

    # -- parameters ------------------------------------------------------------------------------------------------
    def bind(
        self, params: tuple[s.Param, ...], args: tuple[s.Arg, ...], of: s.Word, scope: Scope
    ) -> dict[str, Parameter] | None:
        """Arguments and defaults to values, by parameter name in declaration order; None after a fault."""
        given: dict[str, s.Arg] = {}
        good = True
        for arg in args:
            if arg.name.text in given:
                self._context.fault("F108", f"`{arg.name.text}` is given twice", arg.name.span)
            elif arg.name.text not in {p.name.text for p in params}:
                known = [p.name.text for p in params]
                help_text = did_you_mean(arg.name.text, known) or (f"it has {one_of(known)}" if known else "")
                self._context.fault(
                    "F108", f"`{of.text}` has no parameter `{arg.name.text}`", arg.name.span, help=help_text
                )
                good = False
            else:
                given[arg.name.text] = arg
        bound: dict[str, Parameter] = {}
        for param in params:
            name = param.name.text
            if name in given:
                value = self._argument(param, given[name].value, scope)
            elif param.default is not None:
                value = self._argument(param, param.default, {})
            else:
                note = Note("declared here, without a default", param.span)
                help_text = f"write `{of.text}({name} = ...)`"
                self._context.fault(
                    "F108", f"`{of.text}` needs a value for `{name}`", of.span, notes=[note], help=help_text
                )
                value = None
            if value is None:
                good = False
            else:
                bound[name] = value
        return bound if good else None

    def _argument(self, param: s.Param, expr: s.Expr, scope: Scope) -> Parameter | None:
        value = self._evaluate.value(expr, scope)
        if value is None:
            return None
        kind = param.type.text
        match kind, value:
            case "bool", bool():
                return value
            case (("int" | "float" | "string" | "file"), bool()):
                pass
            case "int", int():
                return value
            case "float", int() | Fraction():
                return Fraction(value)
            case "string", str():
                return value
            case "file", FilePath():
                return value
            case "file", str():
                place = beside(expr.span, value)
                reason = unreadable(place, MOST_DATA)
                if not reason:
                    return FilePath(value, str(place))
                self._context.fault("F301", f"`{value}` {reason}", expr.span, label=f"looked for `{place}`")
                return None
            case _ if kind not in PARAMETER_TYPES:
                return None
            case _:
                pass
        note = Note(f"`{param.name.text}` is {kind}", param.span)
        self._context.fault("F108", f"{shown(value)} is not a value of type {kind}", expr.span, notes=[note])
        return None

    def check_params(self, params: tuple[s.Param, ...]) -> None:
        """Errors of a parameter list by itself."""
        seen: dict[str, s.Param] = {}
        for param in params:
            self._unique(param.name, seen, "parameter")
            seen.setdefault(param.name.text, param)
            if param.type.text not in PARAMETER_TYPES:
                help_text = did_you_mean(param.type.text, PARAMETER_TYPES) or f"use {one_of(PARAMETER_TYPES)}"
                self._context.fault(
                    "F101", f"`{param.type.text}` is no parameter type", param.type.span, help=help_text
                )
            elif param.default is not None:
                self._argument(param, param.default, {})

    def _unique(
        self, word: s.Word, seen: Mapping[str, s.Param | s.StateDecl | s.ScratchDecl | Port], what: str
    ) -> bool:
        if word.text not in seen:
            return True
        first = seen[word.text]
        place = first.span if isinstance(first, Port) else first.name.span
        self._context.fault(
            "F102", f"two {what}s are called `{word.text}`", word.span, notes=[Note("the first one", place)]
        )
        return False

    # -- templates -------------------------------------------------------------------------------------------------
    def template(
        self, declaration: s.TaskDecl | s.NetworkDecl, arguments: dict[str, Parameter], variant: str | None = None
    ) -> Template | None:
        """The template of a task with these arguments, or of a network (its first `variant`, where none is named).

        None after a fault.
        """
        if isinstance(declaration, s.NetworkDecl):
            return self._variants.template(declaration, variant)
        key = (declaration.name.text, tuple(arguments.items()))
        if key not in self._templates:
            self._templates[key] = self._task(declaration, arguments)
        return self._templates[key]

    def _task(self, declaration: s.TaskDecl, arguments: dict[str, Parameter]) -> Template | None:
        ports: dict[str, Port] = {}
        implementations: list[Implementation] = []
        state: list[StateField] = []
        scratch: list[StateField] = []
        variables: dict[str, s.StateDecl | s.ScratchDecl] = {}
        reference: s.ReferenceDecl | None = None
        stateless: s.StatelessDecl | None = None
        live: s.LiveDecl | None = None
        on_error: OnError = "stop"
        events: dict[str, s.Word] = {}
        good = True
        wcet: s.WcetDecl | None = None
        lists: list[tuple[s.PortDecl, int]] = []
        asked = Asked(arguments)
        for item in declaration.items:
            match item:
                case s.PortDecl():
                    port = self._port(item, asked, ports)
                    good &= port is not None
                    if port is not None:
                        ports[port.name] = port
                        if isinstance(item.rate, s.Phases):
                            lists.append((item, len(port.rates)))
                case s.StateDecl():
                    kind = self._evaluate.type(item.type, asked)
                    self._unique(item.name, variables, "state variable")
                    variables.setdefault(item.name.text, item)
                    if kind is not None:
                        state.append(StateField(item.name.text, kind))
                case s.ScratchDecl():
                    kind = self._evaluate.type(item.type, asked)
                    self._unique(item.name, {**ports, **variables}, "array")
                    variables.setdefault(item.name.text, item)
                    if kind is not None:
                        scratch.append(StateField(item.name.text, kind))
                case s.ReferenceDecl():
                    if reference is not None:
                        note = Note("the first one", reference.span)
                        self._context.fault("F115", "`reference` is given twice", item.span, notes=[note])
                    reference = item
                case s.StatelessDecl():
                    stateless = item
                case s.LiveDecl():
                    live = item
                case s.OnErrorDecl():
                    on_error = self._policy(item)
                case s.EventsDecl():
                    self._events(item, declaration, events)
                case s.WcetDecl():
                    if wcet is not None:
                        note = Note("the first one", wcet.span)
                        self._context.fault("F115", "`wcet` is given twice", item.span, notes=[note])
                    wcet = item
                case s.ImplementationDecl():
                    pass
        inputs = tuple(p for p in ports.values() if p.direction == "in")
        outputs = tuple(p for p in ports.values() if p.direction == "out")
        launches = LaunchBuilder(self._context, self._evaluate, declaration, ports, (*state, *scratch), arguments)
        for item in declaration.items:
            if isinstance(item, s.ImplementationDecl):
                made = self._implementation(
                    item,
                    declaration,
                    inputs if good else None,
                    (*arguments, *events),
                    bool(state),
                    implementations,
                    launches,
                )
                good &= made is None or self._may_raise(item, declaration, made, tuple(events))
                if made is not None:
                    implementations = [i for i in implementations if (i.kind, i.language) != (made.kind, made.language)]
                    implementations.append(made)
        times = self._wcet(wcet, asked)
        lengths = {n for _, n in lists}
        if len(lengths) > 1:
            self._rate_lists(lists)
            good = False
        if len(times) > 1 and lengths - {len(times)}:
            assert wcet is not None
            self._context.fault("F106", f"`wcet` has {len(times)} phases, the rates {max(lengths)}", wcet.span)
            good = False
        if not good:
            return None
        if stateless is not None and state:
            help_text = "remove one of the two"
            self._context.fault("F304", "a task with `state` is not `stateless`", stateless.span, help=help_text)
        if live is not None and inputs:
            help_text = "remove it: this task waits for its inputs, which come from inside"
            self._context.fault("F217", "only a source waits for data from outside", live.span, help=help_text)
        self._kernel_memory(declaration, implementations, outputs, scratch)
        twin = None if reference is None else self._reference(reference, declaration, inputs, tuple(arguments))
        tolerance = None
        if reference is not None and reference.tolerance is not None:
            tolerance = self._evaluate.number(reference.tolerance, arguments, "a tolerance", 0)
        functions = bool(implementations) and all(
            i.language == "cuda" or (i.language == "python" and not i.is_class) for i in implementations
        )
        is_stateless = (stateless is not None or functions) and not state
        task = Task(
            "",
            declaration.name.text,
            inputs,
            outputs,
            tuple(arguments.items()),
            tuple(implementations),
            tuple(state),
            is_stateless,
            times,
            None,
            declaration.doc,
            declaration.name.span,
            tuple(scratch),
            twin,
            tolerance,
            fixed=tuple(name for name in arguments if name in asked.names),
            live=live is not None and not inputs,
            on_error=on_error,
            events=tuple(events),
        )
        return Template((task,), (), {p.name: ("", p) for p in inputs}, {p.name: ("", p) for p in outputs})

    def _events(self, item: s.EventsDecl, declaration: s.TaskDecl, events: dict[str, s.Word]) -> None:
        """What the task may raise; the names are those of keyword arguments of its code."""
        taken = {p.name.text: p.name for p in declaration.params} | events
        for word in item.names:
            if word.text in taken:
                notes = [Note("the first one", taken[word.text].span)]
                self._context.fault("F102", f"`{word.text}` is taken", word.span, notes=notes, help="rename the event")
            events[word.text] = taken[word.text] = word

    def _may_raise(
        self, item: s.ImplementationDecl, declaration: s.TaskDecl, code: Implementation, events: tuple[str, ...]
    ) -> bool:
        """Can that code raise the events of its task?"""
        if events and code.language != "python":
            message = f"task `{declaration.name.text}` raises {listed(events)}, and {code.language} code cannot"
            help_text = "events are raised from Python, in the program's own process"
            self._context.fault("F807", message, item.span, help=help_text)
            return False
        deaf = [e for e in events if code.passes is not None and e not in code.passes]
        if deaf:
            what = f"{code.symbol}.__init__" if code.is_class else code.symbol
            help_text = f"give it a keyword argument `{deaf[0]}`: the event is raised by calling it"
            self._context.fault("F807", f"`{what}` does not take {listed(deaf)}", item.code.span, help=help_text)
        return not deaf

    def _policy(self, item: s.OnErrorDecl) -> OnError:
        """What the task does when a firing raises."""
        policies: dict[str, OnError] = {"stop": "stop", "skip": "skip", "restart": "restart"}
        if item.event.text != "error":
            help_text = 'write `on error skip`, or code such as `on cpu python "file.py:name"`'
            self._context.fault(
                "F217", f"`on {item.event.text}` is no event of a task", item.event.span, help=help_text
            )
        elif item.policy.text not in policies:
            help_text = did_you_mean(item.policy.text, policies) or f"there is {one_of(policies)}"
            self._context.fault(
                "F217", f"`{item.policy.text}` is no policy for errors", item.policy.span, help=help_text
            )
        return policies.get(item.policy.text, "stop")

    def _kernel_memory(
        self,
        declaration: s.TaskDecl,
        implementations: list[Implementation],
        outputs: tuple[Port, ...],
        scratch: list[StateField],
    ) -> None:
        """Every output is an argument of some kernel, and only kernels have scratch memory."""
        kernels = next((i for i in implementations if i.language == "cuda"), None)
        items = {i.name.text: i for i in declaration.items if isinstance(i, s.PortDecl | s.ScratchDecl)}
        if kernels is None:
            for f in scratch if all(i.language.text != "cuda" for i in _codes(declaration)) else ():
                message = f"`{f.name}` is scratch memory, and task `{declaration.name.text}` has no kernels"
                self._context.fault("F309", message, items[f.name].span, help="remove it")
            return
        written = {a for launch in kernels.launches for a in launch.arguments if isinstance(a, str)}
        for port in outputs:
            if port.name not in written and len(kernels.launches) == sum(
                i.language.text == "cuda" for i in _codes(declaration)
            ):
                message = f"no kernel of `{declaration.name.text}` gets its output `{port.name}`"
                self._context.fault("F309", message, items[port.name].span, help="name it among the arguments")

    def _rate_lists(self, lists: Sequence[tuple[s.PortDecl, int]]) -> None:
        (first, length), *others = lists
        port, other = next((p, n) for p, n in others if n != length)
        rate, reference = port.rate, first.rate
        assert isinstance(rate, s.Phases) and isinstance(reference, s.Phases)
        note = Note(f"`{first.name.text}` has {length} phases", reference.span)
        help_text = "all rate lists of a task need the same length; a number holds in every phase"
        self._context.fault(
            "F106",
            f"`{port.name.text}` has {other} phases, `{first.name.text}` has {length}",
            rate.span,
            notes=[note],
            help=help_text,
        )

    def _port(self, item: s.PortDecl, arguments: Scope, ports: dict[str, Port]) -> Port | None:
        unique = self._unique(item.name, ports, "port")
        kind = None if item.type is None else self._evaluate.type(item.type, arguments)
        rates = self._evaluate.rates(item.rate, arguments, item.span)
        window = None if item.window is None else self._window(item, item.window, rates, arguments)
        if rates is None or not unique or (item.type is not None and kind is None):
            return None
        if item.window is not None and window is None:
            return None
        stacked = isinstance(item.rate, s.Phases) or rates[0] > 1 or window is not None
        again = window if window is not None and {window} != {*rates} else 0
        return Port(item.name.text, item.direction, kind, rates, stacked, item.span, again)

    def _window(
        self, item: s.PortDecl, window: s.WindowDecl, rates: tuple[int, ...] | None, arguments: Scope
    ) -> int | None:
        """How many tokens a firing sees, the new ones among them; None after a fault."""
        if item.direction == "out":
            message = f"`{item.name.text}` is an output, and looks at nothing"
            help_text = "write `window` at the input that reads it: each reader has its own"
            self._context.fault("F105", message, window.span, help=help_text)
            return None
        return self._evaluate.integer(window.size, arguments, "the window", max(rates or (1,)))

    def _wcet(self, item: s.WcetDecl | None, arguments: Scope) -> tuple[Fraction, ...]:
        if item is None:
            return ()
        factor = self._evaluate.unit(item.unit, "time", "a wcet")
        if isinstance(item.amount, s.Phases):
            entries, good = self._evaluate.phases(item.amount, arguments, "a wcet")
        else:
            value = self._evaluate.number(item.amount, arguments, "a wcet", 0)
            entries, good = ((value,), True) if value is not None else ((), False)
        return tuple(e * factor for e in entries) if good and factor is not None else ()

    # -- code ------------------------------------------------------------------------------------------------------
    def _implementation(
        self,
        item: s.ImplementationDecl,
        task: s.TaskDecl,
        inputs: tuple[Port, ...] | None,
        parameters: tuple[str, ...],
        has_state: bool,
        earlier: Iterable[Implementation],
        launches: LaunchBuilder,
    ) -> Implementation | None:
        """One clause with code; without `inputs` a port has a fault, and nobody knows what the code gets."""
        language = item.language.text
        if language not in LANGUAGES:
            help_text = did_you_mean(language, LANGUAGES) or f"use {one_of(LANGUAGES)}"
            self._context.fault("F114", f"`{language}` is no language of tasks", item.language.span, help=help_text)
            return None
        kind = item.kind.text if item.kind is not None else LANGUAGES[language]
        where = item.kind.span if item.kind is not None else item.language.span
        if kind not in KINDS:
            help_text = did_you_mean(kind, KINDS) or f"use {one_of(KINDS)}"
            self._context.fault("F114", f"`{kind}` is no kind of processor", where, help=help_text)
            return None
        if kind != LANGUAGES[language]:
            help_text = f"write `on {LANGUAGES[language]} {language} ...`"
            self._context.fault("F114", f"{language} code does not run on a {kind}", where, help=help_text)
            return None
        if language == "cuda":
            if inputs is None:
                self.code(item.code, language)
                return None
            return self._kernel(item, kind, list(earlier), launches)
        for given, what in (
            (item.arguments, "arguments"),
            (item.grid, "a grid"),
            (item.block, "a block"),
            (item.shared, "shared memory"),
        ):
            if given is not None:
                message = f"{language} code has no {what.removeprefix('a ')}: only a kernel of CUDA is launched"
                self._context.fault("F114", message, item.span, help="leave it out")
                return None
        for other in earlier:
            if (other.kind, other.language) == (kind, language):
                note = Note("the first one", other.span)
                self._context.fault("F115", f"two {language} implementations on a {kind}", item.span, notes=[note])
                return None
        found = self.code(item.code, language)
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
        return Implementation(kind, language, file, path, symbol, item.span, is_class or python.kind == "other", passes)

    def _kernel(
        self, item: s.ImplementationDecl, kind: str, earlier: list[Implementation], launches: LaunchBuilder
    ) -> Implementation | None:
        """One kernel more of a CUDA implementation."""
        found = self.code(item.code, "cuda")
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

    def _reference(
        self, item: s.ReferenceDecl, task: s.TaskDecl, inputs: tuple[Port, ...], parameters: tuple[str, ...]
    ) -> Implementation | None:
        """What does the same on a CPU; always Python."""
        if item.language.text != "python":
            message = f"a reference is python, not {item.language.text}"
            help_text = 'write `reference python "file.py:function"`; C code is an implementation: `on cpu c ...`'
            self._context.fault("F114", message, item.language.span, help=help_text)
            return None
        found = self.code(item.code, "python")
        if found is None:
            return None
        file, path, symbol, python = found
        assert python is not None
        passes = self._signature(item, task, python, symbol, inputs, parameters)
        return Implementation("cpu", "python", file, path, symbol, item.span, python.kind != "function", passes)

    def code(self, code: s.Text, language: str) -> tuple[str, str, str, PythonSymbol | None] | None:
        """Resolve `"file.py:name"` to (file as written, its path, symbol, what is known of it)."""
        file, colon, symbol = code.value.rpartition(":")
        if not colon or not file or not symbol.isidentifier():
            example = {"python": "file.py:function", "c": "file.c:function", "cuda": "file.cu:kernel"}[language]
            self._context.fault("F302", f"`{code.value}` names no code", code.span, help=f'write it as `"{example}"`')
            return None
        place = beside(code.span, file)
        reason = unreadable(place)
        if reason:
            siblings: list[str] = []
            with contextlib.suppress(OSError):  # a name that no file could have
                siblings = (
                    [p.name for p in place.parent.glob("*" + place.suffix)] if os.path.isdir(place.parent) else []
                )
            folder = file[: len(file) - len(place.name)] if file.endswith(place.name) else ""
            near = closest(place.name, siblings)
            help_text = f"did you mean `{folder}{near}`?" if near else "the path is relative to the .flow file"
            self._context.fault("F301", f"`{file}` {reason}", code.span, label=f"looked for `{place}`", help=help_text)
            return None
        if language == "python":
            python = self._python_symbol(code, file, place, symbol)
            return None if python is None else (file, str(place), symbol, python)
        known = c_functions(place) if language == "c" else ()  # kernels are looked up with their parameters
        if language == "c" and symbol not in known:
            self._missing(code, file, symbol, known)
        return file, str(place), symbol, None

    def _python_symbol(self, code: s.Text, file: str, place: Path, symbol: str) -> PythonSymbol | None:
        source = read_python(place)
        if source.error:
            line = f" in line {source.error_line}" if source.error_line else ""
            self._context.fault("F305", f"`{file}` is not valid Python: {source.error}{line}", code.span)
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
                self._context.fault("F303", f"class `{symbol}` has no `__call__`", item.code.span, help=help_text)
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
        called = f"`{name}({', '.join(target.positional + tuple(k + '=' for k in target.keyword_only))})`"
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
                f"nobody gives {one_of(needed).replace(' or ', ' and ')} to {called}",
                item.code.span,
                label=f"defined in line {target.line} of its file",
                help=f"a firing gives it {gives}; "
                + (f"parameters of the task are {one_of(parameters)}" if parameters else "the task has no parameters"),
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


def _codes(declaration: s.TaskDecl) -> list[s.ImplementationDecl]:
    return [i for i in declaration.items if isinstance(i, s.ImplementationDecl)]


def _count(inputs: int) -> str:
    return f"{inputs} input{'' if inputs == 1 else 's'}"
