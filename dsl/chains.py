"""Chains such as `a -> delay 1 -> b, c` to arrows between two ends each.

In: a chain, and the scope in which its numbers are evaluated. Out: arrows, or diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from ..model.application import Resampling
from . import syntax as s
from .channels import MOST_INITIAL
from .context import Context
from .evaluate import Evaluator, Scope
from .wiring import Arrow, InitialTokens, LossyArrow, Resampled, Step


class Chains:
    """Splits the chains of one block. `skipped` are the instances that faulty chains do not reach:
    no missing arrow is reported for them."""

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self._context, self._evaluate = context, evaluator
        self.skipped: set[str] = set()

    def arrows(self, chain: s.Chain, scope: Scope) -> Iterator[Arrow | LossyArrow]:
        """The arrows of a chain, one after the other; after a fault, those before it."""
        current: s.Endpoint | None = None
        steps: list[Step | None] = []
        pending: s.Delay | s.Resample | None = None
        lossy: s.Lossy | None = None
        for i, hop in enumerate(chain.hops):
            if isinstance(hop, (s.Delay, s.Resample)):
                steps.append(
                    self._delay(hop, scope)
                    if isinstance(hop, s.Delay)
                    else self._resampled(hop, scope)
                )
                pending = hop
                continue
            if isinstance(hop, s.Lossy):
                lossy = hop
                if (
                    i + 1 == len(chain.hops)
                    or not isinstance(chain.hops[i + 1], s.Targets)
                    or pending is not None
                ):
                    help_text = (
                        "write `App.task -> latest -> task`; `delay`, `repeat` and `last` are used"
                        " inside an app"
                    )
                    self._context.fault("F210", "this leads nowhere", hop.span, help=help_text)
                    self._leave_out(chain.hops[i:])
                    return
                continue
            known = tuple(step for step in steps if step is not None)
            for endpoint in hop.endpoints:
                if current is not None and lossy is not None:
                    yield LossyArrow(current, endpoint, lossy, current.span.to(endpoint.span))
                elif current is not None and len(known) == len(steps):
                    yield Arrow(current, endpoint, known, current.span.to(endpoint.span))
                elif current is not None:  # without its `repeat`, balance is undefined
                    self.skipped.update((current.element.name.text, endpoint.element.name.text))
            if len(hop.endpoints) > 1 and i + 1 < len(chain.hops):
                help_text = (
                    "a comma fans out at the end of a chain; write one chain for each branch"
                )
                self._context.fault(
                    "F214",
                    "this chain continues after a fan-out",
                    hop.endpoints[1].span,
                    help=help_text,
                )
                self._leave_out(chain.hops[i:])
                return
            current, steps, pending, lossy = hop.endpoints[0], [], None, None
        if pending is not None:
            what = "delay" if isinstance(pending, s.Delay) else f"`{pending.word.text}`"
            self._context.fault(
                "F210",
                f"this {what} leads nowhere",
                pending.span,
                help="add `-> instance` after it",
            )

    def _leave_out(self, hops: Sequence[s.Targets | s.Delay | s.Resample | s.Lossy]) -> None:
        """No missing arrow is reported for instances that a faulty chain does not reach."""
        self.skipped.update(
            e.element.name.text for hop in hops if isinstance(hop, s.Targets) for e in hop.endpoints
        )

    def _resampled(self, hop: s.Resample, scope: Scope) -> Resampled | None:
        """The meaning of a `repeat` or `last`; None after a fault."""
        word: Literal["repeat", "last"] = "repeat" if hop.word.text == "repeat" else "last"
        count = self._evaluate.integer(hop.count, scope, f"the number of a `{word}`", 1)
        block = (
            1
            if hop.block is None
            else self._evaluate.integer(hop.block, scope, "the number of tokens", 1)
        )
        return (
            None
            if count is None or block is None
            else Resampled(Resampling(word, count, block), hop.span)
        )

    def _delay(self, hop: s.Delay, scope: Scope) -> InitialTokens:
        count = self._evaluate.integer(hop.count, scope, "the delay", 0)
        if count is None or hop.values is None:
            return InitialTokens(count or 0, ())
        if count > MOST_INITIAL:
            self._context.fault(
                "F105",
                f"values for {count} initial tokens",
                hop.count.span,
                label=f"at most {MOST_INITIAL}",
            )
            return InitialTokens(count, ())
        values = [self._evaluate.number(v, scope, "an initial token") for v in hop.values]
        known = tuple(v for v in values if v is not None)
        if len(known) != len(values):
            return InitialTokens(count, ())
        if hop.listed and len(known) != count:
            self._context.fault(
                "F210",
                f"{len(known)} values for a delay of {count}",
                hop.span,
                help="give one value per token",
            )
            return InitialTokens(count, ())
        return InitialTokens(count, known if hop.listed else known * count)
