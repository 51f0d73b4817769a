"""How often the actors of a PiSDF graph fire, by a second reading of PREESM's files that shares no
code with the first.

Each level is balanced from one actor outwards, fifo by fifo, and every fifo is looked at once more.
Then a part is repeated, once more each time, until no input interface keeps tokens and no output
interface lacks any, as PREESM has it, and the counts are multiplied downwards.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

NS = "{http://graphml.graphdrawing.org/xmlns}"
Overrides = Mapping[tuple[str, str], str]


def project(file: Path) -> Path:
    """The folder with `.project`, else the one above that of the file."""
    return next((p for p in file.parents if (p / ".project").exists()), file.parents[1])


def located(near: Path, url: str) -> Path | None:
    """The file that `/PROJECT/Algo/x.pi` or `Algo/x.pi` means."""
    root, parts = project(near.resolve()), [p for p in url.split("/") if p]
    names = [parts[1:], parts] if url.startswith("/") else [parts]
    places = [*(root.joinpath(*n) for n in names if n), near.parent / parts[-1]] if parts else []
    return next((f for f in places if f.is_file()), None)


def given(scenario: Path) -> dict[tuple[str, str], str]:
    """The values of a scenario, by graph and parameter."""
    nodes = ElementTree.parse(scenario).getroot().iter("parameter")
    return {(n.get("parent", ""), n.get("name", "")): n.get("value", "") for n in nodes}


def value(text: str, names: Mapping[str, Fraction]) -> Fraction:
    """An expression by Python's own grammar, which has the same order of operators once `^` is
    `**`."""
    return _value(
        ast.parse(re.sub(r"\bif\b", "if_", text.strip()).replace("^", "**"), mode="eval").body,
        names,
    )


def _value(node: ast.expr, names: Mapping[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, names), _value(right, names)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.Mod():
                    return Fraction(math.fmod(a, b))
                case ast.Pow():
                    return Fraction(a**b)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[right]):
            return Fraction(_value(left, names) > _value(right, names))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _call(function, [_value(a, names) for a in arguments])
    raise ValueError(ast.dump(node))


def _call(function: str, a: list[Fraction]) -> Fraction:
    match function:
        case "floor":
            return Fraction(math.floor(a[0] + Fraction(1, 10**9)))
        case "ceil":
            return Fraction(math.ceil(a[0] - Fraction(1, 10**9)))
        case "min" | "max":
            return {"min": min, "max": max}[function](*a)
        case "ln" | "sqrt":
            return Fraction({"ln": math.log, "sqrt": math.sqrt}[function](a[0]))
        case "if_":
            return a[1] if a[0] > 0 else a[2]
        case "pow_div_max":
            return Fraction(max(n for n in range(64) if a[1] % a[0] ** n == 0))
        case "geo_sum":
            return sum((a[0] * a[1] ** n for n in range(int(a[2]))), Fraction(0))
    raise ValueError(function)


class Flat:
    """A graph with all inside."""

    def __init__(self, top: Path, overrides: Overrides) -> None:
        self.root, self.overrides, self.top = project(top.resolve()), overrides, top
        self.found: dict[str, int] = {}

    def firings(self) -> dict[str, int]:
        """Firings of the actors with code of their own in one iteration, as PREESM counts it, by
        `sub.actor`."""
        self._level(self.top, {}, "", 1)
        return self.found

    def _level(self, file: Path, outside: Mapping[str, Fraction], prefix: str, times: int) -> None:
        graph = next(ElementTree.parse(file).getroot().iter(NS + "graph"))
        nodes = {n.get("id", ""): n for n in graph.iter(NS + "node")}
        name = (
            next((d.text for d in graph.findall(NS + "data") if d.get("key") == "name"), "") or ""
        )
        scope = self._scope(name, nodes, outside)
        arrows = list(graph.iter(NS + "edge"))
        config = {
            (e.get("target"), e.get("targetport")): scope[e.get("source", "")]
            for e in arrows
            if e.get("kind") == "dependency" and e.get("targetport") and e.get("source") in scope
        }
        local = {n: {p or "": v for (t, p), v in config.items() if t == n} for n in nodes}
        rates = {
            (n, p.get("name")): int(
                value(
                    p.get("expr", "1"),
                    {**(scope if node.get("kind") in ("src", "snk") else {}), **local[n]},
                )
            )
            for n, node in nodes.items()
            if node.get("kind") != "delay"
            for p in node.findall(NS + "port")
            if p.get("kind") in ("input", "output")
        }
        fifos = [
            (e.get("source", ""), rates[e.get("source", ""), e.get("sourceport")], e.get("target", ""), rates[e.get("target", ""), e.get("targetport")])
            for e in arrows
            if e.get("kind") == "fifo"
        ]  # fmt: skip
        faces = {n for n, node in nodes.items() if node.get("kind") in ("src", "snk")}
        actors = [
            n
            for n, node in nodes.items()
            if node.get("kind") in ("actor", "broadcast", "fork", "join", "roundbuffer")
        ]
        counts = balanced(actors, [f for f in fifos if not {f[0], f[2]} & faces])
        fitted(counts, fifos, faces)
        for n in actors:
            inside = (
                next(
                    (d.text for d in nodes[n].findall(NS + "data") if d.get("key") == "graph_desc"),
                    "",
                )
                or ""
            )
            if inside.endswith(".pi"):
                sub = located(file, inside)
                assert sub is not None
                self._level(sub, local[n], f"{prefix}{n}.", times * counts[n])
            elif nodes[n].get("kind") == "actor":
                self.found[prefix + n] = times * counts[n]

    def _scope(
        self, graph: str, nodes: Mapping[str, ElementTree.Element], outside: Mapping[str, Fraction]
    ) -> dict[str, Fraction]:
        todo = {
            n: self.overrides.get((graph, n)) or node.get("expr") or node.get("defaultValue") or ""
            for n, node in nodes.items()
            if node.get("kind") in ("param", "cfg_in_iface")
        }
        scope = {n: v for n, v in outside.items() if n in todo}
        todo = {n: text for n, text in todo.items() if n not in scope}
        while todo:  # those whose parameters are all known
            ready = {
                n: t for n, t in todo.items() if not set(re.findall(r"[A-Za-z_]\w*", t)) & set(todo)
            }
            for n, text in ready.items():
                scope[n] = value(text, scope)
                del todo[n]
        return scope


def balanced(actors: list[str], fifos: list[tuple[str, int, str, int]]) -> dict[str, int]:
    """The least firings of each part."""
    made = dict.fromkeys(actors, Fraction(0))
    parts: list[set[str]] = []
    for start in actors:
        if made[start]:
            continue
        part, made[start] = {start}, Fraction(1)
        while True:
            more = [
                (b, made[a] * r / s) if a in part else (a, made[b] * s / r)
                for a, r, b, s in fifos
                if (a in part) != (b in part)
            ]
            if not more:
                break
            for n, ratio in more:
                part.add(n)
                made[n] = ratio
        parts.append(part)
    counts: dict[str, int] = {}
    for part in parts:
        common = math.lcm(*(made[n].denominator for n in part))
        whole = {n: int(made[n] * common) for n in part}
        counts |= {n: w // math.gcd(*whole.values()) for n, w in whole.items()}
        faulty = [f for f in fifos if f[0] in part and counts[f[0]] * f[1] != counts[f[2]] * f[3]]
        assert not faulty, faulty
    return counts


def fitted(counts: dict[str, int], fifos: list[tuple[str, int, str, int]], faces: set[str]) -> None:
    """Repeats parts until their interfaces are served."""
    inner = [f for f in fifos if not {f[0], f[2]} & faces]
    while True:
        short = next(
            (
                n
                for a, r, b, s in fifos
                for n, rate, wanted in (
                    [(b, s, r)] if a in faces else [(a, r, s)] if b in faces else []
                )
                if n in counts and counts[n] * rate < wanted
            ),
            None,
        )
        if short is None:
            return
        part = {short}
        while more := {n for a, _, b, _ in inner for n in (a, b) if {a, b} & part} - part:
            part |= more
        base = {n: counts[n] // math.gcd(*(counts[m] for m in part)) for n in part}
        for n in part:
            counts[n] += base[n]


def agree(counts: Mapping[str, int], expected: Mapping[str, int]) -> bool:
    """Do tasks fire as often against each other? flowc's iteration may be a part of PREESM's."""
    ratios = {Fraction(n, counts[t]) for t, n in expected.items() if t in counts}
    return len(ratios) == 1 and sum(t in counts for t in expected) * 10 >= len(expected) * 9
