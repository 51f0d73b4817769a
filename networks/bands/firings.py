"""A plan: segments of a network in bands, each a run of units that fire in turn, and what every
firing moves and keeps.

In: a `BandNet` and what a text or a search says of it (`Bands`). Out: a `BandPlan`: firings in
order, and every stretch of memory with its size and life, placed in one arena. Tensors at the ends
of segments are whole; between units a line buffer keeps the rows that later firings need. Inputs
and outputs of the network are tokens: not in the arena.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ...analysis.placement import MemoryBlock, PlacedBlocks, place
from ...model.mapping import Bands
from .inner import inner_bytes, whole_inner_bytes
from .net import Band, BandNet
from .units import BandUnit, cuts_of, macs, unit_of

#: Arrays begin at multiples of it.
ALIGNED = 64
#: Bands of a network: more make a program that does nothing but begin them.
MOST_BANDS = 10_000
#: Bytes that a program keeps for each firing: arrays and bindings that were made beforehand.
HELD = 1800
#: Bytes that ONNX Runtime 1.31 and 1.32 keep for a session and for each of its nodes, in plain
#: models and in those of its own graph: fitted to what malloc counted for 34 plans of six networks,
#: right to 6 %.
KEPT = (71_000, 8_600), (19_000, 9_800)


class CannotBand(ValueError):
    """A network cannot be done in such bands; `about` is the tensor or number that the message
    speaks of."""

    def __init__(self, code: str, message: str, help: str, about: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.help, self.about = code, message, help, about


@dataclass(frozen=True, slots=True)
class BandSegment:
    """Units that fire in turn, so that the last one makes `rows` rows each time; None: whole, one
    unit."""

    units: tuple[BandUnit, ...]
    rows: int | None


class BandFiring(NamedTuple):
    """A unit makes rows `band` of what it makes (None: everything) from `reads`, the rows of each
    tensor."""

    unit: BandUnit
    band: Band | None
    reads: tuple[tuple[str, Band], ...]


#: Where rows lie: ("token", tensor), ("whole", tensor), ("line", tensor), or scratch of a firing:
#: ("gather", number, tensor) of what is read, ("made", number, tensor).
Key = tuple[str | int, ...]


class View(NamedTuple):
    """Rows [first, end) of what lies at `key`, which holds `held` rows of the tensor."""

    key: Key
    tensor: str
    held: Band
    rows: Band


class Move(NamedTuple):
    """Rows are copied from a view to another one."""

    source: View
    target: View


class BandCall(NamedTuple):
    """What is done for a firing: copies before, a run that reads and writes views as they lie,
    copies after."""

    firing: BandFiring
    before: tuple[Move, ...]
    reads: tuple[View, ...]
    makes: tuple[View, ...]
    after: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class BandPlan:
    """`items` by key with the firings [first, last] of their lives; `placed` gives offsets in the
    arena.

    `block` is what ONNX Runtime holds at most in a firing (an estimate), `work` the multiplications
    beyond those of the network, as a share; `moved` the bytes that are copied. The layers that make
    `dictated_by` need the block.
    """

    net: BandNet
    segments: tuple[BandSegment, ...]
    calls: tuple[BandCall, ...]
    items: dict[Key, MemoryBlock]
    placed: PlacedBlocks
    block: int
    work: float
    moved: int
    dictated_by: str = ""
    offsets: dict[Key, int] = field(default_factory=dict)

    @property
    def arena(self) -> int:
        """Bytes of our own."""
        return self.placed.total

    @property
    def kinds(self) -> tuple[BandFiring, ...]:
        """A firing for each model that it takes."""
        return tuple({kind_of(c.firing): c.firing for c in self.calls}.values())

    @property
    def weights(self) -> int:
        """Bytes of the weights of all models: units with several kinds of firings have copies of
        theirs.

        Not in ONNX Runtime's own layout, where sessions share them.
        """
        if self.net.blocked:
            return sum(s.weights for s in self.net.steps)
        return sum(s.weights for firing in self.kinds for s in firing.unit.steps)

    @property
    def sessions(self) -> int:
        """Bytes that ONNX Runtime keeps for the sessions of all models, beside their weights.

        What it would keep for one of the whole network is not in it: every network has that.
        """
        session, node = KEPT[self.net.blocked]
        more = sum(map(nodes_of, self.kinds)) - len(self.net.steps)
        return max(0, session * (len(self.kinds) - 1) + node * more)


def nodes_of(firing: BandFiring) -> int:
    """The nodes of its model."""
    unit, band = firing.unit, firing.band
    if band is None:
        return len(unit.steps)
    # in blocks between two Reshapes
    slices = [3 if t in unit.net.blocks else 1 for t, _, _ in cuts_of(unit, *band)]
    return len(unit.readings(*band)) + sum(slices)


def kind_of(firing: BandFiring) -> tuple[object, ...]:
    """Firings of one kind share a session."""
    unit = firing.unit
    return unit.first, unit.end, None if firing.band is None else unit.kind(*firing.band)


def segments_of(
    net: BandNet, bands: Sequence[Bands], known: dict[Band, BandUnit] | None = None
) -> tuple[BandSegment, ...]:
    """The segments that a text asks for, and the rest in one. Raises CannotBand."""
    segments: list[BandSegment] = []
    begin = 0
    for number, wish in enumerate(bands, 1):
        end = len(net.groups)
        if wish.until is not None:
            end = _after(net, wish.until, "until", begin)
        elif number < len(bands):
            raise CannotBand(
                "F523", "nothing is left for the next bands", "say `until` where these end", "until"
            )
        borders = [begin]
        for keep in wish.keep:
            at = _after(net, keep, "keep", borders[-1])
            if at >= end:
                message = f"`{keep}` is not made before the bands end"
                raise CannotBand(
                    "F523", message, "keep tensors between the units of these bands", keep
                )
            borders.append(at)
        units = tuple(unit_of(net, a, b, known) for a, b in pairwise([*borders, end]))
        _require(net, units, wish)
        segments.append(BandSegment(units, wish.rows))
        begin = end
    if begin < len(net.groups):
        segments.append(BandSegment((unit_of(net, begin, len(net.groups), known),), None))
    return tuple(segments)


def _after(net: BandNet, tensor: str, word: str, begin: int) -> int:
    """The number of groups up to the one that makes a tensor. Raises CannotBand."""
    made = net.made.get(tensor)
    if made is None:
        raise _not_made(net, tensor)
    if made < begin:
        raise CannotBand(
            "F523",
            f"`{tensor}` is made too early for `{word}`",
            "name tensors from front to back",
            tensor,
        )
    return made + 1


def _not_made(net: BandNet, tensor: str) -> CannotBand:
    """The fault of naming what no group makes."""
    from difflib import get_close_matches

    for group in net.groups:
        if any(tensor in net.steps[k].makes for k in group.steps):
            message = f"`{tensor}` is inside of layers that become one kernel: it is never there"
            help_text = f"name what the kernel makes: `{group.makes[0]}`" if group.makes else ""
            return CannotBand("F523", message, help_text, tensor)
    close = get_close_matches(tensor, net.made, 1)
    help_text = f"`flowc analyze {net.file} --memory` names some"
    if close:
        help_text = f"did you mean `{close[0]}`?"
    return CannotBand("F522", f"`{net.file}` has no tensor `{tensor}`", help_text, tensor)


def _require(net: BandNet, units: Sequence[BandUnit], wish: Bands) -> None:
    """Every unit can be done by rows, and makes one tensor. Raises CannotBand."""
    for unit in units:
        _require_rows(net, unit)
        if len(unit.makes) != 1:
            message = (
                f"the layers up to `{unit.makes[-1]}` make {len(unit.makes)} tensors that others"
                " read"
            )
            kept = ", ".join(f'"{t}"' for t in unit.makes[:-1])
            help_text = f"keep each of them between units: {kept}"
            raise CannotBand("F523", message, help_text, unit.makes[0])
    height = net.height(units[-1].out)
    if wish.rows > height:
        message = f"`{units[-1].out}` has {height} rows: there is no band of {wish.rows}"
        raise CannotBand("F526", message, "write fewer rows", units[-1].out)
    count = -(-height // wish.rows)
    if count > MOST_BANDS:
        message = (
            f"`{units[-1].out}` has {height} rows: bands of {wish.rows} are {count}, and"
            f" {MOST_BANDS} at most"
        )
        raise CannotBand(
            "F526", message, f"write {-(-height // MOST_BANDS)} rows or more", units[-1].out
        )


def _require_rows(net: BandNet, unit: BandUnit) -> None:
    """Every layer of a unit can be done by rows. Raises CannotBand."""
    step = next((s for s in unit.steps if s.why), None)
    if step is None:
        return
    help_text = "leave `bands` out"
    for group in net.groups:
        if step.number in group.steps:
            break
        if group.makes:
            help_text = f'end the bands before it: `until "{group.makes[-1]}"`'
    message = f"layer `{step.makes[0]}` ({step.operator}) cannot go by rows: {step.why}"
    raise CannotBand("F525", message, help_text, step.makes[0])


# -- firings ---------------------------------------------------------------------------------------
def firings_of(net: BandNet, segment: BandSegment, ends: frozenset[str]) -> list[BandFiring]:
    """In order; `ends` are the tensors made here that are read elsewhere, or by the world: all
    their rows are made."""
    if segment.rows is None:
        (unit,) = segment.units
        return [BandFiring(unit, None, tuple((t, (0, net.height(t))) for t in unit.reads))]
    units = {u.out: u for u in segment.units}
    made = dict.fromkeys(units, 0)
    firings: list[BandFiring] = []
    wants = list(_wants(net, segment, segment.rows, ends))
    before, after = wants[1:3] if len(wants) > 2 else (wants[0], wants[-1])
    usual = {t: after.get(t, 0) - before.get(t, 0) for t in units}

    def fire(unit: BandUnit, upto: int) -> None:
        """Up to that row, as many at a time as between two bands: the first one needs more, but not
        at once."""
        upto = min(net.height(unit.out), -(-upto // unit.factor) * unit.factor)
        rows = usual.get(unit.out) or upto
        while made[unit.out] < upto:
            first = made[unit.out]
            end = upto - (upto - first - 1) // rows * rows
            rows_of = unit.ranges(first, end)
            for tensor in unit.reads:
                if tensor in units and tensor in rows_of:
                    fire(units[tensor], rows_of[tensor][1])
            firings.append(
                BandFiring(
                    unit, (first, end), tuple((t, rows_of[t]) for t in unit.reads if t in rows_of)
                )
            )
            made[unit.out] = end

    for want in wants:
        for unit in reversed(segment.units):
            # each has the others fire what it needs, as late as can be
            fire(unit, want.get(unit.out, 0))
    return firings


def _wants(
    net: BandNet, segment: BandSegment, step: int, ends: frozenset[str]
) -> Iterator[dict[str, int]]:
    """For each band of so many rows the rows of every tensor that have to be there at its end."""
    tensors = {u.out for u in segment.units}
    last = segment.units[-1].out
    for end in [*range(step, net.height(last), step), net.height(last)]:
        want = {last: end}
        if end == net.height(last):
            want |= {t: net.height(t) for t in ends}
        for unit in reversed(segment.units):
            rows = want.get(unit.out, 0)
            if rows:
                rows = want[unit.out] = min(
                    net.height(unit.out), -(-rows // unit.factor) * unit.factor
                )
                for tensor, (_, upto) in unit.ranges(rows - 1, rows).items():
                    if tensor in tensors and tensor != unit.out:
                        want[tensor] = max(want.get(tensor, 0), upto)
        yield want


def plan(net: BandNet, segments: Sequence[BandSegment]) -> BandPlan:
    """Every firing with what it moves, and all memory placed."""
    builder = _Builder(net)
    for segment in segments:
        builder.add(segment)
    return builder.done(tuple(segments))


def plan_of(net: BandNet, bands: Sequence[Bands]) -> BandPlan:
    """The plan of what a text asks for. Raises CannotBand."""
    lost = [t for t in net.chain.outputs if net.made.get(t, -1) < 0]
    if lost:
        raise CannotBand(
            "F527", f"output `{lost[0]}` is an input or a constant", "leave `bands` out", lost[0]
        )
    return plan(net, segments_of(net, bands))


class _Builder:
    def __init__(self, net: BandNet) -> None:
        self.net = net
        self.calls: list[BandCall] = []
        self.items: dict[Key, list[int]] = {}
        self.tokens = {*net.chain.inputs, *net.chain.outputs}
        self.block = 0
        self.dictated_by = ""
        self.macs = 0.0

    # -- memory
    def _take(self, key: Key, size: int) -> None:
        if key not in self.items:
            self.items[key] = [-(-size // ALIGNED) * ALIGNED, self.now, self.now]
        item = self.items[key]
        item[0] = max(item[0], -(-size // ALIGNED) * ALIGNED)

    def _touch(self, key: Key, until: int | None = None) -> None:
        if key in self.items:
            item = self.items[key]
            item[2] = max(item[2], self.now if until is None else until)

    @property
    def now(self) -> int:
        """The number of the firing that is being looked at."""
        return len(self.calls)

    def _whole(self, tensor: str) -> View:
        """All of a tensor, as a token or in the arena."""
        everything = 0, self.net.height(tensor)
        key = "token" if tensor in self.tokens else "whole", tensor
        return View(key, tensor, everything, everything)

    # -- calls
    def add(self, segment: BandSegment) -> None:
        """The firings of a segment."""
        net = self.net
        end = segment.units[-1].end
        ends = frozenset(t for u in segment.units for t in u.makes if net.read.get(t, -1) >= end)
        firings = firings_of(net, segment, ends)
        begin = self.now
        for unit in segment.units:
            # what others made has to last until the segment ends: its rows are read again
            for tensor in unit.reads:
                self._touch(("whole", tensor), begin + len(firings) - 1)
        if segment.rows is None:
            self._add_whole(firings[0])
            return
        lines = {u.out for u in segment.units} - ends
        held = _held(firings, lines)
        state: dict[str, Band] = {}
        for number, firing in enumerate(firings):
            self._add_band(firing, lines, state, held.get(number))
        for tensor in ends:
            self._touch(("whole", tensor), self.now - 1)

    def _add_whole(self, firing: BandFiring) -> None:
        unit = firing.unit
        makes = tuple(self._whole(t) for t in unit.makes)
        for view in makes:
            if view.key[0] == "whole":
                self._take(view.key, self.net.bytes(view.tensor))
        reads = tuple(self._whole(t) for t in unit.reads)
        self._call(BandCall(firing, (), reads, makes, ()))

    def _add_band(
        self, firing: BandFiring, lines: set[str], state: dict[str, Band], hold: Band | None
    ) -> None:
        band, out = firing.band, firing.unit.out
        assert band is not None
        reads, before = self._gathered(firing, lines, state)
        if hold is None:
            made, after = self._made_whole(out, band)
        else:
            made, staying, fresh = self._made_in_line(out, band, hold, state.get(out))
            if fresh:
                after = [*staying, *fresh]
            else:
                before, after = [*before, *staying], []
            state[out] = hold
            self._touch(("line", out))
        if made.key == self._scratch(out):
            self._take(made.key, self.net.bytes(out, band[1] - band[0]))
        self._call(BandCall(firing, tuple(before), tuple(reads), (made,), tuple(after)))

    def _scratch(self, out: str) -> Key:
        """Where a firing writes what does not lie in its buffer as it is made."""
        return "made", self.now, out

    def _gathered(
        self, firing: BandFiring, lines: set[str], state: dict[str, Band]
    ) -> tuple[list[View], list[Move]]:
        """What a firing reads, and the moves before it that gather rows from several stretches."""
        net = self.net
        reads: list[View] = []
        moves: list[Move] = []
        for tensor, band in firing.reads:
            there = state[tensor] if tensor in lines else (0, net.height(tensor))
            key: Key = ("line", tensor) if tensor in lines else self._whole(tensor).key
            self._touch(key)
            if band == there or net.stretches(tensor) == 1:  # as they lie
                reads.append(View(key, tensor, there, band))
                continue
            gathered: Key = ("gather", self.now, tensor)
            self._take(gathered, net.bytes(tensor, band[1] - band[0]))
            reads.append(View(gathered, tensor, band, band))
            moves.append(Move(View(key, tensor, there, band), reads[-1]))
        return reads, moves

    def _made_whole(self, out: str, band: Band) -> tuple[View, list[Move]]:
        """Where a firing writes if all rows stay, and the moves behind it."""
        whole = self._whole(out)
        if whole.key[0] == "whole":
            self._take(whole.key, self.net.bytes(out))
        there = View(whole.key, out, whole.held, band)
        if band == whole.held or self.net.stretches(out) == 1:
            return there, []
        made = View(self._scratch(out), out, band, band)
        return made, [Move(made, there)]

    def _made_in_line(
        self, out: str, band: Band, hold: Band, old: Band | None
    ) -> tuple[View, list[Move], list[Move]]:
        """Where a firing writes if the rows `hold` are held behind it: with the moves of rows that
        stay, and those of its own, which are none if it writes them where they are held."""
        line: Key = ("line", out)
        self._take(line, self.net.bytes(out, hold[1] - hold[0]))
        staying = []
        if old is not None and old[1] > hold[0] and old != hold:
            stay = hold[0], old[1]
            staying = [Move(View(line, out, old, stay), View(line, out, hold, stay))]
        if hold == band or (self.net.stretches(out) == 1 and hold[0] <= band[0]):
            return View(line, out, hold, band), staying, []
        scratch = self._scratch(out)
        fresh = max(hold[0], band[0]), band[1]
        move = Move(View(scratch, out, band, fresh), View(line, out, hold, fresh))
        return View(scratch, out, band, band), staying, [move]

    def _call(self, call: BandCall) -> None:
        for view in call.reads:
            self._touch(view.key)
        for view in call.makes:
            self._touch(view.key)
        self.calls.append(call)
        unit, band = call.firing.unit, call.firing.band
        if band is None:
            inner, tensor = whole_inner_bytes(unit)
            self.macs += sum(s.macs for s in unit.steps)
        else:
            inner, tensor = inner_bytes(unit, *band), unit.out
            self.macs += macs(unit, *band)
        if inner > self.block or not self.dictated_by:
            self.block, self.dictated_by = inner, tensor

    def done(self, segments: tuple[BandSegment, ...]) -> BandPlan:
        """The plan."""
        items = {
            key: MemoryBlock(size, first, last) for key, (size, first, last) in self.items.items()
        }
        same = self._alike(items)
        placed = place([items[key] for key in dict.fromkeys(same.values())])
        at = dict(zip(dict.fromkeys(same.values()), placed.offsets, strict=True))
        own = sum(s.macs for s in self.net.steps) or 1
        moved = sum(_moved(self.net, c) for c in self.calls)
        offsets = {key: at[same[key]] for key in items}
        return BandPlan(
            self.net,
            segments,
            tuple(self.calls),
            items,
            placed,
            self.block,
            self.macs / own - 1,
            moved,
            self.dictated_by,
            offsets,
        )

    def _alike(self, items: dict[Key, MemoryBlock]) -> dict[Key, Key]:
        """Per stretch one that may lie at the same place: scratch of firings beside which the same
        others are alive."""
        lasting = {key: i for key, i in items.items() if key[0] in ("line", "whole")}
        scratch: dict[int, list[Key]] = {}
        for key, item in items.items():
            if key not in lasting:
                scratch.setdefault(item.first, []).append(key)
        same = {key: key for key in lasting}
        first: dict[tuple[object, ...], list[Key]] = {}
        for now, keys in scratch.items():
            there = frozenset(key for key, i in lasting.items() if i.first <= now <= i.last)
            looks = there, *((key[0], key[2], items[key].size) for key in keys)
            same |= dict(zip(keys, first.setdefault(looks, keys), strict=True))
        return same


def _held(firings: Sequence[BandFiring], lines: Iterable[str]) -> dict[int, Band]:
    """Per firing the rows of what it makes that are to be there after it, because it or a later one
    left them."""
    held: dict[int, Band] = {}
    first_needed: dict[str, int] = {}
    wanted = set(lines)
    for number in range(len(firings) - 1, -1, -1):
        firing = firings[number]
        out = firing.unit.out
        if out in wanted and firing.band is not None:
            end = firing.band[1]
            held[number] = min(first_needed.get(out, end - 1), end - 1), end
        for tensor, (first, _) in firing.reads:
            if tensor in wanted:
                first_needed[tensor] = min(first, first_needed.get(tensor, first))
    return held


def _moved(net: BandNet, call: BandCall) -> int:
    moves = (*call.before, *call.after)
    return sum(net.bytes(m.target.tensor, m.target.rows[1] - m.target.rows[0]) for m in moves)
