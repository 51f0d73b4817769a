"""Text to Specification. Every declaration is parsed on its own, so that one fault hides no other.

In: the text of one file. Out: a Specification with the declarations that parsed, and the syntax
faults of the others in the user's words. Names are not looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from functools import cache

from ..model.collecting import no_garbage_collection
from ..model.diagnostic import Diagnostic, Note, did_you_mean, one_of
from ..model.platform import KINDS
from ..model.span import Span
from .advice import Advice, SyntaxFault, advise, named
from .build_tree import TooDeep, TreeBuilder
from .grammar import COMMENTS, flow_grammar
from .syntax import Declaration, Specification
from .table import Table, Unfit, ending
from .tokens import Token

OPENERS = {
    "USE",
    "CONST",
    "TYPE",
    "TASK",
    "NETWORK",
    "GRAPH",
    "APP",
    "PLATFORM",
    "MAPPING",
    "SCENARIO",
}
#: The same as they are written.
OPENING_WORDS = tuple(w.lower() for w in sorted(OPENERS))
#: Words of other languages for what a keyword means here.
_OTHER_WORDS = {
    "include": "use",
    "import": "use",
    "class": "task",
    "actor": "task",
    "component": "task",
    "model": "network",
}

#: Names of terminals in messages; keywords are shown as they are written.
_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "ADD": "`+` or `-`",
    "MUL": "`*` or `/`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "EQUAL": "`=`",
    "DOT": "`.`",
    "VBAR": "`|`",
    "_ARROW": "`->`",
    "DIRECTION": "`in` or `out`",
    "WRAP": "`pre` or `post`",
}
#: The items that a block may contain, the most common first.
_BLOCKS = {
    "TASK": (
        'a port (`in` or `out`), code such as `python "file.py:name"`, `state`, `stateless`, `wcet`'
        " or `}`"
    ),
    "NETWORK": (
        "a port (`in` or `out`), `precision`, `calibrate`, `batch`, `library`, `variant` or `}`"
    ),
    "GRAPH": (
        "a port (`in` or `out`), an instance such as `name: Task`, a chain such as `a -> b` or `}`"
    ),
    "APP": (
        "`period`, `deadline`, `reaction`, `priority`, `share`, `batch`, an open end (`in` or"
        " `out`), an instance such as `name: Task`, a chain such as `a -> b` or `}`"
    ),
    "PLATFORM": "processors such as `cpu core[4]`, `contention`, `power`, `machine`, `link` or `}`",
    "MAPPING": "a pin such as `App.task -> core[0]`, `frequency` or `}`",
    "SCENARIO": (
        "`state`, `initial state`, `event`, a transition such as `a -> b on ready`, `minimise`"
        " or `}`"
    ),
}


@cache
def keywords() -> frozenset[str]:
    """All keywords, taken from the grammar."""
    return frozenset(flow_grammar().keywords)


@cache
def soft_keywords() -> frozenset[str]:
    """The keywords that may be names of instances: they have a meaning only where no name is
    possible.
    """
    return frozenset(flow_grammar().soft_keywords)


@cache
def _scanner() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """A pattern for blanks and comments with the token behind them, and the keyword terminals,
    which it matches as names.
    """
    return re.compile(flow_grammar().pattern), flow_grammar().words


def tokens_and_comments(text: str) -> list[Token]:
    """All tokens of a text including comments; characters that cannot be read are tokens of type
    BAD.
    """
    pattern, words = _scanner()
    tokens: list[Token] = []
    # the number of a line, where it begins, and where the token before ended
    line, begin, behind = 1, 0, 0
    for match in pattern.finditer(text):
        kind = match.lastgroup or ""
        if kind == "END":
            break
        start, end = match.span(kind)
        if breaks := text.count("\n", behind, start):
            line += breaks
            begin = text.rindex("\n", behind, start) + 1
        behind = end
        value = text[start:end]
        if kind == "NAME":
            kind = words.get(value, kind)
        tokens.append(
            Token(kind, value, start, line, start - begin + 1, line, end - begin + 1, end)
        )
    return tokens


def expected_behind(text: str) -> tuple[list[Token], frozenset[str]]:
    """The tokens of the declaration in which a text ends, and the terminals that may follow; none
    after an error.
    """
    tokens = [t for t in tokens_and_comments(text) if t.type not in COMMENTS]
    chunk = next(iter([*_declarations(tokens)][-1:]), [])
    grammar = flow_grammar()
    fitting, behind = grammar.walk(t.type for t in chunk)
    return chunk, grammar.accepted(behind) if fitting == len(chunk) else frozenset()


#: Recently parsed declarations, oldest first, and their maximum number.
_KEPT: dict[Hashable, Declaration | Diagnostic] = {}
MOST_KEPT = 2000


class Parser:
    """Parses files; one parser may read many."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._table = Table(flow_grammar(), self._builder.nodes)

    def parse(self, path: str, text: str) -> tuple[Specification, list[Diagnostic]]:
        """Parse one file. `path` is what spans and messages show."""
        with no_garbage_collection():
            tokens = tokens_and_comments(text)
            self._builder.file = path
            self._builder.docs = {
                (t.line or 0) + 1: t[3:].removeprefix(" ") for t in tokens if t.type == "DOC"
            }
            declarations: list[Declaration] = []
            faults: list[Diagnostic] = []
            poisoned: set[str] = set()
            for chunk in _declarations([t for t in tokens if t.type not in COMMENTS]):
                result = self._parsed(path, chunk, text)
                if isinstance(result, Diagnostic):
                    faults.append(result)
                    poisoned.update(_names_declared(chunk))
                else:
                    declarations.append(result)
        return Specification(path, tuple(declarations), frozenset(poisoned)), faults

    def _parsed(self, path: str, chunk: list[Token], text: str) -> Declaration | Diagnostic:
        """As `_parse_one`, cached by text and place: in an editor, one declaration changes at a
        time.
        """
        known, first = self._builder.docs, chunk[0].line or 0
        while first in known:  # what stands above it
            first -= 1
        docs = tuple((n, known[n]) for n in range(first, (chunk[-1].line or 0) + 1) if n in known)
        key = (
            path,
            docs,
            chunk[0].line,
            chunk[0].column,
            text[chunk[0].start_pos : chunk[-1].end_pos],
        )
        result = _KEPT.pop(key, None) or self._parse_one(chunk)
        _KEPT[key] = result
        if len(_KEPT) > MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        return result

    def _parse_one(self, chunk: list[Token]) -> Declaration | Diagnostic:
        if chunk[0].type in ("TASK", "APP"):
            _tell_types(chunk)
        try:
            result: Declaration | Unfit = self._table.read(self._builder.file, chunk)
        except TooDeep:
            span = self._builder.token_span(chunk[0])
            return Diagnostic("F105", "this is nested too deeply", span, help="name parts of it")
        if isinstance(result, Unfit):
            grammar = flow_grammar()
            _, behind = grammar.walk(t.type for t in (*chunk, ending(chunk)))
            return self._explain(chunk, result.position, grammar.accepted(behind))
        return result

    # -- faults in the user's words ----------------------------------------------------------------
    def _explain(self, chunk: list[Token], position: int, accepted: frozenset[str]) -> Diagnostic:
        expected = self._expected(chunk, position, accepted)
        if position == len(chunk):
            return self._unfinished(chunk, expected)
        token = chunk[position]
        advice = advise(SyntaxFault(chunk, position, accepted)) if position else None
        if advice is None and (
            position == 0 or ("$END" in accepted and token.type in ("NAME", "RBRACE"))
        ):
            return self._top_level(chunk, position, self._builder.token_span(token))
        if advice is None:
            advice = Advice(position, None, "")
        message = advice.message or f"`{chunk[advice.at]}` does not fit here"
        label = f"in {_inside(chunk)}, after `{chunk[advice.at - 1]}`"
        help_text = advice.help or f"expected {expected}"
        return Diagnostic(
            "F001", message, self._builder.token_span(chunk[advice.at]), label=label, help=help_text
        )

    def _expected(self, chunk: list[Token], position: int, accepted: frozenset[str]) -> str:
        # After a complete item every item of the block is accepted: name the items, not the tokens.
        kind = chunk[0].type
        if "RBRACE" in accepted and len(accepted) > 2 and kind in _BLOCKS:
            return _BLOCKS[kind]
        if "USE" in accepted:  # a name is expected, and any keyword is accepted
            return "a name"
        order = list(_WORDS)
        names = (
            {"WINDOW", "REPEAT", "LAST", "OF"} if "NUMBER" in accepted else set()
        )  # where a value is expected, a name is one of its forms
        named = sorted(
            accepted - {"$END", "BAD"} - names,
            key=lambda t: (t not in order, order.index(t) if t in order else 0, t),
        )
        return " or ".join(_WORDS.get(t, f"`{t.lower()}`") for t in named)

    def _unfinished(self, chunk: list[Token], expected: str) -> Diagnostic:
        opened = _open_braces(chunk)
        last = self._builder.token_span(chunk[-1])
        inside = _inside(chunk)
        if opened:
            place = self._builder.token_span(opened[-1])
            help_text = f"add `}}` after `{chunk[-1]}` in line {last.end_line}"
            return Diagnostic(
                "F001",
                f"the `{{` of {inside} is never closed",
                place,
                label="opened here",
                help=help_text,
            )
        return Diagnostic(
            "F001",
            f"{inside} is not complete",
            last,
            label="ends here",
            help=f"expected {expected}",
        )

    def _top_level(self, chunk: list[Token], position: int, span: Span) -> Diagnostic:
        text = str(chunk[position])
        if text == "}":
            return Diagnostic(
                "F001", "this `}` closes nothing", span, help="remove it, or add the missing `{`"
            )
        if chunk[position].type == "BAD":
            help_text = "comments start with `//`" if text in "#/" else "remove it"
            return Diagnostic(
                "F001", f"{named(text)} means nothing in a .flow text", span, help=help_text
            )
        follows = chunk[position + 1].type if position + 1 < len(chunk) else ""
        if chunk[position].type == "NAME" and follows in ("COLON", "_ARROW", "DOT"):
            help_text = "instances and chains belong inside `app Name { ... }`"
            return Diagnostic("F001", f"`{text}` is outside of any app", span, help=help_text)
        guess = did_you_mean(text, (*OPENING_WORDS, *_OTHER_WORDS))
        guess = next(
            (
                f"did you mean `{w}`?"
                for o, w in _OTHER_WORDS.items()
                if guess == f"did you mean `{o}`?"
            ),
            guess,
        )
        help_text = guess or f"a declaration starts with {one_of(OPENING_WORDS, 20)}"
        notes: tuple[Note, ...] = ()
        return Diagnostic(
            "F001", f"`{text}` starts no declaration", span, notes=notes, help=help_text
        )


