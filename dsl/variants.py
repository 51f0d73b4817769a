"""Networks with variants: each variant as a network of its own, and all of them behind the same
ports.

In: a network declaration. Out: the template of one of its variants, whose tasks are called
`variant`, `variant.pre` and so on. The caller selects the variant of an instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ..model.application import Port
from ..model.diagnostic import Note, listed
from . import syntax as s
from .context import Context
from .evaluate import Evaluator
from .template import Template

#: Reserved names: tasks of a network, and the selection of the best variant.
_TAKEN = re.compile(r"(pre|post)(_.*)?|stage\d+|best")


class Variants:
    """Makes the templates of all variants of a network once, with `build`."""

    def __init__(
        self,
        context: Context,
        evaluator: Evaluator,
        build: Callable[[s.NetworkDecl], Template | None],
    ) -> None:
        self._context, self._evaluate, self._build = context, evaluator, build
        self._made: dict[str, dict[str, Template | None]] = {}

    def template(self, declaration: s.NetworkDecl, variant: str | None) -> Template | None:
        """The template of that variant, by default the first one; None after a fault."""
        name = declaration.name.text
        if name not in self._made:
            if declaration.variants:
                self._made[name] = {**self._all(declaration)}
            else:
                self._made[name] = {"": self._build(declaration)}
        made = self._made[name]
        return made.get(variant or next(iter(made), ""))

    def _all(self, declaration: s.NetworkDecl) -> dict[str, Template]:
        """All of them, by name; none after a fault."""
        if declaration.file is not None:
            note = Note("a variant", declaration.variants[0].span)
            help_text = "make the file the first variant: it is the default"
            message = f"network `{declaration.name.text}` has a file and variants"
            self._context.fault(
                "F115", message, declaration.file.span, notes=[note], help=help_text
            )
            return {}
        made: dict[str, Template] = {}
        for variant in declaration.variants:
            if not self._may_be_called(variant, declaration.variants):
                return {}
            if variant.accuracy is not None:
                self._evaluate.number(variant.accuracy, {}, "an accuracy", 0)
            with self._context.within(Note(f"variant `{variant.name.text}`", variant.span)):
                template = self._build(_alone(declaration, variant))
            if template is None:
                return {}
            if template.varies:
                message = f"variant `{variant.name.text}` has sizes that vary"
                help_text = "give all ports fixed sizes, or leave out the other variants"
                self._context.fault("F224", message, variant.span, help=help_text)
                return {}
            made[variant.name.text] = _renamed(template, variant.name.text)
        return made if self._alike(declaration, made) else {}

    def _may_be_called(
        self, variant: s.VariantDecl, all_of_them: tuple[s.VariantDecl, ...]
    ) -> bool:
        name = variant.name
        if _TAKEN.fullmatch(name.text):
            help_text = "`pre`, `post` and `stage1` are tasks of a network, and `best` is reserved"
            self._context.fault(
                "F102", f"no variant can be called `{name.text}`", name.span, help=help_text
            )
            return False
        first = next(v for v in all_of_them if v.name.text == name.text)
        if first is not variant:
            self._context.called_twice("variants", name, first.name.span)
        return first is variant

    def _alike(self, declaration: s.NetworkDecl, made: dict[str, Template]) -> bool:
        """Check that all variants have the ports of the first one."""
        first, *others = declaration.variants
        good = True
        template = made[first.name.text]
        for variant in others:
            other = made[variant.name.text]
            good &= self._same_ports(first, variant, template.inputs, other.inputs)
            good &= self._same_ports(first, variant, template.outputs, other.outputs)
        return good

    def _same_ports(
        self,
        first: s.VariantDecl,
        other: s.VariantDecl,
        ports: dict[str, tuple[str, Port]],
        other_ports: dict[str, tuple[str, Port]],
    ) -> bool:
        names = first.name.text, other.name.text
        notes = [Note(f"`{names[0]}`", first.span)]
        if ports.keys() != other_ports.keys():
            lone = sorted(ports.keys() ^ other_ports.keys())
            has, lacks = names if lone[0] in ports else names[::-1]
            message = (
                f"`{has}` has {listed(lone)}, and `{lacks}` has not: all variants have the same"
                " ports"
            )
            help_text = (
                "declare the ports in the network, and name tensors with `from` in"
                f" `{other.name.text}`"
            )
            self._context.fault("F805", message, other.span, notes=notes, help=help_text)
            return False
        for name, (_, port) in ports.items():
            _, theirs = other_ports[name]
            if port.type != theirs.type:
                message = f"`{name}` is {port.type} in `{names[0]}`, {theirs.type} in `{names[1]}`"
                word = "pre" if port.direction == "in" else "post"
                help_text = (
                    f"convert it in one of them: `{port.direction} {name}: TYPE {word}"
                    ' "file.py:function"`'
                )
                self._context.fault("F805", message, other.span, notes=notes, help=help_text)
                return False
        return True


def _alone(declaration: s.NetworkDecl, variant: s.VariantDecl) -> s.NetworkDecl:
    """A variant as a network without variants: its ports override those of the network."""
    own = {p.name.text: p for p in variant.ports}
    items: list[s.NetPort | s.SettingDecl | s.OnErrorDecl] = []
    for item in declaration.items:
        if isinstance(item, s.NetPort):
            items.append(_over(own.pop(item.name.text), item) if item.name.text in own else item)
        elif not isinstance(item, s.VariantDecl):
            items.append(item)
    name = s.Word(f"{declaration.name.text}.{variant.name.text}", variant.name.span)
    return s.NetworkDecl(name, variant.file, (*items, *own.values()), declaration.doc, variant.span)


def _over(own: s.NetPort, shared: s.NetPort) -> s.NetPort:
    """A port of a variant."""
    wrapped = own if own.wrap is not None else shared
    return replace(
        own,
        type=own.type or shared.type,
        value=own.value or shared.value,
        tensors=own.tensors or shared.tensors,
        sizes=own.sizes or shared.sizes,
        wrap_kind=wrapped.wrap_kind,
        wrap=wrapped.wrap,
    )


def _renamed(template: Template, variant: str) -> Template:
    """The template with the name of the variant in front of its tasks."""

    def full(relative: str) -> str:
        return f"{variant}.{relative}" if relative else variant

    return Template(
        tuple(replace(t, name=full(t.name)) for t in template.tasks),
        tuple(
            replace(x, source=full(x.source), destination=full(x.destination))
            for x in template.links
        ),
        {n: (full(task), port) for n, (task, port) in template.inputs.items()},
        {n: (full(task), port) for n, (task, port) in template.outputs.items()},
    )
