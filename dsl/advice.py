"""Advice for syntax faults: common mistakes and their corrections.

In: the tokens of one declaration, the position of the fault, and the terminals that could follow.
Out: the token to point at, a message (None = the general one), and the correction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from ..model.diagnostic import did_you_mean
from .evaluate import UNITS
from .tokens import Token

#: The words that start an item of a block, for "did you mean".
ITEMS = {
    "TASK": (
        "in",
        "out",
        "rate",
        "window",
        "state",
        "stateless",
        "live",
        "wcet",
        "on",
        "python",
        "cuda",
        "scratch",
        "reference",
        "tolerance",
        "grid",
        "block",
        "shared",
        "event",
    ),
    "NETWORK": (
        "in",
        "out",
        "from",
        "pre",
        "post",
        "precision",
        "calibrate",
        "batch",
        "library",
        "variant",
        "accuracy",
        "on",
    ),
    "GRAPH": ("in", "out", "delay", "repeat", "last"),
    "APP": (
        "in",
        "out",
        "period",
        "deadline",
        "priority",
        "share",
        "batch",
        "within",
        "reaction",
        "delay",
        "every",
        "latest",
        "drop",
        "repeat",
        "last",
    ),
    "PLATFORM": (
        "scheduler",
        "wakeup",
        "type",
        "on",
        "frequencies",
        "idle",
        "busy",
        "engines",
        "engine",
        "memory",
        "contention",
        "compute",
        "tensorrt",
        "module",
        "power",
        "machine",
        "link",
    ),
    "MAPPING": (
        "until",
        "bands",
        "memory",
        "streams",
        "threads",
        "engine",
        "precision",
        "process",
        "wcet",
        "buffers",
        "pre",
        "post",
        "adapt",
        "graph",
        "fallback",
        "frequency",
    ),
    "SCENARIO": (
        "event",
        "initial",
        "state",
        "run",
        "period",
        "deadline",
        "prefer",
        "weight",
        "power",
        "on",
        "after",
        "once",
        "minimise",
    ),
}
_TIMED = ("PERIOD", "DEADLINE", "WCET", "EVERY", "AFTER")
_OF_APPS = ("PERIOD", "DEADLINE", "PRIORITY")
_ON_ARROWS = ("DELAY", "REPEAT", "LAST", "OF", "EVERY", "LATEST", "DROP")
_DECLARES = ("TASK", "NETWORK", "GRAPH", "APP", "PLATFORM", "MAPPING", "SCENARIO", "CONST", "TYPE")


@dataclass(frozen=True, slots=True)
class Advice:
    """`message` None keeps the general one; `at` is the position of the token to point at."""

    at: int
    message: str | None
    help: str


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """A syntax fault: the declaration's tokens, the position of the first faulty one, the accepted
    terminals.
    """

    tokens: Sequence[Token]
    position: int
    accepted: frozenset[str]

    def kind(self, offset: int = 0) -> str:
        """Type of the token at the fault, or beside it; empty outside."""
        i = self.position + offset
        return str(self.tokens[i].type) if 0 <= i < len(self.tokens) else ""

    def text(self, offset: int = 0) -> str:
        """Its text."""
        i = self.position + offset
        return str(self.tokens[i]) if 0 <= i < len(self.tokens) else ""


def advise(place: SyntaxFault) -> Advice | None:
    """The first advice that fits."""
    for rule in RULES:
        advice = rule(place)
        if advice is not None:
            return advice
    return None


def named(character: str) -> str:
    """A character as itself, or by its code point if it is not visible."""
    visible = character.isprintable() and not character.isspace()
    return f"`{character}`" if visible else f"the character U+{ord(character):04X}"


def _unknown_character(p: SyntaxFault) -> Advice | None:
    if p.kind() != "BAD":
        return None
    text = p.text()
    if text == '"':
        return Advice(p.position, "this text is not closed", 'end it with `"` on the same line')
    if text in "\u00b5\u03bc" and p.text(1) == "s":
        return Advice(p.position, None, "write `us`")
    helps = {";": "declarations need no separator: leave it out", "#": "comments start with `//`"}
    helps["'"] = 'texts are enclosed in `"`'
    return Advice(p.position, f"{named(text)} means nothing in a .flow text", helps.get(text, ""))


def _comment(p: SyntaxFault) -> Advice | None:
    starts = p.text() == "/" and p.text(1) in ("*", "/")
    return Advice(p.position, None, "comments start with `//`") if starts else None


def _unit_missing(p: SyntaxFault) -> Advice | None:
    # `period 20  camera: Camera` takes the instance's name for the unit; `wcet 20 }` does not.
    for number in (-1, -2):
        if p.kind(number) != "NUMBER" or p.kind(number - 1) not in _TIMED:
            continue
        if (number == -1 and p.kind() == "NAME") or (
            number == -2 and p.kind() not in ("COLON", "_ARROW", "LSQB", "DOT")
        ):
            continue
        quantity = p.text(number)
        help_text = f"write `{quantity} ms`, or another unit of time: `s`, `us`, `ns`"
        return Advice(
            p.position + number, f"`{p.text(number - 1)} {quantity}` has no unit", help_text
        )
    return None


def _wakeup_without_unit(p: SyntaxFault) -> Advice | None:
    # `wakeup 80  gpu volta` takes the kind of the next pool for the unit, and its name for a kind.
    for number in (-1, -3):
        if p.kind(number) != "NUMBER" or p.kind(number - 1) != "WAKEUP":
            continue
        if number == -1 and p.kind() == "BAD":
            continue
        if number == -3 and p.text(-2) in UNITS["time"]:
            continue
        quantity = p.text(number)
        help_text = f"write `{quantity} us`, or another unit of time: `ns`, `ms`, `s`"
        return Advice(p.position + number, f"`wakeup {quantity}` has no unit", help_text)
    return None


def _wcet_of_a_network(p: SyntaxFault) -> Advice | None:
    if p.tokens[0].type != "NETWORK" or p.kind() != "WCET":
        return None
    help_text = (
        "times of networks are measured (`flowc profile`), or stand in a pin:"
        " `App.net -> gpu wcet 6 ms`"
    )
    return Advice(p.position, "a network has no `wcet`", help_text)


def _constant_with_unit(p: SyntaxFault) -> Advice | None:
    units = set(chain.from_iterable(UNITS.values()))
    if p.tokens[0].type != "CONST" or p.text() not in units or p.kind(-1) != "NUMBER":
        return None
    name = str(p.tokens[1])
    return Advice(
        p.position,
        "a constant has no unit",
        f"write the unit where it is used: `period {name} {p.text()}`",
    )


def _other_arrow(p: SyntaxFault) -> Advice | None:
    if p.text() + p.text(1) not in ("=>", "-->"):
        return None
    return Advice(p.position, None, "an arrow is written `->`")


def _equals(p: SyntaxFault) -> Advice | None:
    if p.kind() != "EQUAL" or "NUMBER" not in p.accepted:
        return None
    return Advice(p.position, None, f"write `{p.text(-1)} ...` without `=`")


def _comma(p: SyntaxFault) -> Advice | None:
    if p.kind() != "COMMA":
        return None
    return Advice(p.position, None, "declarations need no separator: leave the comma out")


def _argument_without_name(p: SyntaxFault) -> Advice | None:
    if p.tokens[0].type not in ("APP", "GRAPH") or p.kind(-1) not in ("LPAR", "COMMA"):
        return None
    if p.kind() in ("STRING", "NUMBER"):
        return Advice(p.position, None, f"arguments have names: `name = {p.text()}`")
    return None


def _window_elsewhere(p: SyntaxFault) -> Advice | None:
    # In a graph `window` is taken for an instance, and what follows it does not fit.
    kind, offset = str(p.tokens[0].type), 0 if p.kind() == "WINDOW" else -1
    if (
        kind not in ("NETWORK", "GRAPH")
        or p.kind(offset) != "WINDOW"
        or p.kind(offset + 1) not in ("NUMBER", "NAME")
    ):
        return None
    message = f"a port of a {kind.lower()} has no window"
    return Advice(
        p.position + offset,
        message,
        "windows are for inputs of tasks: write it at the task that reads this",
    )


def _clause_of_apps(p: SyntaxFault) -> Advice | None:
    # Behind a type the word does not fit; elsewhere it is taken for an instance.
    for offset in (0, -1):
        word = p.text(offset)
        if (
            p.tokens[0].type == "GRAPH"
            and p.kind(offset) in _OF_APPS
            and p.kind(offset + 1) == "NUMBER"
        ):
            help_text = f"write `{word}` in the app that has an instance of `{p.tokens[1]}`"
            return Advice(p.position + offset, f"a graph has no {word}", help_text)
    return None


def _rate_behind_window(p: SyntaxFault) -> Advice | None:
    behind = any(t.type == "WINDOW" for t in p.tokens[max(0, p.position - 4) : p.position])
    if p.tokens[0].type != "TASK" or p.kind() != "RATE" or not behind:
        return None
    return Advice(p.position, None, "the rate comes first: `rate ... window ...`")


def _hop_behind_window(p: SyntaxFault) -> Advice | None:
    # `window 400 160` or `window 400 hop 160`; what is misspelt has advice of its own.
    values = ("NUMBER", "NAME")
    if p.tokens[0].type != "TASK" or p.kind() not in values:
        return None
    if p.kind(-2) == "WINDOW" and p.kind() == "NUMBER":
        length, at = p.text(-1), p.position
    elif p.kind(-3) == "WINDOW" and p.kind(-1) == "NAME":
        length, at = p.text(-2), p.position - 1
        if did_you_mean(p.text(-1), ITEMS["TASK"]):
            return None
    else:
        return None
    help_text = (
        f"write `rate {p.text()} window {length}`: the rate is the hop, which is 1 without it"
    )
    return Advice(at, f"`{p.tokens[at]}` does not fit here", help_text)


def _instance_the_other_way(p: SyntaxFault) -> Advice | None:
    if (
        p.tokens[0].type in ("APP", "GRAPH")
        and p.kind(-1) == p.kind() == "NAME"
        and "COLON" in p.accepted
    ):
        return Advice(p.position, None, f"write `{p.text()}: {p.text(-1)}`")
    return None


def _code_without_language(p: SyntaxFault) -> Advice | None:
    if p.kind() == "STRING" and p.tokens[0].type == "TASK" and "DIRECTION" in p.accepted:
        return Advice(p.position, None, f"name its language: `python {p.text()}`")
    return None


def _mapping_without_on(p: SyntaxFault) -> Advice | None:
    if p.tokens[0].type == "MAPPING" and p.position == 1 and p.kind() == "NAME":
        return Advice(p.position, None, f"write `mapping on {p.text()}`")
    return None


def _bound_at_a_tensor(p: SyntaxFault) -> Advice | None:
    if p.kind() != "_UP_TO" or p.tokens[0].type != "NETWORK":
        return None
    message = "the sizes at a tensor are fixed: a network behind a `pre` takes no `up to`"
    help_text = "write `up to` in the type of its port, and a task in front in place of the `pre`"
    return Advice(p.position, message, help_text)


def _delay_without_number(p: SyntaxFault) -> Advice | None:
    if p.kind(-1) == "DELAY":
        return Advice(p.position, None, "a delay has a number of tokens: `delay 1`")
    return None


def _resampling_without_number(p: SyntaxFault) -> Advice | None:
    word, what = (
        p.text(-1),
        {"REPEAT": "each token is read 4 times", "LAST": "the last of every 4 tokens is passed on"},
    )
    if p.kind(-1) in what and p.kind(-2) == "_ARROW":
        return Advice(
            p.position, None, f"`{word}` has a number: with `{word} 4` {what[p.kind(-1)]}"
        )
    return None


def _instance_called_like_a_word(p: SyntaxFault) -> Advice | None:
    if (
        p.tokens[0].type in ("APP", "GRAPH")
        and p.kind() in _ON_ARROWS
        and p.kind(1) in ("COLON", "LSQB", "_ARROW")
    ):
        message = f"no instance can be called `{p.text()}`"
        return Advice(p.position, message, "that is a keyword: choose another name")
    return None


def _every_elsewhere(p: SyntaxFault) -> Advice | None:
    # Behind a port: only instances of sources, and no open ends, say how often they fire.
    kind, line = p.tokens[0].type, p.tokens[p.position].line
    before = [t.type for t in p.tokens[: p.position] if t.line == line]
    if p.kind() != "EVERY" or "DIRECTION" not in before or kind not in ("APP", "TASK"):
        return None
    help_text = "the caller says when an open end gets data: give the app a `period`"
    if kind == "TASK":
        help_text = f"it belongs to an instance, in an app: `name: {p.tokens[1]} every ...`"
    return Advice(p.position, None, help_text)


def _misspelt_word_before(p: SyntaxFault) -> Advice | None:
    # A misspelt word is taken for a name, and what follows it does not fit: the word is the fault.
    items = ITEMS.get(str(p.tokens[0].type), ())
    if (
        p.kind(-1) == "NAME"
        and did_you_mean(p.text(-1), items)
        and p.kind(-2) not in ("DIRECTION", "COLON", "_ARROW")
    ):
        return Advice(
            p.position - 1, f"`{p.text(-1)}` means nothing here", did_you_mean(p.text(-1), items)
        )
    return None


def _clause_before_the_braces(p: SyntaxFault) -> Advice | None:
    kind = p.tokens[0]
    if "LBRACE" not in p.accepted or p.text() not in ITEMS.get(str(kind.type), ()):
        return None
    inside = f"{kind} {p.tokens[1]} {{ {p.text()} ... }}"
    return Advice(p.position, None, f"`{p.text()}` goes inside of the braces: `{inside}`")


def _declaration_inside(p: SyntaxFault) -> Advice | None:
    # `task Name {` inside a block: the keyword is taken for an instance's name, and the name does
    # not fit.
    if (
        p.kind(-1) in _DECLARES
        and p.kind() == "NAME"
        and p.kind(1) in ("LBRACE", "LPAR", "FROM", "EQUAL")
    ):
        help_text = f"move it out of `{p.tokens[0]} {p.tokens[1]}`: declarations are not nested"
        return Advice(p.position - 1, f"a {p.text(-1)} cannot be declared here", help_text)
    return None


def _type_before_name(p: SyntaxFault) -> Advice | None:
    if p.kind() == "LSQB" and p.kind(-2) == "DIRECTION":
        return Advice(
            p.position - 1, None, f"the name comes first: `{p.text(-2)} NAME: {p.text(-1)}[...]`"
        )
    return None


def _misspelt(p: SyntaxFault) -> Advice | None:
    help_text = did_you_mean(p.text(), (t.lower() for t in p.accepted if t.isalpha()))
    return Advice(p.position, None, help_text) if help_text else None


RULES: tuple[Callable[[SyntaxFault], Advice | None], ...] = (
    _unknown_character,
    _comment,
    _unit_missing,
    _wakeup_without_unit,
    _wcet_of_a_network,
    _constant_with_unit,
    _other_arrow,
    _equals,
    _argument_without_name,
    _clause_before_the_braces,
    _comma,
    _window_elsewhere,
    _clause_of_apps,
    _rate_behind_window,
    _hop_behind_window,
    _instance_the_other_way,
    _code_without_language,
    _mapping_without_on,
    _bound_at_a_tensor,
    _delay_without_number,
    _resampling_without_number,
    _instance_called_like_a_word,
    _type_before_name,
    _declaration_inside,
    _every_elsewhere,
    _misspelt_word_before,
    _misspelt,
)