def _declarations(tokens: list[Token]) -> Iterator[list[Token]]:
    """Cut at the keywords that open a declaration outside braces.

    Inside braces a keyword may be an instance's name; there it opens a declaration only at the
    start of a line and when it looks like one (`task Name {`), which means that a `}` is missing
    above it.
    """
    chunk: list[Token] = []
    depth = 0
    for i, token in enumerate(tokens):
        fresh_line = i == 0 or tokens[i - 1].line != token.line
        opens = token.type in OPENERS
        if (
            opens
            and chunk
            and (
                (depth == 0 and not _wants_word(chunk))
                or (fresh_line and _looks_declared(tokens, i))
            )
        ):
            yield chunk
            chunk, depth = [], 0
        chunk.append(token)
        depth += (token.type == "LBRACE") - (token.type == "RBRACE")
        depth = max(depth, 0)
    if chunk:
        yield chunk


def _wants_word(chunk: list[Token]) -> bool:
    return len(chunk) == 1 and chunk[0].type in OPENERS


def _looks_declared(tokens: list[Token], i: int) -> bool:
    kinds = [t.type for t in tokens[i : i + 3]]
    if tokens[i].column != 1 or len(kinds) < 3:
        return False
    return (kinds[1] == "NAME" and kinds[2] in ("LBRACE", "LPAR", "FROM", "EQUAL")) or kinds[
        1
    ] == "ON"


