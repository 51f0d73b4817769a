"""Kinds of arrows, ports and features of apps, and kinds of programs: small texts, and what comes
of each pair.

`FEATURES`, `KINDS` and `TOGETHER` are what tests/end_to_end/test_matrix.py tries pair by pair, and
what docs/generated/matrix.md shows. A feature stands between a source, which counts from 1, and a sink, which
keeps what it gets. What that has to be is worked out here in plain Python, apart from all that
flowc knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import accumulate

from flowc.model.supports import SUPPORTS

Numbers = list[int]

#: What comes of a pair that does not exist, or is tried in another row; and of one that works, but
#: for a pause.
NOTHING, PAUSES = "-", "pauses"
#: How far a source counts; and at most, where its end is due to what others have got.
LAST, FAR = 12, 2000


@dataclass(frozen=True)
class Kind:
    """A kind of program, how it is tried, and its name in flowc's table of what it refuses."""

    name: str
    title: str
    tried: str
    execution: str


KINDS = (
    Kind("one", "one app", "a program with one app, and its harness", "program"),
    Kind("several", "several apps", "a second app on the same processors", "program"),
    Kind(
        "pause",
        "states, with a pause",
        "three states, one of them without the app; of two apps that are joined, one state lacks each; the harness, too",
        "states",
    ),
    Kind(
        "next",
        "states, `next`",
        "two states that differ in the variant of a network in a second app; the harness, where the app has one, too",
        "states",
    ),
    Kind("once", "states, `at once`", "the same, and an inference under way is broken off", "states"),
    Kind(
        "parts",
        "parts on machines",
        "two parts in processes of their own, between which each number travels",
        "parts",
    ),
    Kind("open", "`flowc.open`", "source and sink are open ends, used from Python", ""),
    Kind("fmu", "FMU", "source and sink are variables of a unit, which FMPy drives", "unit"),
    Kind("external", "networks in C", "the functions of the library, without its shim", "networks in C"),
    Kind("dora", "dora", "source and sink are an input and an output, of a stand-in for dora", "robot"),
    Kind("ros2", "ROS 2", "source and sink are topics, of a stand-in for rclpy", "robot"),
    Kind("native", "native", "tasks are in C; all that run are apps of one program", "native"),
)  # fmt: skip
#: Where a program with several apps, or with states, may run.
PLACES = ("parts", "open", "fmu", "external", "dora", "ros2")
#: Programs with states; programs whose source and sink are open ends.
STATES = ("pause", "next", "once")
OPEN = ("open", "fmu", "dora", "ros2")


# -- features --------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Feature:
    """`inside` leads from `{x}` to `{y}`; the sink gets what `wanted` makes of the numbers of the
    source.

    `head` is what else stands in the app, `pins` has processors as `{0}` and `{1}`. `source` is the
    task that counts, with what stands behind it in `dropping`; `reader` is a second app, which then
    has the sink. A sink may have got all of `wanted` but the last `ahead` numbers, or some of them
    if it `loses` any. `network` says what the network makes of a number, `other` what the sink gets
    by its other variant, which one of two states takes. `uses`
    are the rows of flowc's table of refusals that it is about, which the programs then have to
    keep; `comes` says what else comes of kinds of programs in which it does not run: a code,
    PAUSES, or NOTHING. `needs` is a module of an extra.
    """

    name: str
    title: str
    inside: str
    wanted: Callable[[Numbers], Numbers]
    head: str = ""
    pins: str = ""
    scheduler: str = ""
    source: str = "Count"
    dropping: str = ""
    reader: str = ""
    per_frame: int = 1
    ahead: int = 0
    loses: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    network: Callable[[int], int] | None = None
    other: Callable[[Numbers], Numbers] | None = None
    comes: Mapping[str, str] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    needs: str = ""

    def outcome(self, kind: str) -> str:
        """What comes of it in a kind of program; empty where it runs."""
        execution = next(k.execution for k in KINDS if k.name == kind)
        uses = (*(("no network",) if self.network is None else ()), *self.uses)
        refusals = [SUPPORTS[use][execution] for use in uses if execution in SUPPORTS[use]]
        return self.comes.get(kind, refusals[0].code if refusals else "")

    @property
    def sink(self) -> str:
        """The app that has the sink."""
        return "R" if self.reader else "A"

    def is_right(self, given: Numbers, got: Numbers) -> bool:
        """Is that what a sink may have got so far of what the source has given?"""
        wanted = self.wanted(given)
        if self.loses:
            return got == sorted(got) and set(got) <= set(wanted)
        other = wanted if self.other is None else self.other(given)
        return all(n in two for n, *two in zip(got, wanted, other, strict=False)) and len(
            got
        ) <= len(wanted)

    def is_whole(self, given: Numbers, got: Numbers) -> bool:
        """Is that all of it?"""
        wanted = self.wanted(given)
        if self.reader:
            return len(got) >= 5
        return got[-1:] == wanted[-1:] if self.loses else len(got) >= len(wanted) - self.ahead


def _one_more(numbers: Iterable[int]) -> Numbers:
    return [n + 1 for n in numbers]


def _times(factor: int) -> Callable[[Numbers], Numbers]:
    return lambda numbers: [factor * n for n in numbers]


