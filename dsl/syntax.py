"""The syntax tree of a `.flow` text, before any name is looked up.

Every node carries its span. Names have spans of their own where a fault may point at them. All
nodes can be imported from here; those of expressions, and of platforms with their mappings, have
modules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..model.span import Span
from .expression_syntax import Binary as Binary
from .expression_syntax import Call as Call
from .expression_syntax import Element as Element
from .expression_syntax import Expr as Expr
from .expression_syntax import Extent as Extent
from .expression_syntax import Name as Name
from .expression_syntax import Number as Number
from .expression_syntax import Quantity as Quantity
from .expression_syntax import Sign as Sign
from .expression_syntax import Text as Text
from .expression_syntax import TypeExpr as TypeExpr
from .expression_syntax import UpToSize as UpToSize
from .expression_syntax import Word as Word
from .platform_syntax import BandsDecl as BandsDecl
from .platform_syntax import ClockDecl as ClockDecl
from .platform_syntax import ContentionDecl as ContentionDecl
from .platform_syntax import MachineDecl as MachineDecl
from .platform_syntax import MappingDecl as MappingDecl
from .platform_syntax import ModuleDecl as ModuleDecl
from .platform_syntax import PinDecl as PinDecl
from .platform_syntax import PlatformDecl as PlatformDecl
from .platform_syntax import PoolDecl as PoolDecl
from .platform_syntax import PoolOption as PoolOption
from .platform_syntax import PowerDecl as PowerDecl
from .platform_syntax import ProcessorName as ProcessorName
from .platform_syntax import StageDecl as StageDecl
from .platform_syntax import TensorRTDecl as TensorRTDecl
from .platform_syntax import WireDecl as WireDecl

Direction = Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class Phase:
    """`value for count`; count None = once."""

    value: Expr
    count: Expr | None


@dataclass(frozen=True, slots=True)
class Phases:
    entries: tuple[Phase, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Param:
    name: Word
    type: Word
    default: Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class UpTo:
    """A rate `up to N`; outputs with one name for their `count` always have the same."""

    most: Expr
    count: Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class WindowDecl:
    size: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class PortDecl:
    direction: Direction
    name: Word
    type: TypeExpr | None
    rate: Expr | Phases | UpTo | None
    window: WindowDecl | None
    span: Span


@dataclass(frozen=True, slots=True)
class ImplementationDecl:
    """`arguments`, `grid`, `block` and `shared` are for kernels; None = not given."""

    kind: Word | None
    language: Word
    code: Text
    arguments: tuple[Expr, ...] | None
    grid: tuple[Expr, ...] | None
    block: tuple[Expr, ...] | None
    shared: Quantity | None
    span: Span


@dataclass(frozen=True, slots=True)
class ReferenceDecl:
    language: Word
    code: Text
    span: Span


@dataclass(frozen=True, slots=True)
class ToleranceDecl:
    amount: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class ScratchDecl:
    name: Word
    type: TypeExpr
    span: Span


@dataclass(frozen=True, slots=True)
class StateDecl:
    name: Word
    type: TypeExpr
    span: Span


@dataclass(frozen=True, slots=True)
class StatelessDecl:
    span: Span


@dataclass(frozen=True, slots=True)
class LiveDecl:
    """`live`: a source that waits for data from outside."""

    span: Span


@dataclass(frozen=True, slots=True)
class OnErrorDecl:
    """`on error POLICY`; `event` is the word `error`. Behind `restart`: how often, and at which
    intervals."""

    event: Word
    policy: Word
    tries: Number | None
    every: Quantity | None
    span: Span


@dataclass(frozen=True, slots=True)
class EventsDecl:
    """`event a, b`: events that a task raises, or that are raised from outside."""

    names: tuple[Word, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FiringTimeDecl:
    """`2 ms on big`: of a firing on processors of a type or a kind; without `on`, on all others."""

    amount: Expr | Phases
    unit: Word
    on: Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class WcetDecl:
    times: tuple[FiringTimeDecl, ...]
    span: Span


TaskItem = (
    PortDecl
    | ImplementationDecl
    | ReferenceDecl
    | ToleranceDecl
    | StateDecl
    | ScratchDecl
    | StatelessDecl
    | LiveDecl
    | OnErrorDecl
    | WcetDecl
    | EventsDecl
)


@dataclass(frozen=True, slots=True)
class TaskDecl:
    name: Word
    params: tuple[Param, ...]
    items: tuple[TaskItem, ...]
    doc: str
    span: Span

    @property
    def in_c(self) -> bool:
        """Has it code in C or C++?"""
        codes = [item for item in self.items if isinstance(item, ImplementationDecl)]
        return any(code.language.text == "c" for code in codes)


@dataclass(frozen=True, slots=True)
class NetPort:
    """`value`: the input is a constant, and no port. `sizes` stand at some of its tensors."""

    direction: Direction
    name: Word
    type: TypeExpr | None
    value: tuple[Expr, ...] | None
    tensors: tuple[Text, ...]
    sizes: tuple[tuple[Expr, ...] | None, ...]
    wrap_kind: Word | None
    wrap: Text | None
    span: Span


@dataclass(frozen=True, slots=True)
class SettingDecl:
    """`precision NAME within 25 dB`, `calibrate "..."`, `batch N`, `library "..."` of a network."""

    key: str
    value: Word | Expr
    span: Span
    within: Quantity | None = None


@dataclass(frozen=True, slots=True)
class VariantDecl:
    """`variant NAME from "file" { ports } accuracy 0.7`; its ports override those of the
    network."""

    name: Word
    file: Text
    ports: tuple[NetPort, ...]
    accuracy: Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class NetworkDecl:
    name: Word
    file: Text | None
    items: tuple[NetPort | SettingDecl | VariantDecl | OnErrorDecl, ...]
    doc: str
    span: Span

    @property
    def variants(self) -> tuple[VariantDecl, ...]:
        """Its variants, in the order of the text."""
        return tuple(i for i in self.items if isinstance(i, VariantDecl))


@dataclass(frozen=True, slots=True)
class Boundary:
    """A port of a graph, or an open end of an app."""

    direction: Direction
    name: Word
    type: TypeExpr | None
    rate: UpTo | None
    span: Span


@dataclass(frozen=True, slots=True)
class Arg:
    name: Word
    value: Expr


@dataclass(frozen=True, slots=True)
class Lossy:
    """`latest`, or `drop oldest N`: keeps only the newest tokens. `what` is None, or the word
    behind `drop`.

    Between two apps, `wcet` is the worst-case time of writing a token, and of reading one.
    """

    what: Word | None
    keep: Expr | None
    span: Span
    wcet: WcetDecl | None = None


@dataclass(frozen=True, slots=True)
class InstanceDecl:
    element: Element
    of: Word
    args: tuple[Arg, ...]
    every: Quantity | None
    lossy: Lossy | None
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`instance`, `instance.port`, or, in another app, `App.instance.port`: `inner` follows the
    element.
    """

    element: Element
    inner: tuple[Element, ...]
    span: Span

    @property
    def port(self) -> Word | None:
        """The port, where there is one."""
        return self.inner[0].name if self.inner else None


