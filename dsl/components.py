"""Templates of instances, from task and network declarations with their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from ..model.application import FilePath, Implementation, OnError, Parameter, Port, StateField, Task
from ..model.diagnostic import Note, did_you_mean, listed, one_of
from . import syntax as s
from .context import Context
from .evaluate import Asked, Evaluator, Scope, shown
from .kernels import LaunchBuilder
from .network_templates import NetworkBuilder
from .task_code import TaskCode
from .template import Template, beside, unreadable
from .variants import Variants

#: Maximum bytes of a file parameter: its content is part of the identity of a measured time.
MOST_DATA = 1 << 30
PARAMETER_TYPES = ("int", "float", "bool", "string", "file")


class Components:
    """Makes templates, each once per set of arguments."""

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self._context = context
        self._evaluate = evaluator
        self._templates: dict[tuple[str, tuple[tuple[str, Parameter], ...]], Template | None] = {}
        self._code = TaskCode(context)
        self._variants = Variants(
            context, evaluator, NetworkBuilder(context, evaluator, self._code.named).build
        )

    # -- parameters --------------------------------------------------------------------------------
    def bind(
        self, params: tuple[s.Param, ...], args: tuple[s.Arg, ...], of: s.Word, scope: Scope
    ) -> dict[str, Parameter] | None:
        """Arguments and defaults to values, by parameter name in declaration order; None after a
        fault.
        """
        given: dict[str, s.Arg] = {}
        known = {p.name.text: p for p in params}
        good = True
        for arg in args:
            if arg.name.text in given:
                self._context.fault("F108", f"`{arg.name.text}` is given twice", arg.name.span)
            elif arg.name.text not in known:
                help_text = did_you_mean(arg.name.text, known) or (
                    f"it has {one_of(known)}" if known else ""
                )
                self._context.fault(
                    "F108",
                    f"`{of.text}` has no parameter `{arg.name.text}`",
                    arg.name.span,
                    help=help_text,
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
                    "F108",
                    f"`{of.text}` needs a value for `{name}`",
                    of.span,
                    notes=[note],
                    help=help_text,
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
                self._context.fault(
                    "F301", f"`{value}` {reason}", expr.span, label=f"looked for `{place}`"
                )
                return None
            case _ if kind not in PARAMETER_TYPES:
                return None
            case _:
                pass
        note = Note(f"`{param.name.text}` is {kind}", param.span)
        self._context.fault(
            "F108", f"{shown(value)} is not a value of type {kind}", expr.span, notes=[note]
        )
        return None

    def check_params(self, params: tuple[s.Param, ...]) -> None:
        """Errors of a parameter list by itself."""
        seen: dict[str, s.Param] = {}
        for param in params:
            self._unique(param.name, seen, "parameter")
            seen.setdefault(param.name.text, param)
            if param.type.text not in PARAMETER_TYPES:
                help_text = (
                    did_you_mean(param.type.text, PARAMETER_TYPES)
                    or f"use {one_of(PARAMETER_TYPES)}"
                )
                self._context.fault(
                    "F101",
                    f"`{param.type.text}` is no parameter type",
                    param.type.span,
                    help=help_text,
                )
            elif param.default is not None:
                self._argument(param, param.default, {})

    def _unique(
        self,
        word: s.Word,
        seen: Mapping[str, s.Param | s.StateDecl | s.ScratchDecl | Port],
        what: str,
    ) -> bool:
        if word.text not in seen:
            return True
        first = seen[word.text]
        place = first.span if isinstance(first, Port) else first.name.span
        self._context.fault(
            "F102",
            f"two {what}s are called `{word.text}`",
            word.span,
            notes=[Note("the first one", place)],
        )
        return False

    # -- templates ---------------------------------------------------------------------------------
    def template(
        self,
        declaration: s.TaskDecl | s.NetworkDecl,
        arguments: dict[str, Parameter],
        variant: str | None = None,
    ) -> Template | None:
        """The template of a task with these arguments, or of a network (its first `variant`, where
        none is named).

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
                        self._context.fault(
                            "F115", "`reference` is given twice", item.span, notes=[note]
                        )
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
                        self._context.fault(
                            "F115", "`wcet` is given twice", item.span, notes=[note]
                        )
                    wcet = item
                case s.ImplementationDecl():
                    pass
        inputs = tuple(p for p in ports.values() if p.direction == "in")
        outputs = tuple(p for p in ports.values() if p.direction == "out")
        launches = LaunchBuilder(
            self._context, self._evaluate, declaration, ports, (*state, *scratch), arguments
        )
        for item in declaration.items:
            if isinstance(item, s.ImplementationDecl):
                made = self._code.implementation(
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
                    implementations = [
                        i
                        for i in implementations
                        if (i.kind, i.language) != (made.kind, made.language)
                    ]
                    implementations.append(made)
        times = self._wcet(wcet, asked)
        lengths = {n for _, n in lists}
        if len(lengths) > 1:
            self._rate_lists(lists)
            good = False
        if len(times) > 1 and lengths - {len(times)}:
            assert wcet is not None
            self._context.fault(
                "F106", f"`wcet` has {len(times)} phases, the rates {max(lengths)}", wcet.span
            )
            good = False
        if not good:
            return None
        if stateless is not None and state:
            help_text = "remove one of the two"
            self._context.fault(
                "F304", "a task with `state` is not `stateless`", stateless.span, help=help_text
            )
        if live is not None and inputs:
            help_text = "remove it: this task has inputs from inside the app"
            self._context.fault(
                "F217", "only a source waits for data from outside", live.span, help=help_text
            )
        self._kernel_memory(declaration, implementations, outputs, scratch)
        twin = (
            None
            if reference is None
            else self._code.reference(reference, declaration, inputs, tuple(arguments))
        )
        tolerance = None
        if reference is not None and reference.tolerance is not None:
            tolerance = self._evaluate.number(reference.tolerance, arguments, "a tolerance", 0)
        functions = bool(implementations) and all(
            i.language == "cuda" or (i.language == "python" and not i.is_class)
            for i in implementations
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
        return Template(
            (task,), (), {p.name: ("", p) for p in inputs}, {p.name: ("", p) for p in outputs}
        )

    def _events(
        self, item: s.EventsDecl, declaration: s.TaskDecl, events: dict[str, s.Word]
    ) -> None:
        """The events that the task may raise; their names are keyword arguments of its code."""
        taken = {p.name.text: p.name for p in declaration.params} | events
        for word in item.names:
            if word.text in taken:
                notes = [Note("the first one", taken[word.text].span)]
                self._context.fault(
                    "F102",
                    f"`{word.text}` is taken",
                    word.span,
                    notes=notes,
                    help="rename the event",
                )
            events[word.text] = taken[word.text] = word

    def _may_raise(
        self,
        item: s.ImplementationDecl,
        declaration: s.TaskDecl,
        code: Implementation,
        events: tuple[str, ...],
    ) -> bool:
        """Check that the code can raise the events of its task."""
        if events and code.language != "python":
            message = (
                f"task `{declaration.name.text}` raises {listed(events)}, and {code.language} code"
                " cannot"
            )
            help_text = "events are raised from Python, in the program's own process"
            self._context.fault("F807", message, item.span, help=help_text)
            return False
        deaf = [e for e in events if code.passes is not None and e not in code.passes]
        if deaf:
            what = f"{code.symbol}.__init__" if code.is_class else code.symbol
            help_text = f"give it a keyword argument `{deaf[0]}`: the event is raised by calling it"
            self._context.fault(
                "F807", f"`{what}` does not take {listed(deaf)}", item.code.span, help=help_text
            )
        return not deaf

    def _policy(self, item: s.OnErrorDecl) -> OnError:
        """What the task does when a firing raises."""
        policies: dict[str, OnError] = {"stop": "stop", "skip": "skip", "restart": "restart"}
        if item.event.text != "error":
            help_text = 'write `on error skip`, or code such as `on cpu python "file.py:name"`'
            self._context.fault(
                "F217",
                f"`on {item.event.text}` is no event of a task",
                item.event.span,
                help=help_text,
            )
        elif item.policy.text not in policies:
            help_text = did_you_mean(item.policy.text, policies) or f"there is {one_of(policies)}"
            self._context.fault(
                "F217",
                f"`{item.policy.text}` is no policy for errors",
                item.policy.span,
                help=help_text,
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
        items = {
            i.name.text: i for i in declaration.items if isinstance(i, s.PortDecl | s.ScratchDecl)
        }
        if kernels is None:
            for f in scratch if all(i.language.text != "cuda" for i in _codes(declaration)) else ():
                message = (
                    f"`{f.name}` is scratch memory, and task `{declaration.name.text}` has no"
                    " kernels"
                )
                self._context.fault("F309", message, items[f.name].span, help="remove it")
            return
        written = {a for launch in kernels.launches for a in launch.arguments if isinstance(a, str)}
        for port in outputs:
            if port.name not in written and len(kernels.launches) == sum(
                i.language.text == "cuda" for i in _codes(declaration)
            ):
                message = f"no kernel of `{declaration.name.text}` gets its output `{port.name}`"
                self._context.fault(
                    "F309", message, items[port.name].span, help="name it among the arguments"
                )

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
        self,
        item: s.PortDecl,
        window: s.WindowDecl,
        rates: tuple[int, ...] | None,
        arguments: Scope,
    ) -> int | None:
        """How many tokens a firing sees, the new ones among them; None after a fault."""
        if item.direction == "out":
            message = f"`{item.name.text}` is an output, and has no window"
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


def _codes(declaration: s.TaskDecl) -> list[s.ImplementationDecl]:
    return [i for i in declaration.items if isinstance(i, s.ImplementationDecl)]