def _sums(numbers: Iterable[int]) -> Numbers:
    return [*accumulate(numbers)]


def _window(numbers: Numbers) -> Numbers:
    return [sum(numbers[max(0, k - 2) : k + 1]) for k in range(len(numbers))]


def _pairs(numbers: Numbers) -> Numbers:
    return [a + b for a, b in zip(numbers[::2], numbers[1::2], strict=False)]


def _anew(numbers: Numbers) -> Numbers:
    """It counts its firings, fails at the third one, and begins anew."""
    return [100 * (k % 3 + 1) + n for k, n in enumerate(numbers) if k % 3 < 2]


#: Networks, and the task that makes an image of a number, whose rows they add up.
NET = "n: Net   {x} -> n -> {y}"
EITHER = "n: Either   {x} -> n -> {y}"
ROWS = "m: Image   n: Rows   p: Pick   {x} -> m -> n -> p -> {y}"
#: The app that reads another one.
READER = "{ends}   i: Inc   A.s -> HOW -> i -> {y}"

#: Where other kinds of programs are of no interest: for variants of one network, and for two
#: machines.
ELSEWHERE = dict.fromkeys([k.name for k in KINDS if k.name not in ("one", *STATES)], NOTHING)
BETWEEN = dict.fromkeys([k.name for k in KINDS if k.name != "parts"], NOTHING)

