"""Templates of instances, from task and network declarations with their arguments."""

from __future__ import annotations

from fractions import Fraction

from ..model.application import FilePath, Parameter
from ..model.diagnostic import Note, did_you_mean, one_of
from ..model.span import Span
from ..model.system import DeclaredTask
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope, shown
from .network_templates import NetworkBuilder
from .task_code import TaskCode
from .task_templates import TaskBuilder
from .template import Template, beside, unreadable
from .variants import Variants

#: Maximum bytes of a file parameter: its content is part of the identity of a measured time.
MOST_DATA = 1 << 30
PARAMETER_TYPES = ("int", "float", "bool", "string", "file")
#: Values of these types.
_ANY: dict[str, Parameter] = {
    "int": 1,
    "float": Fraction(1),
    "bool": True,
    "string": "",
    "file": FilePath("", ""),
}


class Components:
    """Makes templates, each once per set of arguments."""

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self._context = context
        self._evaluate = evaluator
        self._templates: dict[tuple[str, tuple[tuple[str, Parameter], ...]], Template | None] = {}
        self._code = TaskCode(context)
        self._variants = Variants(
            context, evaluator, NetworkBuilder(context, evaluator, self._code.python).build
        )

    # -- parameters --------------------------------------------------------------------------------
    def bind(
        self, params: tuple[s.Param, ...], args: tuple[s.Arg, ...], of: s.Word, scope: Scope
    ) -> dict[str, Parameter] | None:
        """Arguments and defaults to values, by parameter name in declaration order; None after a
        fault.
        """
        by_name, good = self._by_parameter(params, args, of)
        bound: dict[str, Parameter] = {}
        for param in params:
            name = param.name.text
            value: Parameter | None = None
            if name in by_name:
                value = self._argument(param, by_name[name].value, scope)
            elif param.default is not None:
                value = self._argument(param, param.default, {})
            else:
                self._without_value(param, of)
            if value is None:
                good = False
            else:
                bound[name] = value
        return bound if good else None

    def _by_parameter(
        self, params: tuple[s.Param, ...], args: tuple[s.Arg, ...], of: s.Word
    ) -> tuple[dict[str, s.Arg], bool]:
        """The arguments by the names of their parameters, and whether all of them have one."""
        by_name: dict[str, s.Arg] = {}
        known = {p.name.text for p in params}
        good = True
        for arg in args:
            name = arg.name.text
            if name in by_name:
                self._context.fault("F108", f"`{name}` is given twice", arg.name.span)
            elif name in known:
                by_name[name] = arg
            else:
                self._without_parameter(arg, params, of)
                good = False
        return by_name, good

    def _without_parameter(self, arg: s.Arg, params: tuple[s.Param, ...], of: s.Word) -> None:
        names = dict.fromkeys(p.name.text for p in params)
        help_text = did_you_mean(arg.name.text, names)
        if names and not help_text:
            help_text = f"it has {one_of(names)}"
        message = f"`{of.text}` has no parameter `{arg.name.text}`"
        self._context.fault("F108", message, arg.name.span, help=help_text)

    def _without_value(self, param: s.Param, of: s.Word) -> None:
        name = param.name.text
        self._context.fault(
            "F108",
            f"`{of.text}` needs a value for `{name}`",
            of.span,
            notes=[Note("declared here, without a default", param.span)],
            help=f"write `{of.text}({name} = ...)`",
        )

    def _argument(self, param: s.Param, expr: s.Expr, scope: Scope) -> Parameter | None:
        """The value of a parameter; None after a fault."""
        value = self._evaluate.value(expr, scope)
        kind = param.type.text
        if value is None or kind not in PARAMETER_TYPES:
            return None
        if kind == "file" and isinstance(value, str):
            return self._file(value, expr.span)
        fitting = _of_type(value, kind)
        if fitting is None:
            note = Note(f"`{param.name.text}` is {kind}", param.span)
            message = f"{shown(value)} is not a value of type {kind}"
            self._context.fault("F108", message, expr.span, notes=[note])
        return fitting

    def _file(self, path: str, span: Span) -> FilePath | None:
        """A file that exists; None after a fault."""
        place = beside(span, path)
        reason = unreadable(place, MOST_DATA)
        if reason:
            self._context.fault("F301", f"`{path}` {reason}", span, label=f"looked for `{place}`")
            return None
        return FilePath(path, str(place))

    def check_params(self, params: tuple[s.Param, ...]) -> None:
        """Errors of a parameter list by itself."""
        seen: dict[str, s.Param] = {}
        for param in params:
            first = seen.setdefault(param.name.text, param)
            if first is not param:
                self._context.called_twice("parameters", param.name, first.name.span)
            kind = param.type
            if kind.text not in PARAMETER_TYPES:
                help_text = did_you_mean(kind.text, PARAMETER_TYPES)
                help_text = help_text or f"use {one_of(PARAMETER_TYPES)}"
                message = f"`{kind.text}` is no parameter type"
                self._context.fault("F101", message, kind.span, help=help_text)
            elif param.default is not None:
                self._argument(param, param.default, {})

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
            builder = TaskBuilder(self._context, self._evaluate, self._code, declaration, arguments)
            self._templates[key] = builder.build()
        return self._templates[key]

    def declared(self, declaration: s.TaskDecl) -> DeclaredTask | None:
        """A task that has no fault by itself, with the arguments of a template that was made, or
        with any; None if no arguments were found for it."""
        for (name, _), template in self._templates.items():
            if name == declaration.name.text and template is not None:
                return DeclaredTask(template.tasks[0], False)
        context = Context(self._context.names)
        arguments = {p.name.text: _ANY[p.type.text] for p in declaration.params}
        evaluate, code = Evaluator(context), TaskCode(context)
        template = TaskBuilder(context, evaluate, code, declaration, arguments).build()
        if template is None or context.faults:
            return None
        return DeclaredTask(template.tasks[0], bool(template.tasks[0].fixed))


def _of_type(value: Parameter, kind: str) -> Parameter | None:
    """The value as one of that type; None if it is of another one."""
    match kind, value:
        case "bool", bool():
            return value
        case _, bool():  # Python takes it for a number
            return None
        case "float", int() | Fraction():
            return Fraction(value)
        case ("int", int()) | ("string", str()) | ("file", FilePath()):
            return value
    return None
