"""What each kind of program refuses of the language: one table, feature by execution.

In: a feature that a text uses, and a kind of program. Out: the diagnostic that says why it does not
run there and what to do instead; nothing where it runs. docs/generated/matrix.md shows the table
beside what tests have tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .diagnostic import Diagnostic, Note, Severity
from .span import Span

#: Kinds of programs: one that runs by itself in Python; one with states; its parts on several
#: machines; in C++; a Functional Mock-up Unit, and one whose code is a C library; a library with
#: networks for callers in C; a node of a robot (dora, ROS 2).
Execution = Literal[
    "program", "states", "parts", "native", "unit", "unit in C", "networks in C", "robot"
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The code of a diagnostic, its message and its help, with words such as `{name}`."""

    code: str
    message: str
    help: str
    severity: Severity = "error"

    def at(
        self, span: Span | None, words: Mapping[str, object], notes: tuple[Note, ...] = ()
    ) -> Diagnostic:
        """The diagnostic of a place in a text."""
        return Diagnostic(
            self.code,
            self.message.format_map(words),
            span,
            notes=notes,
            help=self.help.format_map(words),
            severity=self.severity,
        )


def _later(message: str, instead: str = "") -> Refusal:
    """What native programs do not have yet."""
    return Refusal(
        "F661",
        f"{message}: native programs have no such thing yet",
        f"{instead}leave `native` out of `--target`",
    )


def _never(message: str, help_text: str) -> Refusal:
    """What no Functional Mock-up Unit has."""
    return Refusal("F618", message, help_text)


_FILL_UP = "give it a fixed size, and fill up what is not there"
_IN_TURN = _later("`{task}` begins anew after errors, and is on several processors")
_MOVING = _later("the cut of `{task}` moves")