FEATURES = (
    Feature(name="chain", title="a chain of tasks", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more),
    Feature(
        name="two", title="two sources", inside="d: Count(last = 2000)   a: Add   {x} -> a.a   d -> a.more   a -> {y}",
        wanted=_times(2),
    ),
    Feature(name="class", title="a task with state, in Python", inside="s: Sum   {x} -> s -> {y}", wanted=_sums, uses=("Python",)),
    Feature(name="c", title="a task with state, in C", inside="s: SumC   {x} -> s -> {y}", wanted=_sums),
    Feature(name="window", title="`window`", inside="w: Window   {x} -> w -> {y}", wanted=_window),
    Feature(
        name="delay", title="`delay`", inside="i: Inc   {x} -> delay 2 = [7, 8] -> i -> {y}",
        wanted=lambda n: _one_more([7, 8, *n]), ahead=2,
    ),
    Feature(
        name="cycle", title="a cycle", inside="a: Add   {x} -> a.a   a -> delay 1 = 5 -> a.more   a -> {y}",
        wanted=lambda n: [5 + s for s in _sums(n)],
    ),
    Feature(
        name="repeat", title="`repeat`, `last`", inside="s: Sum   {x} -> repeat 3 -> s -> last 3 -> {y}",
        wanted=lambda n: [3 * s for s in _sums(n)],
    ),
    Feature(name="rates", title="rates", inside="p: Pair   {x} -> p -> {y}", wanted=_pairs, per_frame=2),
    Feature(
        name="phases", title="rate lists", inside="o: Odd   {x} -> o -> {y}", wanted=lambda n: n[::2], per_frame=2
    ),
    Feature(
        name="lists", title="`rate up to`", inside="o: Some   i: Inc   l: All   {x} -> o -> i -> l -> {y}",
        wanted=lambda n: [k % 5 * (k + 1) for k in n],
        uses=("Python", "`rate up to`"),
    ),
    Feature(
        name="several_lists", title="`rate up to`, on several processors and in processes",
        inside="o: Some   i: Inc   l: All   {x} -> o -> i -> l -> {y}",
        wanted=lambda n: [k % 5 * (k + 1) for k in n],
        uses=("Python", "`rate up to`"),
        pins="A.o -> {1} process   A.i -> {0}, {1}   A.l -> {1} process",
    ),
    Feature(
        name="sizes", title="types with `up to`", inside="g: Grow   f: Fill   {x} -> g -> f -> {y}",
        wanted=lambda n: [k * (k % 8 + 1) for k in n],
        uses=("Python", "types with `up to`"),
        pins="A.g -> {1} process   A.f -> {0}, {1}",
    ),
    Feature(
        name="sizes_in_lists", title="the same in lists", inside="o: Widths   g: Wider   l: Wide   {x} -> o -> g -> l -> {y}",
        wanted=lambda n: [sum((i + 1) * k for i in range(1, k % 5)) for k in n],
        uses=("Python", "types with `up to`", "`rate up to`"),
        pins="A.o -> {1} process   A.g -> {0}, {1}   A.l -> {1} process",
    ),
    Feature(
        name="graph", title="graphs, arrays", inside="g: Twice   {x} -> g -> {y}", wanted=lambda n: [k + 2 for k in n]
    ),
    Feature(
        name="parameter", title="parameters, `--set`", inside="s: Scale(factor = 2)   {x} -> s -> {y}",
        wanted=_times(3), pins="A.s -> {1}", settings={"s.factor": "3"},
    ),
    Feature(
        name="file", title="`file` parameters", inside='t: Table(path = "table.txt")   {x} -> t -> {y}',
        wanted=lambda n: [k + 50 for k in n],
    ),
    Feature(
        name="skip", title="`on error skip`", inside="t: Third   {x} -> t -> {y}",
        wanted=lambda n: [k for k in n if k % 3],
        uses=("`on error`",),
    ),
    Feature(
        name="restart", title="`on error restart`", inside="a: Anew   {x} -> a -> {y}", wanted=_anew,
        uses=("`on error`",),
    ),
    Feature(name="event", title="events of tasks", inside="w: Watch   {x} -> w -> {y}", wanted=_one_more, uses=("Python",)),
    Feature(
        name="live", title="`live` sources", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more, source="Live",
        uses=("`live`",),
    ),
    Feature(
        name="newest", title="`live` sources that drop", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        source="Live", dropping="drop oldest 2", loses=True,
        uses=("`live`",),
    ),
    Feature(
        name="ends", title="open ends", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        uses=("open ends",), comes={"parts": "F617", "native": ""},
    ),
    Feature(
        name="requests", title="`batch up to` for requests", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        head="batch up to 4 within 1 ms",
        comes={
            **dict.fromkeys(("one", "several", "parts", "external", "native", *STATES), "F229"),
            },
        uses=("`batch up to` for requests",),
    ),
    Feature(
        name="latest", title="`latest` between apps", inside="s: Sum   {x} -> s -> {y}",
        wanted=lambda n: _one_more([0, *_sums(n)]), reader="period 1 ms   " + READER.replace("HOW", "latest"),
        loses=True,
        uses=("`latest`, `drop oldest`",), comes={"one": "F219", "parts": ""},
    ),
    Feature(
        name="drop", title="`drop oldest` between apps", inside="s: Sum   {x} -> s -> {y}",
        wanted=lambda n: _one_more(_sums(n)), reader=READER.replace("HOW", "drop oldest 3"), loses=True,
        uses=("`drop oldest`", "`latest`, `drop oldest`"), comes={"one": "F219", "parts": ""},
    ),
    Feature(
        name="latest_list", title="lists over `latest`", inside="o: Parts   j: All   {x} -> o -> j -> {y}",
        wanted=lambda n: [0, *n], reader="period 1 ms   {ends}   m: All   A.o -> latest -> m -> {y}", loses=True,
        uses=("Python", "`latest`, `drop oldest`"), comes={"one": "F219", "parts": ""},
    ),
    Feature(
        name="across", title="`latest` between machines", inside="s: Sum   {x} -> s -> {y}",
        wanted=lambda n: _one_more([0, *_sums(n)]), reader="period 1 ms   " + READER.replace("HOW", "latest"),
        pins="A.s -> b.core[0]   R.i -> a.core   R.from_A_s -> a.core", loses=True,
        uses=("`latest`, `drop oldest`",), comes=BETWEEN,
    ),
    Feature(
        name="turns", title="several processors in turn", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        pins="A.i -> {0}, {1}",
    ),
    Feature(
        name="pipeline", title="stages of a pipeline", inside="i: Inc   s: Sum   j: Inc   {x} -> i -> s -> j -> {y}",
        wanted=lambda n: _one_more(_sums(_one_more(n))), pins="A.i -> {0}   A.s -> {1}   A.j -> {0}",
    ),
    Feature(
        name="process", title="a process of its own", inside="s: Sum   {x} -> s -> {y}", wanted=_sums,
        pins="A.s -> {1} process", comes={"native": "F504"},
    ),
    Feature(
        name="buffers", title="`buffers`", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        pins="A.i -> {1} buffers 3",
    ),
    Feature(
        name="period", title="`period`, `deadline`", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        head="period 1 ms   deadline 900 ms",
    ),
    Feature(
        name="path", title="deadlines of paths", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        head="period 1 ms   deadline 900 ms from {x} to i",
    ),
    Feature(
        name="priority", title="`fixed_priority`", inside="i: Inc   {x} -> i -> {y}", wanted=_one_more,
        head="period 1 ms   priority 3", scheduler="scheduler fixed_priority",
    ),
    Feature(name="network", title="networks", inside=NET, wanted=_times(3), network=lambda n: 3 * n),
    Feature(
        name="around", title="`pre`, `post`", inside="n: Around   {x} -> n -> {y}",
        wanted=lambda n: [3 * k + 4 for k in n], network=lambda n: 3 * n,
        uses=("`pre`, `post`",),
    ),
    Feature(
        name="whole", title="networks in one piece", inside="n: Loop   {x} -> n -> {y}", wanted=_times(8),
        network=lambda n: 8 * n,
    ),
    Feature(
        name="stages", title="stages of a network", inside=NET, wanted=_times(3), pins='A.n -> {0} until "h" | {1}',
        network=lambda n: 3 * n,
    ),
    Feature(
        name="batch", title="`batch`", inside="f: Four   n: Group   j: Join   {x} -> f -> n -> j -> {y}",
        wanted=lambda n: [12 * k + 18 for k in n], network=lambda n: 3 * n,
    ),
    Feature(
        name="listed", title="`batch` of what there is", inside="o: Some   n: Group   l: All   {x} -> o -> n -> l -> {y}",
        wanted=lambda n: [k % 5 * 3 * k for k in n], network=lambda n: 3 * n,
        uses=("Python", "`rate up to`"),
    ),
    Feature(
        name="streams", title="`streams`, `threads`", inside=NET, wanted=_times(3),
        pins="A.n -> {1} streams 2 threads 2", network=lambda n: 3 * n,
    ),
    Feature(
        name="engine", title="`engine openvino`", inside=NET, wanted=_times(3), pins="A.n -> {1} engine openvino",
        network=lambda n: 3 * n, uses=("`engine`",), needs="openvino",
    ),
    Feature(
        name="engine_batch", title="`batch` on it, with `streams`",
        inside="f: Four   n: Group   j: Join   {x} -> f -> n -> j -> {y}", wanted=lambda n: [12 * k + 18 for k in n],
        pins="A.n -> {1} streams 2 engine openvino", comes=dict.fromkeys([k.name for k in KINDS[1:]], NOTHING),
        needs="openvino",
    ),
    Feature(
        name="engine_listed", title="`batch` of what there is on it",
        inside="o: Some   n: Group   l: All   {x} -> o -> n -> l -> {y}", wanted=lambda n: [k % 5 * 3 * k for k in n],
        pins="A.n -> {1} streams 2 engine openvino", network=lambda n: 3 * n,
        comes=dict.fromkeys([k.name for k in KINDS[1:]], NOTHING), needs="openvino",
    ),
    Feature(
        name="adapt", title="a cut that moves", inside=NET, wanted=_times(3), pins='A.n -> {0} until "h" | {1} adapt',
        network=lambda n: 3 * n, uses=("`adapt`",), comes={"parts": ""},
    ),
    Feature(
        name="variants", title="variants of networks", inside=EITHER, wanted=_times(3), other=_times(2),
        network=lambda n: 3 * n,
    ),
    Feature(
        name="vstages", title="variants in stages", inside=EITHER, wanted=_times(3), other=_times(2),
        pins='A.n.three -> {0} until "h" | {1}   A.n.two -> {0} until "h" | {1}',
        comes={**ELSEWHERE, "once": "F811"},
    ),
    Feature(
        name="vturns", title="variants on several processors in turn", inside=EITHER, wanted=_times(3),
        other=_times(2), pins="A.n.three -> {0}, {1}   A.n.two -> {0}, {1}", comes=ELSEWHERE,
    ),
    Feature(
        name="vengine", title="variants on `engine openvino`", inside=EITHER, wanted=_times(3), other=_times(2),
        pins="A.n.three -> {0} engine openvino   A.n.two -> {0} engine openvino",
        comes={**ELSEWHERE, "pause": NOTHING, "once": "F811"}, needs="openvino",
    ),
    Feature(
        name="vapart", title="variants on different processors", inside=EITHER, wanted=_times(3), other=_times(2),
        pins="A.n.three -> {0}   A.n.two -> {1}", comes={**ELSEWHERE, "next": PAUSES, "once": "F811"},
    ),
    Feature(
        name="varound", title="variants with `pre`, `post`", inside="n: AroundEither   {x} -> n -> {y}",
        wanted=lambda n: [3 * k + 4 for k in n], other=lambda n: [2 * k + 3 for k in n],
        comes={**ELSEWHERE, "once": "F811"},
    ),
    Feature(
        name="vbatch", title="variants with `batch`",
        inside="f: Four   n: GroupEither   j: Join   {x} -> f -> n -> j -> {y}",
        wanted=lambda n: [12 * k + 18 for k in n], other=lambda n: [8 * k + 12 for k in n],
        comes={**ELSEWHERE, "next": PAUSES, "once": "F811"},
    ),
    Feature(
        name="vbands", title="variants in bands of rows", inside=ROWS.replace("Rows", "RowsEither"), wanted=_times(9),
        other=_times(4), pins='A.n.three -> {0} bands 2 until "y"   A.n.two -> {0} bands 2 until "y"',
        comes={**ELSEWHERE, "once": "F811"},
    ),
    Feature(
        name="bands", title="bands of rows", inside=ROWS, wanted=_times(9), pins='A.n -> {0} bands 2 until "y"',
        network=lambda n: 9 * n, uses=("`bands`",),
    ),
    Feature(
        name="memory", title="`memory`", inside=ROWS, wanted=_times(9), pins="A.n -> {0} memory 1 MB",
        network=lambda n: 9 * n,
    ),
    Feature(
        name="ragged", title="sizes that data decide on", inside="n: Places   {x} -> n -> {y}",
        wanted=lambda n: [4 for _ in n], pins="A.n -> {1}", network=lambda n: 4,
        uses=("`pre`, `post`", "sizes that data decide on"), comes={"parts": ""},
    ),
    Feature(
        name="torn", title="such sizes, between machines", inside="n: Places   {x} -> n -> {y}",
        wanted=lambda n: [4 for _ in n], pins="A.n -> a.core   A.n.post -> b.core[0]",
        uses=("sizes that data decide on",), comes=BETWEEN,
    ),
    Feature(name="cuda", title="CUDA with a `reference`", inside="i: Kernel   {x} -> i -> {y}", wanted=_one_more, uses=("code for a GPU only",)),
)  # fmt: skip


