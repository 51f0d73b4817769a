"""What a page of published numbers is made of: tables, with the paper's number beside flowc's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Who fills a table whose other columns follow from the paper's own.
ARITHMETIC = "arithmetic on numbers that the paper prints; flowc is not asked"


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a figure of a paper; `why` tells where numbers differ, or what to notice.

    `filled_by` names the command whose answer the columns of flowc are, or says why there is none.
    `rows` have a cell for each of `head`. A table without rows cannot be worked out here: `why`
    says what is missing.
    """

    title: str
    why: str
    filled_by: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def markdown(self) -> str:
        """The table with its title and its remark."""
        if not self.rows:
            return f"**{self.title}** Not here: {self.why}"
        lines = [f"**{self.title}** {self.why}".rstrip(), "", f"*Filled by*: {self.filled_by}.", ""]
        lines += [_line(self.head), _line(["---"] * len(self.head))]
        lines += [_line(row) for row in self.rows]
        return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(
    title: str, why: str, head: str, rows: Iterable[Sequence[object]], *, filled_by: str
) -> Table:
    """A table whose `head` is a line of words between `|`; cells are written as they are."""
    words = tuple(word.strip() for word in head.split("|"))
    made = tuple(tuple(str(cell) for cell in row) for row in rows)
    for row in made:
        if len(row) != len(words):
            raise ValueError(f"{title}: {len(row)} cells under {len(words)} words")
    return Table(title, why, filled_by, words, made)


def board(title: str, why: str) -> Table:
    """A table whose numbers were measured on hardware that is not here."""
    return Table(title, f"needs {why}")


def absent(title: str, why: str) -> Table:
    """A table that is not worked out for another reason."""
    return Table(title, why)


def by_benchmark(why: str) -> str:
    """Who fills a table that no verb fills, and why it does not."""
    return f"a problem built by the benchmark, not by a verb: {why}"


def same(paper: object, here: object) -> str:
    """A word for a row: does flowc say what the paper says?"""
    return "same" if paper == here else "differs"


def numbers(values: Iterable[object]) -> str:
    """Values in one cell."""
    return ", ".join(str(value) for value in values)
