"""Task declarations, with their arguments, to templates: ports, memory, code, times."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar

from ..model.application import (
    Implementation,
    OnError,
    Parameter,
    Port,
    Restart,
    StateField,
    Task,
)
from ..model.diagnostic import Note, listed
from ..model.span import Span
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .evaluate import Asked, Evaluator
from .firing_times import TimesByType, times_by_type
from .kernels import LaunchBuilder
from .policies import policy_of, restart_of
from .task_code import FiringText, TaskCode
from .template import Template

Item = TypeVar("Item")
OnlyItem = TypeVar("OnlyItem", s.WcetDecl, s.ReferenceDecl, s.ToleranceDecl)


@dataclass(frozen=True, slots=True)
class _RateList:
    """The rates of a port, one for each phase of its task."""

    port: str
    length: int
    span: Span


class TaskBuilder:
    """One task declaration and its arguments to a template."""

    def __init__(
        self,
        context: Context,
        evaluator: Evaluator,
        code: TaskCode,
        declaration: s.TaskDecl,
        arguments: dict[str, Parameter],
    ) -> None:
        self._context = context
        self._evaluate = evaluator
        self._code = code
        self._declaration = declaration
        self._arguments = arguments
        #: The same arguments; those that its ports, memory and times use are noted in it.
        self._asked = Asked(arguments)
        self._ports: dict[str, Port] = {}
        self._rate_lists: list[_RateList] = []
        self._state: list[StateField] = []
        self._scratch: list[StateField] = []
        #: Where its state variables and scratch arrays are declared.
        self._arrays: dict[str, Span] = {}
        self._events: dict[str, s.Word] = {}
        self._on_error: OnError = "stop"
        self._restart = Restart()
        #: False after a fault that leaves no template.
        self._good = True

    @property
    def _name(self) -> str:
        return self._declaration.name.text

    @property
    def _inputs(self) -> tuple[Port, ...]:
        return tuple(p for p in self._ports.values() if p.direction == "in")

    @property
    def _outputs(self) -> tuple[Port, ...]:
        return tuple(p for p in self._ports.values() if p.direction == "out")

    def build(self) -> Template | None:
        """None after a fault."""
        for item in self._declaration.items:
            self._declare(item)
        wcet = self._only(s.WcetDecl, "wcet")
        reference = self._only(s.ReferenceDecl, "reference")
        tolerance = self._only(s.ToleranceDecl, "tolerance")
        implementations = self._implementations()
        self._check_rate_lists()
        times = {} if wcet is None else self._times(wcet)
        if not self._good:
            return None
        self._check_stateless()
        self._check_live()
        self._check_kernel_memory(implementations)
        twin, deviation = None, None
        if reference is not None:
            twin = self._code.reference(reference, self._firing(tuple(self._arguments)))
        if tolerance is not None:
            deviation = self._evaluate.number(tolerance.amount, self._arguments, "a tolerance", 0)
        task = Task(
            "",
            self._name,
            self._inputs,
            self._outputs,
            tuple(self._arguments.items()),
            implementations,
            tuple(self._state),
            self._is_stateless(implementations),
            times.pop("", ()),
            None,
            self._declaration.doc,
            self._declaration.name.span,
            tuple(self._scratch),
            twin,
            deviation,
            fixed=tuple(name for name in self._arguments if name in self._asked.names),
            live=bool(self._all(s.LiveDecl)) and not self._inputs,
            on_error=self._on_error,
            restart=self._restart,
            events=tuple(self._events),
            wcet_on=tuple(times.items()),
        )
        inputs = {p.name: ("", p) for p in self._inputs}
        outputs = {p.name: ("", p) for p in self._outputs}
        return Template((task,), (), inputs, outputs)

    def _all(self, kind: type[Item]) -> list[Item]:
        """Its items of that kind."""
        return [item for item in self._declaration.items if isinstance(item, kind)]

    def _only(self, kind: type[OnlyItem], keyword: str) -> OnlyItem | None:
        """Its item of a kind that may stand once: the last one, the others are faults."""
        items = self._all(kind)
        for first, second in pairwise(items):
            message = f"`{keyword}` is given twice"
            self._context.repeated("F115", message, second.span, first.span)
        return items[-1] if items else None

    # -- ports, memory and events ------------------------------------------------------------------
    def _declare(self, item: s.TaskItem) -> None:
        match item:
            case s.PortDecl():
                self._declare_port(item)
            case s.StateDecl():
                self._declare_state(item)
            case s.ScratchDecl():
                self._declare_scratch(item)
            case s.EventsDecl():
                self._declare_events(item)
            case s.OnErrorDecl():
                self._on_error = policy_of(item, self._context)
                self._restart = restart_of(item, self._context, self._evaluate)
            case _:  # needs all ports and arrays
                pass

    def _declare_port(self, item: s.PortDecl) -> None:
        port = self._port(item)
        if port is None:
            self._good = False
            return
        self._ports[port.name] = port
        if isinstance(item.rate, s.Phases):
            self._rate_lists.append(_RateList(port.name, len(port.rates), item.rate.span))

    def _port(self, item: s.PortDecl) -> Port | None:
        """None after a fault."""
        name = item.name
        first = self._ports.get(name.text)
        if first is not None:
            self._context.called_twice("ports", name, first.span)
        type_ = None if item.type is None else self._evaluate.type(item.type, self._asked)
        rates = self._evaluate.rates(item.rate, self._asked, item.span)
        window = None if item.window is None else self._window(item, item.window, rates)
        faulty_type = item.type is not None and type_ is None
        faulty_window = item.window is not None and window is None
        if rates is None or first is not None or faulty_type or faulty_window:
            return None
        count = self._count(item)
        listed = isinstance(item.rate, s.Phases) or count
        stacked = bool(listed) or rates[0] > 1 or window is not None
        if window is None or set(rates) == {window}:  # a firing sees what it consumes, no more
            window = 0
        return Port(name.text, item.direction, type_, rates, stacked, item.span, window, count)

    def _count(self, item: s.PortDecl) -> str:
        """The name of the count of a rate `up to`; empty for other rates."""
        if not isinstance(item.rate, s.UpTo):
            return ""
        if item.window is not None:
            message = f"`{item.name.text}` has a rate `up to`, and no window"
            help_text = "a window needs as many tokens at each firing"
            self._context.fault("F105", message, item.window.span, help=help_text)
        return item.name.text if item.rate.count is None else item.rate.count.text

    def _window(
        self, item: s.PortDecl, window: s.WindowDecl, rates: tuple[int, ...] | None
    ) -> int | None:
        """How many tokens a firing sees, the new ones among them; None after a fault."""
        if item.direction == "out":
            message = f"`{item.name.text}` is an output, and has no window"
            help_text = "write `window` at the input that reads it: each reader has its own"
            self._context.fault("F105", message, window.span, help=help_text)
            return None
        return self._evaluate.integer(window.size, self._asked, "the window", max(rates or (1,)))

    def _fixed_type(self, item: s.StateDecl | s.ScratchDecl) -> TensorType | None:
        """The type of memory that stays as large as it is; None after a fault."""
        type_ = self._evaluate.type(item.type, self._asked)
        if type_ is None or not type_.varies:
            return type_
        message = f"`{item.name.text}` is memory of code in C or CUDA, and has a fixed size"
        self._context.fault("F224", message, item.type.span, help=f"write {type_.largest}")
        return None

    def _declare_state(self, item: s.StateDecl) -> None:
        type_ = self._fixed_type(item)
        first = self._arrays.setdefault(item.name.text, item.name.span)
        if first != item.name.span:
            self._context.called_twice("state variables", item.name, first)
        if type_ is not None:
            self._state.append(StateField(item.name.text, type_))

    def _declare_scratch(self, item: s.ScratchDecl) -> None:
        name = item.name
        type_ = self._fixed_type(item)
        if name.text in self._arrays:
            self._context.called_twice("arrays", name, self._arrays[name.text])
        elif name.text in self._ports:
            self._context.called_twice("arrays", name, self._ports[name.text].span)
        self._arrays.setdefault(name.text, name.span)
        if type_ is not None:
            self._scratch.append(StateField(name.text, type_))

    def _declare_events(self, item: s.EventsDecl) -> None:
        """The events that the task may raise; their names are keyword arguments of its code."""
        parameters = {p.name.text: p.name for p in self._declaration.params}
        for word in item.names:
            first = self._events.get(word.text) or parameters.get(word.text)
            if first is not None:
                message = f"`{word.text}` is taken"
                self._context.repeated(
                    "F102", message, word.span, first.span, help="rename the event"
                )
            self._events[word.text] = word

    def _firing(self, parameters: tuple[str, ...]) -> FiringText:
        inputs = tuple(port.name for port in self._inputs)
        return FiringText(self._name, inputs, parameters, bool(self._state))

    # -- code --------------------------------------------------------------------------------------
    def _implementations(self) -> tuple[Implementation, ...]:
        """One for each kind of processor and language; kernels of one task are one of them."""
        launches = LaunchBuilder(
            self._context,
            self._evaluate,
            self._declaration,
            self._ports,
            (*self._state, *self._scratch),
            self._arguments,
        )
        firing = self._firing((*self._arguments, *self._events))
        made: dict[tuple[str, str], Implementation] = {}
        for item in self._all(s.ImplementationDecl):
            known = firing if self._good else None
            code = self._code.implementation(item, known, tuple(made.values()), launches)
            if code is None:
                continue
            self._check_events(item, code)
            key = code.kind, code.language
            made.pop(key, None)
            made[key] = code
        return tuple(made.values())

    def _check_events(self, item: s.ImplementationDecl, code: Implementation) -> None:
        """Check that the code can raise the events of its task."""
        if not self._events:
            return
        if code.language != "python":
            message = (
                f"task `{self._name}` raises {listed(self._events)}, and {code.language} code"
                " cannot"
            )
            help_text = "events are raised from Python, in the program's own process"
            self._context.fault("F807", message, item.span, help=help_text)
            self._good = False
            return
        if code.passes is None:
            return
        deaf = [event for event in self._events if event not in code.passes]
        if deaf:
            name = f"{code.symbol}.__init__" if code.is_class else code.symbol
            message = f"`{name}` does not take {listed(deaf)}"
            help_text = f"give it a keyword argument `{deaf[0]}`: the event is raised by calling it"
            self._context.fault("F807", message, item.code.span, help=help_text)
            self._good = False

    def _is_stateless(self, implementations: tuple[Implementation, ...]) -> bool:
        """True if the text says so, or if all of its code keeps nothing between two firings."""
        if self._state:
            return False
        if self._all(s.StatelessDecl):
            return True
        return bool(implementations) and all(_keeps_nothing(i) for i in implementations)

    def _check_stateless(self) -> None:
        stateless = self._all(s.StatelessDecl)
        if stateless and self._state:
            message = "a task with `state` is not `stateless`"
            span = stateless[-1].span
            self._context.fault("F304", message, span, help="remove one of the two")

    def _check_live(self) -> None:
        live = self._all(s.LiveDecl)
        if live and self._inputs:
            message = "only a source waits for data from outside"
            help_text = "remove it: this task has inputs from inside the app"
            self._context.fault("F217", message, live[-1].span, help=help_text)

    def _check_kernel_memory(self, implementations: tuple[Implementation, ...]) -> None:
        """Every output is an argument of some kernel, and only kernels have scratch memory."""
        clauses = [i for i in self._all(s.ImplementationDecl) if i.language.text == "cuda"]
        kernels = next((i for i in implementations if i.language == "cuda"), None)
        if kernels is None:
            if not clauses:
                self._refuse_scratch()
            return
        if len(kernels.launches) != len(clauses):  # a faulty kernel may have been the one
            return
        written = set(chain.from_iterable(launch.arguments for launch in kernels.launches))
        for port in self._outputs:
            if port.name not in written:
                message = f"no kernel of `{self._name}` gets its output `{port.name}`"
                help_text = "name it among the arguments"
                self._context.fault("F309", message, port.span, help=help_text)

    def _refuse_scratch(self) -> None:
        """Report the scratch memory of a task without kernels."""
        places = {item.name.text: item.span for item in self._all(s.ScratchDecl)}
        for array in self._scratch:
            message = f"`{array.name}` is scratch memory, and task `{self._name}` has no kernels"
            self._context.fault("F309", message, places[array.name], help="remove it")

    # -- times -------------------------------------------------------------------------------------
    def _times(self, wcet: s.WcetDecl) -> TimesByType:
        """Its declared times; each has as many phases as the rates."""
        times = times_by_type(wcet, self._evaluate, self._context, self._asked)
        for declared in wcet.times:
            on = "" if declared.on is None else declared.on.text
            self._check_phases(declared, len(times.get(on, ())))
        return times

    def _check_rate_lists(self) -> None:
        """Rate lists of a task have the same length."""
        if len({rates.length for rates in self._rate_lists}) > 1:
            self._report_rate_lists()
            self._good = False

    def _check_phases(self, declared: s.FiringTimeDecl, phases: int) -> None:
        """A list of times has the length of the rate lists."""
        lengths = {rates.length for rates in self._rate_lists}
        if phases > 1 and lengths - {phases}:
            message = f"`wcet` has {phases} phases, the rates {max(lengths)}"
            self._context.fault("F106", message, declared.span)
            self._good = False

    def _report_rate_lists(self) -> None:
        """Report the first list whose length differs from that of the first port."""
        first = self._rate_lists[0]
        other = next(rates for rates in self._rate_lists if rates.length != first.length)
        note = Note(f"`{first.port}` has {first.length} phases", first.span)
        self._context.fault(
            "F106",
            f"`{other.port}` has {other.length} phases, `{first.port}` has {first.length}",
            other.span,
            notes=[note],
            help="all rate lists of a task need the same length; a number holds in every phase",
        )


def _keeps_nothing(code: Implementation) -> bool:
    """True if the code is a function."""
    return code.language == "cuda" or (code.language == "python" and not code.is_class)