@dataclass(frozen=True)
class Both:
    """Two kinds of programs in one: several apps, or states, and where it runs."""

    name: str
    title: str

    def outcome(self, kind: str) -> str:
        """What comes of it where it runs; empty where it does."""
        refused = kind == "parts" and self.name in STATES
        return SUPPORTS["states"]["parts"].code if refused else ""


TOGETHER = (
    Both("several", "several apps"),
    Both("pause", "states, with a pause"),
    Both("next", "states, `next`"),
    Both("once", "states, `at once`"),
)


# -- texts -----------------------------------------------------------------------------------------
TASKS = """
type V = float32[1, 4]
task Count(last: int, until: string = "") { out v: V   python "t.py:Count" }
task Live(last: int, until: string = "") { live   out v: V   python "t.py:Live" }
task Keep(name: string) { in v: V   event go   python "t.py:Keep" }
task Inc { in a: V   out b: V   python "t.py:inc" }
task Sum { in a: V   out b: V   python "t.py:Sum" }
task SumC { in a: V   out b: V   state sum: float32[4]   c "t.c:sum" }
task Window { in a: V window 3   out b: V   python "t.py:total" }
task Add { in a: V   in more: V   out b: V   python "t.py:add" }
task Pair { in a: V rate 2   out b: V   python "t.py:total" }
task Odd { in a: V rate [1, 1]   out b: V rate [1, 0]   python "t.py:Odd" }
task Scale(factor: float) { in a: V   out b: V   python "t.py:scale" }
task Table(path: file) { in a: V   out b: V   python "t.py:Table" }
task Third { in a: V   out b: V   on error skip   python "t.py:third" }
task Anew { in a: V   out b: V   on error restart   python "t.py:Anew" }
task Watch { in a: V   out b: V   event big   python "t.py:Watch" }
task Four { in a: V   out b: V rate 4   python "t.py:four" }
task Some { in a: V   out b: V rate up to 4   python "t.py:some" }
task All { in a: V rate up to 4   out b: V   python "t.py:total" }
task Parts { in a: V   out b: V rate up to 4   stateless   python "t.py:parts" }
task Grow { in a: V   out b: float32[1, up to 8]   python "t.py:grow" }
task Fill { in a: float32[1, up to 8]   out b: V   stateless   python "t.py:fill" }
task Widths { in a: V   out b: float32[1, up to 8] rate up to 4   python "t.py:widths" }
task Wider { in a: float32[1, up to 8]   out b: float32[1, up to 8]   stateless   python "t.py:wider" }
task Wide { in a: float32[1, up to 8] rate up to 4   out b: V   python "t.py:wide" }
task Join { in a: V rate 4   out b: V   python "t.py:total" }
task Image { in a: V   out b: float32[1, 1, 8, 4]   python "t.py:image" }
task Pick { in a: float32[1, 1, 8, 4]   out b: V   python "t.py:pick" }
task Kernel { in a: V   out b: V   on gpu cuda "t.cu:inc" grid [1] block [4]   reference python "t.py:inc" }
graph Twice { in a: V   out b: V   i[2]: Inc   a -> i[0] -> i[1] -> b }
network Net from "three.onnx" { in x: V from "x"   out y: V from "y" }
network Loop from "loop.onnx" { in x: V from "x"   in times = 3   out y: V from "y" }
network Around from "three.onnx" { in x: V from "x" pre "t.py:inc"   out y: V from "y" post "t.py:inc" }
network Group from "open.onnx" { in x: V from "x"   out y: V from "y"   batch 4 }
network Either { in x: V   out y: V   variant three from "three.onnx"   variant two from "two.onnx" }
network AroundEither {
    in x: V   out y: V
    variant three from "three.onnx" { in x: V from "x" pre "t.py:inc"   out y: V from "y" post "t.py:inc" }
    variant two from "two.onnx" { in x: V from "x" pre "t.py:inc"   out y: V from "y" post "t.py:inc" }
}
network GroupEither { in x: V   out y: V   variant three from "open.onnx"   variant two from "open_two.onnx"   batch 4 }
network RowsEither {
    in x: float32[1, 1, 8, 4]   out y: float32[1, 1, 8, 4]
    variant three from "rows.onnx"   variant two from "rows_two.onnx"
}
network Rows from "rows.onnx" { in x: float32[1, 1, 8, 4] from "x"   out y: float32[1, 1, 8, 4] from "y" }
network Places from "places.onnx" { in x: V from "x"   out y: V from "places" post "t.py:counted" }
"""
DUO = "platform duo {{ cpu core[2] {scheduler} }}\nmapping on duo {{ {pins} }}\n"
RIG = """
platform rig {{ machine a {{ cpu core }}   machine b {{ cpu core[2] {scheduler} }}   link a b 1 GB/s 20 us }}
mapping on rig {{ A.{first} -> a.core   A.{last} -> b.core[0]   {pins} }}
"""
#: App B is in the states without the app, or with another app that is joined with it.
PAUSED = """
app B {{ c: Count(last = 2000)   i: Inc   k: Keep(name = "B")   c -> i -> k }}
scenario S {{
    initial state one {{ run {both} }}
    state two {{ run A, B }}
    state three {{ run {reader} }}
    one -> two on A.k.go   two -> three on B.k.go   three -> one on B.k.go
}}
"""
#: The states differ in the variant of app B's network.
UNPAUSED = """
app B {{ c: Count(last = 2000, until = "both")   n: Either   k: Keep(name = "B")   c -> n -> k }}
scenario S {{
    initial state one {{ run {both}, B   B.n = three   {three} }}
    state two {{ run {both}, B   B.n = two   {two} }}
    one -> two on A.k.go {how}   two -> one on B.k.go {how}
}}
"""
SEVERAL = """
app B {{ c: Count(last = 12)   i: Inc   k: Keep(name = "B")   c -> i -> k }}
"""


