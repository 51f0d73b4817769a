"""The apps of a text again, with other variants of their networks.

In: a text without errors, and which instances of networks have variants. Out: flat apps with other
choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ..model.application import Application
from . import syntax as s
from .components import Components
from .context import Context
from .evaluate import Evaluator
from .flatten import Flattener
from .links import joined


class Versions:
    """`networks` are the instances that have variants."""

    def __init__(
        self,
        specifications: Sequence[s.Specification],
        context: Context,
        evaluator: Evaluator,
        components: Components,
        networks: Mapping[str, s.NetworkDecl],
    ) -> None:
        declarations = chain.from_iterable(spec.declarations for spec in specifications)
        self._apps = [d for d in declarations if isinstance(d, s.AppDecl)]
        self._context, self._evaluate, self._components = context, evaluator, components
        self.networks = networks

    def apps(self, choices: Mapping[str, str]) -> tuple[Application, ...]:
        """All apps with these variants of instances; others have the first one."""
        self._context.instances = 0  # they are the same ones again
        flatteners = [
            Flattener(self._context, self._evaluate, self._components, choices) for _ in self._apps
        ]
        flat = [f.app(d) for f, d in zip(flatteners, self._apps, strict=True)]
        return tuple(joined(flat, flatteners, self._context))

    def others(self) -> tuple[tuple[Application, ...], ...]:
        """The fewest further versions of the apps that together contain every variant."""
        names = {n: [v.name.text for v in d.variants] for n, d in self.networks.items()}
        most = max(map(len, names.values()), default=1)
        return tuple(
            self.apps({n: own[min(k, len(own) - 1)] for n, own in names.items()})
            for k in range(1, most)
        )
