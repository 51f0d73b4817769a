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
from .wiring import HopOfChain, InitialTokens, LossyArrow, Resampled, Step


class Chains:
    """Splits the chains of one block. `skipped` are the instances that faulty chains do not reach:
    no missing arrow is reported for them."""

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self._context, self._evaluate = context, evaluator
        self.skipped: set[str] = set()

    def arrows(self, chain: s.ArrowChain, scope: Scope) -> Iterator[HopOfChain | LossyArrow]:
        """The arrows of a chain, one after the other; after a fault, those before it."""
        source: s.Endpoint | None = None
        steps: list[Step | None] = []
        lossy: s.Lossy | None = None
        for position, hop in enumerate(chain.hops):
            following = chain.hops[position + 1] if position + 1 < len(chain.hops) else None
            if isinstance(hop, s.Targets):
                if source is not None:
                    yield from self._fanned(source, hop, steps, lossy)
                if len(hop.endpoints) > 1 and following is not None:
                    self._report_continued(hop)
                    self._leave_out(chain.hops[position:])
                    return
                source, steps, lossy = hop.endpoints[0], [], None
            elif isinstance(hop, s.Lossy):
                if steps or not isinstance(following, s.Targets):
                    self._report_lossy(hop)
                    self._leave_out(chain.hops[position:])
                    return
                lossy = hop
            else:
                steps.append(self._step(hop, scope))
        last = chain.hops[-1]
        if isinstance(last, s.Delay | s.Resample):
            what = "delay" if isinstance(last, s.Delay) else f"`{last.word.text}`"
            message = f"this {what} leads nowhere"
            self._context.fault("F210", message, last.span, help="add `-> instance` after it")

    def _fanned(
        self,
        source: s.Endpoint,
        targets: s.Targets,
        steps: Sequence[Step | None],
        lossy: s.Lossy | None,
    ) -> Iterator[HopOfChain | LossyArrow]:
        """The arrows of one hop, to each of its targets; `steps` has None after a fault."""
        known = tuple(step for step in steps if step is not None)
        for endpoint in targets.endpoints:
            span = source.span.to(endpoint.span)
            if lossy is not None:
                yield LossyArrow(source, endpoint, lossy, span)
            elif len(known) == len(steps):
                yield HopOfChain(source, endpoint, known, span)
            else:  # without its `repeat`, balance is undefined
                self.skipped.update((source.element.name.text, endpoint.element.name.text))

    def _report_continued(self, targets: s.Targets) -> None:
        message = "this chain continues after a fan-out"
        help_text = "a comma fans out at the end of a chain; write one chain for each branch"
        self._context.fault("F214", message, targets.endpoints[1].span, help=help_text)

    def _report_lossy(self, hop: s.Lossy) -> None:
        help_text = (
            "write `App.task -> latest -> task`; `delay`, `repeat` and `last` are used inside an"
            " app"
        )
        self._context.fault("F210", "this leads nowhere", hop.span, help=help_text)

    def _leave_out(self, hops: Sequence[s.Targets | s.Delay | s.Resample | s.Lossy]) -> None:
        """No missing arrow is reported for instances that a faulty chain does not reach."""
        for hop in hops:
            if isinstance(hop, s.Targets):
                self.skipped.update(endpoint.element.name.text for endpoint in hop.endpoints)

    def _step(self, hop: s.Delay | s.Resample, scope: Scope) -> Step | None:
        """None after a fault."""
        if isinstance(hop, s.Delay):
            return self._delay(hop, scope)
        return self._resampled(hop, scope)

    def _resampled(self, hop: s.Resample, scope: Scope) -> Resampled | None:
        """The meaning of a `repeat` or `last`; None after a fault."""
        word: Literal["repeat", "last"] = "repeat" if hop.word.text == "repeat" else "last"
        count = self._evaluate.integer(hop.count, scope, f"the number of a `{word}`", 1)
        block: int | None = 1
        if hop.block is not None:
            block = self._evaluate.integer(hop.block, scope, "the number of tokens", 1)
        if count is None or block is None:
            return None
        return Resampled(Resampling(word, count, block), hop.span)

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