#: Tasks in C instead.
NATIVE_TASKS = """
task Count(last: int, until: string = "") { out v: V   state n: int64   c "n.c:count" }
task Live(last: int, until: string = "") { live   out v: V   state n: int64   c "n.c:live_one" }
task Keep(name: string) { in v: V   c "n.c:keep" }
task Inc { in a: V   out b: V   stateless   c "i.c:inc" }
task Sum { in a: V   out b: V   state sum: float32[4]   c "n.c:sum" }
task Window { in a: V window 3   out b: V   c "n.c:window" }
task Add { in a: V   in more: V   out b: V   c "n.c:add" }
task Pair { in a: V rate 2   out b: V   c "n.c:pair" }
task Odd { in a: V rate [1, 1]   out b: V rate [1, 0]   state n: int64   c "n.c:odd" }
task Scale(factor: float) { in a: V   out b: V   c "n.c:scale" }
task Table(path: file) { in a: V   out b: V   c "n.c:table" }
task Third { in a: V   out b: V   on error skip   c "n.c:third" }
task Anew { in a: V   out b: V   on error restart   state n: int64   c "n.c:anew" }
task Four { in a: V   out b: V rate 4   c "n.c:four" }
task Join { in a: V rate 4   out b: V   c "n.c:join" }
task Image { in a: V   out b: float32[1, 1, 8, 4]   c "n.c:image" }
task Pick { in a: float32[1, 1, 8, 4]   out b: V   c "n.c:pick" }
"""