#: What runs everywhere has no row, and what a kind of program runs has no cell.
SUPPORTS: Mapping[str, Mapping[Execution, Refusal]] = {
    # -- tasks and their code ----------------------------------------------------------------------
    "Python": {
        "native": Refusal(
            "F660",
            "`{code}` of `{definition}` is in Python: a native program needs C or C++",
            'write it in C, and `c "FILE.c:{symbol}"` in the text: `flowc headers` writes the'
            " prototype; or leave `native` out of `--target`",
        ),
    },
    "`pre`, `post`": {
        "native": Refusal(
            "F660",
            "`{code}` of `{definition}` is in Python: a native program needs C or C++",
            "let a task in C do it, and give the network its own tensors; or leave `native` out of"
            " `--target`",
        ),
    },
    "Python on a CPU beside a GPU": {
        "native": Refusal(
            "F660",
            "the code of `{task}` for CPUs, where it runs or is measured, is in Python",
            "give it `on cpu c`, or place it on the GPU and `build` it with `--no-measure`; or"
            " leave `native` out of `--target`",
        ),
    },
    "C++": {
        "unit in C": _never(
            "`{short}` is C++, and a unit is C",
            "write it in C, or build it with `--target native-fmu`",
        ),
    },
    "a C file with a quote in its name": {
        "unit in C": _never(
            "no C file can include `{file}`", "rename it: without quotes and backslashes"
        ),
    },
    "a name of two C functions": {
        "unit in C": _never(
            "two C files have a function `{symbol}`, and a unit is one library",
            "rename one of them",
        ),
    },
    "code for a GPU only": {"native": _later("`{definition}` has code for a GPU only")},
    "kernels that flowc does not compile": {
        "native": Refusal(
            "F661",
            "the kernels of `{task}` cannot be compiled for a native program: {why}",
            "leave `native` out of `--target`",
        ),
    },
    "a recorded graph of kernels": {"native": _later("`{task}` is recorded as a graph")},
    "another kind of code": {"native": _later("`{task}` runs as code of the kind `{kind}`")},
    "`live`": {
        "unit": _never(
            "`{short}` is live: it would wait for data from outside of the simulation",
            "give the graph an `in` instead: the simulator provides the data",
        ),
    },
    "`every`": {
        "unit": _never(
            "`{short}` fires at its own pace, but a unit follows the time of its simulation",
            "leave `every` out: a `period` of the app becomes the step size",
        ),
    },
    # -- errors ------------------------------------------------------------------------------------
    "`on error`": {
        "unit": Refusal(
            "F608",
            "`on error {policy}` of `{short}` has no effect in a unit: the step fails",
            "the simulator decides what to do then; it may reset the unit",
            "warning",
        ),
    },
    "`on error` on a GPU": {"native": _later("`{task}` goes on after errors, on a GPU")},
    "`on error restart` in turn": {"native": _IN_TURN},
    "several `out` after errors": {
        "native": _later("app `{app}` goes on after errors, and has several `out`"),
    },
    # -- ports -------------------------------------------------------------------------------------
    "`rate up to`": {
        "unit": _never(
            "`{port}` of `{short}` is a list: the rates of a unit are fixed",
            "write `rate {most}`, and fill up what is not there",
        ),
    },
    "a list at an open end": {
        "native": _later("open end `{task}` has sizes that only data know"),
        "robot": Refusal(
            "F535",
            "`{port}` is a list, but {messages} have one token each",
            "read it inside of the app, and send an array of a fixed size",
        ),
    },
    "types with `up to`": {
        "unit": _never("`{port}` of `{short}` is {type}: a unit has fixed sizes", _FILL_UP),
        "networks in C": Refusal(
            "F224",
            "`{port}` of `{task}` is {type}: a library has fixed sizes",
            "give it a fixed size, or build a program",
        ),
    },
    "`up to` at an open end": {
        "native": _later("open end `{task}` has sizes that only data know"),
        "robot": Refusal(
            "F535",
            "`{port}` is {type}, but {messages} have a fixed size",
            "send an array of a fixed size, with a task that fills it up",
        ),
    },
    "sizes that data decide on": {
        "unit": _never(
            "`{port}` of `{short}` is {type}: memory of a unit has fixed sizes",
            "leave out what follows the last tensor of fixed size, or build a program",
        ),
        "networks in C": Refusal(
            "F403",
            "output `{port}` of `{task}` is {type}: a caller in C has to know its size",
            "export the network without what follows the last tensor of fixed size, or build a"
            " program",
        ),
        "parts": Refusal(
            "F532",
            "tokens of `{task}` cannot be sent from `{here}` to `{there}`: the size of `{port}`"
            " depends on data",
            "put `{reader}` on `{here}` as well",
        ),
    },
    "a type that FMI lacks": {
        "unit": _never(
            "`{port}` is {type}, and FMI has no such type",
            "make it {instead}, with a task that converts",
        ),
    },
    "an array that is too large for FMI": {
        "unit": _never(
            "`{port}` is {type}, too large to be listed in a unit",
            "make it smaller with a task, or read it inside of the graph",
        ),
    },
    "a type that messages lack": {
        "robot": Refusal(
            "F535",
            "`{port}` is {type}, but {messages} have no such type",
            "make it {instead}, with a task that converts",
        ),
    },
    "an array that is too large for messages": {
        "robot": Refusal(
            "F537",
            "`{port}` is {type}, but a message has at most {most}",
            "send it in pieces, or make it smaller inside of the program",
        ),
    },
    # -- parameters --------------------------------------------------------------------------------
    "a number of more than 64 bits": {
        "unit": _never(
            "parameter `{parameter}` of `{definition}` is {value}, too large for FMI's Int64",
            "pass it as a float",
        ),
    },
    "a character that XML lacks": {
        "unit": _never(
            "parameter `{parameter}` of `{definition}` has a character that XML cannot hold",
            "leave it out, or pass the text as a file",
        ),
    },
    # -- open ends, and what joins apps ------------------------------------------------------------
    "open ends": {
        "program": Refusal(
            "F617",
            "app `{app}` has open ends ({ends}): it does not run by itself",
            'open it from Python: `with flowc.open("{path}") as running: ...`; make it a node of a'
            " robot: `flowc build --target ros2` or `dora`; or feed it from a recording or a bag:"
            " `--replay`",
        ),
        "native": Refusal(
            "F617",
            "app `{app}` has open ends ({ends}): it does not run by itself",
            "call it from C: `flowc build {path} --target native` writes a library",
        ),
        "states": Refusal(
            "F811",
            "`{app}` has open ends, so it is not known when its frames end",
            "leave it out of a text with a scenario",
        ),
    },
    "no open ends": {
        "unit": _never(
            "`{app}` has no open ends, so a simulator could not exchange data with it",
            "give it ports, for example `in x: float32   out y: float32`: they become inputs and"
            " outputs",
        ),
    },
    "`batch up to` for requests": {
        "native": _later("open end `{task}` takes requests in batches"),
        "unit": _never(
            "`{short}` takes requests in batches: the rates of a unit are fixed",
            "remove `batch` from the app",
        ),
        "robot": Refusal(
            "F535",
            "`{port}` takes requests in batches, and {messages} are no requests",
            "remove `batch` from the app",
        ),
    },
    "`latest`, `drop oldest`": {
        "unit": _never(
            "`{short}` joins two apps",
            "a unit is one graph: give it an `in` or `out` there, and join units in the simulator",
        ),
        "parts": Refusal(
            "F532",
            "`{link}` joins apps on {machines}, and `latest` and `drop` do not cross between"
            " machines",
            "put both ends on one machine, or read the data with a task of the same app first",
        ),
    },
    "`drop oldest`": {
        "states": Refusal(
            "F811",
            "`{app}` waits for another app, which may have stopped",
            "read the newest token: `-> latest ->`",
        ),
    },
    # -- networks ----------------------------------------------------------------------------------
    "no network": {
        "networks in C": Refusal(
            "F611",
            "no app of `{file}` has a network, and a library holds only networks",
            'add `network Name from "file.onnx"` and an instance of it, or build a program: leave'
            " `--target` out",
        ),
    },
    "own operators": {
        "native": _later("`{definition}` has operators of its own"),
        "networks in C": Refusal(
            "F413", "`{task}` has {library}: libraries for C have none", "build a program"
        ),
    },
    "`adapt`": {
        "native": _MOVING,
        "states": Refusal(
            "F811",
            "the cut of `{task}` moves by itself",
            "leave it out: in a scenario, states choose among variants of a network",
        ),
        "parts": Refusal(
            "F532",
            "tokens of `{task}` cannot be sent from `{here}` to `{there}`: its cut moves while the"
            " program runs",
            "put `{reader}` on `{here}` as well",
        ),
    },
    "`bands`": {"native": _later("`{task}` runs in bands")},
    "a batch that is not full": {"native": _later("`{task}` has a batch that is not full")},
    "TensorRT": {
        "native": _later(
            "`{task}` runs in TensorRT",
            "place it on a CPU, or leave `tensorrt` out of the platform, whose GPU then has ONNX"
            " Runtime; or ",
        ),
    },
    "`engine`": {
        "networks in C": Refusal(
            "F540",
            "`{task}`: a library for C runs networks on ONNX Runtime only",
            "leave `engine` out",
        ),
    },
    "networks on accelerators": {
        "networks in C": Refusal(
            "F603",
            "`{task}` is pinned to a {kind}: a library for C runs networks on CPUs only",
            "pin it to a cpu, or choose another `--platform`",
        ),
    },
    "`precision`": {
        "program": Refusal(
            "F608",
            "`{definition}` runs in the precision of its file: only TensorRT and NPUs compute in"
            " fp16",
            "",
            "warning",
        ),
        "networks in C": Refusal(
            "F608",
            "`{definition}` runs in the precision of its file: a CPU computes in fp32",
            "",
            "warning",
        ),
    },
    # -- processors, machines and states -----------------------------------------------------------
    "several machines": {"native": _later("a native program runs on one machine")},
    "a task on several machines": {
        "parts": Refusal(
            "F531",
            "`{task}` is shared by {machines}: its firings would have to take turns",
            "name processors of one machine",
        ),
    },
    "states": {
        "parts": Refusal(
            "F533",
            "`{platform}` has several machines, and states cannot change on all of them together",
            "leave the scenario out, or use one machine",
        ),
    },
    "chains over apps with states": {
        "native": _later("the {kind} of `{sink}` leads over several apps with states"),
    },
}


@dataclass(frozen=True, slots=True)
class Use:
    """A feature that a text uses, where, and the words of its diagnostics."""

    feature: str
    span: Span | None
    words: Mapping[str, object]
    notes: tuple[Note, ...] = ()

    def refused(self, execution: Execution) -> Diagnostic | None:
        """Why a kind of program does not run it; None if it does."""
        refusal = SUPPORTS[self.feature].get(execution)
        return None if refusal is None else refusal.at(self.span, self.words, self.notes)


def refusal(feature: str, execution: Execution) -> Refusal:
    """The cell of a feature that does not run. Raises KeyError where it does."""
    return SUPPORTS[feature][execution]