@dataclass(frozen=True, slots=True)
class Delay:
    """`delay count = values`; values None = zeros, an expression = the same for each token."""

    count: Expr
    values: tuple[Expr, ...] | None
    listed: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Resample:
    """`repeat count of block`, or `last count of block`; without `of`, blocks are single tokens."""

    word: Word
    count: Expr
    block: Expr | None
    span: Span


@dataclass(frozen=True, slots=True)
class Targets:
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class ArrowChain:
    hops: tuple[Targets | Delay | Resample | Lossy, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TimingDecl:
    """`period` or `deadline` of an app."""

    key: str
    value: Quantity
    span: Span


@dataclass(frozen=True, slots=True)
class Priority:
    """`priority N` of an app."""

    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class ShareDecl:
    """`share 30 % of 20 ms` of an app; the period may be left out."""

    percent: Expr
    period: Quantity | None
    span: Span


@dataclass(frozen=True, slots=True)
class RequestsDecl:
    """`batch up to 8 within 2 ms` of an app with open ends."""

    most: Expr
    within: Quantity
    span: Span


@dataclass(frozen=True, slots=True)
class PathDeadlineDecl:
    """`deadline 40 ms from cam to log`, or `reaction 40 ms from cam to log`; `to` is that word."""

    key: Literal["deadline", "reaction"]
    value: Quantity
    source: tuple[Element, ...]
    to: Word
    sink: tuple[Element, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class GraphDecl:
    name: Word
    params: tuple[Param, ...]
    items: tuple[Boundary | InstanceDecl | ArrowChain, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class AppDecl:
    name: Word
    items: tuple[
        TimingDecl
        | PathDeadlineDecl
        | Priority
        | ShareDecl
        | RequestsDecl
        | Boundary
        | InstanceDecl
        | ArrowChain,
        ...,
    ]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class RunDecl:
    """`run A, B period 1/20 s`, or with `levels` `period [1/30, 1/20] s`."""

    apps: tuple[Word, ...]
    period: Quantity | None
    levels: tuple[Quantity, ...]
    deadline: Quantity | None
    span: Span


@dataclass(frozen=True, slots=True)
class ChoiceDecl:
    """`App.network = variant`."""

    path: tuple[Element, ...]
    variant: Word
    span: Span


@dataclass(frozen=True, slots=True)
class WeightDecl:
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class PreferDecl:
    """`prefer accuracy 0.2, throughput 0.8`."""

    criteria: tuple[tuple[Word, Expr], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ModeDecl:
    """`initial state NAME { ... }`."""

    initial: bool
    name: Word
    items: tuple[RunDecl | ChoiceDecl | WeightDecl | PowerDecl | PreferDecl, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TransitionDecl:
    """`a, b -> c on x, App.task.y`, or `a -> b after 3 s`, maybe `at once`."""

    sources: tuple[Word, ...]
    target: Word
    events: tuple[tuple[Element, ...], ...]
    after: Quantity | None
    at_once: bool
    span: Span


@dataclass(frozen=True, slots=True)
class MinimiseDecl:
    """`minimise energy`."""

    what: Word
    span: Span


@dataclass(frozen=True, slots=True)
class ScenarioDecl:
    name: Word
    items: tuple[EventsDecl | ModeDecl | TransitionDecl | MinimiseDecl, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class UseDecl:
    file: Text
    span: Span


@dataclass(frozen=True, slots=True)
class ConstDecl:
    name: Word
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class TypeDecl:
    name: Word
    type: TypeExpr
    span: Span


#: Declarations with a name that the rest of the text may use.
Named = (
    ConstDecl
    | TypeDecl
    | TaskDecl
    | NetworkDecl
    | GraphDecl
    | AppDecl
    | PlatformDecl
    | ScenarioDecl
)
Declaration = UseDecl | MappingDecl | Named


@dataclass(frozen=True, slots=True)
class Specification:
    """One parsed file. `poisoned` are names whose declaration did not parse: using them is not a
    second fault.
    """

    path: str
    declarations: tuple[Declaration, ...]
    poisoned: frozenset[str]