def native() -> str:
    """A text with an app for each feature that runs in native programs, and one more for each that
    reads another app."""
    inside = [f for f in FEATURES if f.name != "ends" and not f.outcome("native")]
    inside = [f for f in inside if not f.needs or find_spec(f.needs)]
    apps, pins = "", ""
    for feature in inside:
        own = _with_tasks(feature, "native")
        apps += re.sub(r"\b([AR])\b", rf"\1{feature.name}", own)
        pins += re.sub(r"\bA\b", f"A{feature.name}", feature.pins.format("core[0]", "core[1]"))
        pins += "   "
    return (
        _declared(apps, NATIVE_TASKS)
        + apps
        + DUO.format(scheduler="scheduler fixed_priority", pins=pins)
    )


def text(feature: Feature, kind: str, beside: str = "") -> str:
    """The text of a pair; `beside`: in a program of that kind as well, with a source and a sink of
    its own."""
    beside = beside or kind
    ends = feature.name == "ends" or (kind in OPEN and beside not in STATES)
    apps = _with_ends(feature) if ends else _with_tasks(feature, beside)
    if kind == "fmu" and not ends:
        apps += _graph("G", feature)
    more = {"several": SEVERAL, "pause": PAUSED, "next": UNPAUSED, "once": UNPAUSED}.get(beside, "")
    apps += more.format(
        both="A, R" if feature.reader else "A",
        reader="R, B" if feature.reader else "B",
        how="at once" if beside == "once" else "",
        three="A.n = three" if feature.other is not None else "",
        two="A.n = two" if feature.other is not None else "",
    )
    if ends:  # no task of the app raises anything
        apps = apps.replace("A.k.go", "go").replace("scenario S {", "scenario S {   event go")
    platform, names = (
        (RIG, ("b.core[0]", "b.core[1]")) if kind == "parts" else (DUO, ("core[0]", "core[1]"))
    )
    first, last = ("x", "y") if ends else ("c", "k")
    pins = feature.pins.format(*names)
    if kind == "native" and feature.name != "process":
        pins = pins.replace(" process", "")  # that would be a second reason
    platform = platform.format(scheduler=feature.scheduler, pins=pins, first=first, last=last)
    in_c = kind == "native" and feature.name != "class"
    return _declared(apps, NATIVE_TASKS if in_c else "") + apps + platform


_KEEP = 'k: Keep(name = "R")'


def _with_tasks(feature: Feature, kind: str) -> str:
    """The apps, with a source and a sink of their own."""
    waits = {"pause": ["changed"], "next": ["both"], "once": ["both"]}.get(kind, [])
    waits += [("R" if kind == "native" else "read")] if feature.reader else []
    counts = f'last = {FAR if waits else LAST}, until = "{" ".join(waits)}"'
    source = f"c: {feature.source}({counts}) {feature.dropping}"
    app = f'{feature.head}   {source}   k: Keep(name = "A")   {feature.inside}'.format(x="c", y="k")
    if kind == "one" and feature.reader:  # the one app reads itself
        reader = feature.reader.removeprefix("period 1 ms")
        return f"app A {{ {app}   {reader.format(ends=_KEEP.replace('k', 'l', 1), y='l')} }}\n"
    return f"app A {{ {app} }}\n" + _reader(feature, _KEEP, "k")