#: What a `wcet` consists of, beside `on`.
_OF_TIMES = frozenset(
    (
        "NAME",
        "NUMBER",
        "ADD",
        "MUL",
        "LPAR",
        "RPAR",
        "LSQB",
        "RSQB",
        "COMMA",
        "FOR",
        "DOT",
        "ENGINE",
    )
)


def _tell_types(chunk: list[Token]) -> None:
    """Tell `wcet 2 ms on big` from items that begin with `on` as well: `on error`, and code for a
    kind of processor."""
    in_wcet = False
    for at, token in enumerate(chunk):
        if token.type == "WCET":
            in_wcet = True
        elif token.type == "ON" and in_wcet and at + 1 < len(chunk):
            is_code = [t.type for t in chunk[at + 2 : at + 4]] == ["NAME", "STRING"]
            if chunk[at + 1] == "error" or (is_code and chunk[at + 1] in KINDS):
                in_wcet = False
            else:
                token.type = "_ON_TYPE"
        else:
            in_wcet = in_wcet and token.type in _OF_TIMES


def _names_declared(chunk: list[Token]) -> Iterator[str]:
    """Names that a faulty declaration would have declared, also behind a misspelt keyword."""
    for i, token in enumerate(chunk[:-1]):
        follows = chunk[i + 2].type if i + 2 < len(chunk) else ""
        starts = i == 0 or chunk[i - 1].line != token.line
        if (
            starts
            and chunk[i + 1].type == "NAME"
            and (i == 0 or follows in ("LBRACE", "LPAR", "FROM", "EQUAL"))
        ):
            yield str(chunk[i + 1])


def _open_braces(chunk: list[Token]) -> list[Token]:
    opened: list[Token] = []
    for token in chunk:
        if token.type == "LBRACE":
            opened.append(token)
        elif token.type == "RBRACE" and opened:
            opened.pop()
    return opened


def _inside(chunk: list[Token]) -> str:
    name = f" `{chunk[1]}`" if len(chunk) > 1 and chunk[1].type == "NAME" else ""
    return f"{chunk[0]!s}{name}"