def _with_ends(feature: Feature) -> str:
    """The apps, with open ends."""
    ends, x = "in x: V   out y: V", "x"
    if feature.source != "Count":
        ends, x = f"out y: V   c: {feature.source}(last = {LAST}) {feature.dropping}", "c"
    app = f"{feature.head}   {ends}   {feature.inside}".format(x=x, y="y")
    return f"app A {{ {app} }}\n" + _reader(feature, "out y: V", "y")


def _reader(feature: Feature, ends: str, y: str) -> str:
    return f"app R {{ {feature.reader.format(ends=ends, y=y)} }}\n" if feature.reader else ""


def _declared(apps: str, instead: str = "") -> str:
    """The declarations that these apps use, some of them in place of others."""
    used = {"V", *re.findall(r": (\w+)", apps)}
    used |= {"Inc"} if "Twice" in used else set()
    every = re.split(r"\n(?=\w)", TASKS.strip()) + (instead.strip().splitlines())
    declarations = {re.split(r"[ (]", d)[1]: d for d in every}
    return "\n".join(d for name, d in declarations.items() if name in used) + "\n"


def alike(feature: Feature) -> bool:
    """Can it stand in one unit with others: one number goes in and one comes out in a step, at no
    pace of its own?"""
    apart = feature.head or feature.reader or feature.per_frame > 1 or feature.needs
    return not (feature.outcome("fmu") or apart)


def unit() -> str:
    """An app with one `in`, and an `out` for each feature that is like the others."""
    inside = [f for f in FEATURES if alike(f)]
    graphs = "".join(_graph(f"F{f.name}", f) for f in inside)
    outs = "   ".join(
        f"out y{f.name}: V   f{f.name}: F{f.name}   x -> f{f.name} -> y{f.name}" for f in inside
    )
    apps = f"{graphs}app A {{ in x: V   {outs} }}\n"
    return _declared(apps) + apps


def _graph(name: str, feature: Feature) -> str:
    return f"graph {name} {{ in x: V   out y: V   {feature.inside.format(x='x', y='y')} }}\n"


# -- code of tasks ---------------------------------------------------------------------------------
PYTHON = '''
import time
import numpy as np

SEEN = {}


class Count:
    """Ends at a number, or when other apps have got what it waits for, for which it goes slowly in the end."""

    def __init__(self, last, until):
        self.n, self.last, self.until = 0, last, until.split()

    def __call__(self):
        if self.n == self.last or (self.until and self.n > 3 and all(ENOUGH[word]() for word in self.until)):
            raise StopIteration
        if self.n > 50:
            time.sleep(self.n / 10000)
        self.n += 1
        return np.full((1, 4), self.n, np.float32)


class Live(Count):
    def __call__(self):
        time.sleep(0.0005)
        return Count.__call__(self)


def both():
    factors = [v / (k + 1) for k, v in enumerate(SEEN.get("B", ()))]
    return min(factors.count(2), factors.count(3)) >= 3


ENOUGH = {
    "read": lambda: len(SEEN.get("R", ())) >= 5,
    "changed": lambda: len(SEEN.get("B", ())) >= 8,
    "both": both,
}


class Keep:
    """Prints at the end what it has got; raises its event now and then."""

    def __init__(self, go, name):
        self.go, self.name = go, name
        self.seen = SEEN.setdefault(name, [])

    def __call__(self, v):
        self.seen.append(int(v.flat[0]))
        if len(self.seen) % 4 == 0:
            self.go()

    def close(self):
        print("kept %s %s" % (self.name, self.seen), flush=True)


class Sum:
    def __init__(self):
        self.sum = 0

    def __call__(self, a):
        self.sum = self.sum + a
        return self.sum


class Odd:
    def __init__(self):
        self.n = 0

    def __call__(self, a):
        self.n += 1
        return a[: self.n % 2]


class Table:
    def __init__(self, path):
        with open(path) as file:
            self.more = np.float32(file.read())

    def __call__(self, a):
        return a + self.more


class Anew:
    def __init__(self):
        self.n = 0

    def __call__(self, a):
        self.n += 1
        if self.n == 3:
            raise ValueError("third")
        return a + 100 * self.n


class Watch:
    def __init__(self, big):
        self.big = big

    def __call__(self, a):
        if a.max() > 3:
            self.big()
        return a + 1


def inc(a):
    return a + 1


def add(a, more):
    return a + more


def total(a):
    return a.sum(0)


def scale(a, factor):
    return a * np.float32(factor)


def third(a):
    if a[0, 0] % 3 == 0:
        raise ValueError("three")
    return a


def four(a):
    return a + np.arange(4, dtype=np.float32)[:, None, None]


def some(a):
    return [a] * (int(a[0, 0]) % 5)


def parts(a):
    length = 1 << int(a[0, 0]) % 3
    return [a / length] * length


def grow(a):
    return np.full((1, int(a[0, 0]) % 8 + 1), a[0, 0], np.float32)


def fill(a):
    return np.full((1, 4), a.sum(), np.float32)


def widths(a):
    return [np.full((1, i), a[0, 0], np.float32) for i in range(int(a[0, 0]) % 5)]


def wider(a):
    return np.full((1, a.shape[1] + 1), a.sum() / max(1, a.shape[1]), np.float32)


def wide(a):
    assert [t.shape[1] for t in a] == list(range(1, 1 + len(a)))
    return np.full((1, 4), sum([t.sum() for t in a]), np.float32)


def image(a):
    return np.full((1, 1, 8, 4), a[0, 0], np.float32)


def pick(a):
    return a[0, :, 3]


def counted(places):
    return np.full((1, 4), len(places), np.float32)
'''
C = """
int sum(void *state, const float *a, float *b, const void *p)
{
    sum_state *s = state;
    for (int i = 0; i < 4; i++)
        b[i] = s->sum[i] += a[i];
    return 0;
}
"""
#: That of native programs. Sinks keep what they get by name, for sources that wait for it.
NATIVE_C = r"""
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SINKS = 200, NUMBERS = 4000 };
static struct sink { const char *name; atomic_int seen; int numbers[NUMBERS]; } sinks[SINKS];
static atomic_int known;

static int enough(const char *name)
{
    for (int i = 0; i < known; i++)
        if (sinks[i].name && !strcmp(sinks[i].name, name) && sinks[i].seen >= 5)
            return 1;
    return 0;
}

static int next(int64_t *n, float *v, int64_t last, const char *until)
{
    if (*n == last || (*until && *n > 3 && enough(until)))
        return FLOWC_END;
    if (*n > 50)
        nanosleep(&(struct timespec){0, 100000 * *n}, NULL);
    ++*n;
    for (int i = 0; i < 4; i++)
        v[i] = *n;
    return 0;
}

int count(void *state, float *v, const count_params *p)
{
    return next(&((count_state *)state)->n, v, p->last, p->until);
}

int live_one(void *state, float *v, const live_one_params *p)
{
    nanosleep(&(struct timespec){0, 500000}, NULL);
    return next(&((live_one_state *)state)->n, v, p->last, p->until);
}

void *keep_init(const keep_params *p)
{
    struct sink *s = &sinks[known++];
    s->name = strdup(p->name);
    return s;
}

int keep(void *state, const float *v, const keep_params *p)
{
    struct sink *s = state;
    if (s->seen < NUMBERS)
        s->numbers[s->seen++] = v[0];
    return 0;
}

void keep_exit(void *state)
{
    static _Thread_local char line[NUMBERS * 8];
    struct sink *s = state;
    char *at = line + sprintf(line, "kept %s [", s->name);
    for (int i = 0; i < s->seen; i++)
        at += sprintf(at, "%s%d", i ? ", " : "", s->numbers[i]);
    printf("%s]\n", line);
    fflush(stdout);
}

#define ALL for (int i = 0; i < 4; i++)
int sum(void *state, const float *a, float *b, const void *p)
{
    ALL b[i] = ((sum_state *)state)->sum[i] += a[i];
    return 0;
}
int window(void *state, const float *a, float *b, const void *p) { ALL b[i] = a[i] + a[4 + i] + a[8 + i]; return 0; }
int add(void *state, const float *a, const float *more, float *b, const void *p) { ALL b[i] = a[i] + more[i]; return 0; }
int pair(void *state, const float *a, float *b, const void *p) { ALL b[i] = a[i] + a[4 + i]; return 0; }
int odd(void *state, const float *a, float *b, const void *p)
{
    if (++((odd_state *)state)->n % 2)
        ALL b[i] = a[i];
    return 0;
}
int scale(void *state, const float *a, float *b, const scale_params *p) { ALL b[i] = a[i] * p->factor; return 0; }
int table(void *state, const float *a, float *b, const table_params *p)
{
    float more = 0;
    FILE *file = fopen(p->path, "r");
    if (!file || fscanf(file, "%f", &more) != 1 || fclose(file))
        return 1;
    ALL b[i] = a[i] + more;
    return 0;
}
int third(void *state, const float *a, float *b, const void *p)
{
    ALL b[i] = a[i];
    return (int)a[0] % 3 == 0;
}
int anew(void *state, const float *a, float *b, const void *p)
{
    anew_state *s = state;
    if (++s->n == 3)
        return 1;
    ALL b[i] = a[i] + 100 * s->n;
    return 0;
}
int four(void *state, const float *a, float *b, const void *p)
{
    for (int k = 0; k < 4; k++)
        ALL b[4 * k + i] = a[i] + k;
    return 0;
}
int join(void *state, const float *a, float *b, const void *p) { ALL b[i] = a[i] + a[4 + i] + a[8 + i] + a[12 + i]; return 0; }
int image(void *state, const float *a, float *b, const void *p)
{
    for (int i = 0; i < 32; i++)
        b[i] = a[0];
    return 0;
}
int pick(void *state, const float *a, float *b, const void *p) { ALL b[i] = a[12 + i]; return 0; }
"""
INC_IN_C = """
int inc(void *state, const float *a, float *b, const void *p)
{
    for (int i = 0; i < 4; i++)
        b[i] = a[i] + 1;
    return 0;
}
"""
CUDA = """
extern "C" __global__ void inc(const float *a, float *b) { b[threadIdx.x] = a[threadIdx.x] + 1; }
"""
