"""XML of untrusted files, safely: bytes to a tree of elements with their places.

In: the bytes of a file. Out: its root element, with attributes, text and the line of each element;
and elements as text again. A document type is rejected, and with it every entity that could be
expanded or fetched. The formats interpret the elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from ..model.diagnostic import Diagnostic, Errors
from ..model.span import Span

#: Most nested elements; graph files need about six.
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Element:
    """`tag` and attribute names have no namespace prefix; `span` is the start of the opening tag.

    `words` are the pieces of its text, before, between and after its children.
    """

    tag: str
    attributes: dict[str, str]
    children: list[Element]
    span: Span
    words: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its text, without surrounding blanks."""
        return "".join(self.words).strip()

    def all(self, *tags: str) -> Iterator[Element]:
        """The children with one of these tags, in the order of the text."""
        return (child for child in self.children if child.tag in tags)

    def within(self, group: str, *tags: str) -> Iterator[Element]:
        """The children with one of these tags of all children with the tag `group`."""
        for holder in self.all(group):
            yield from holder.all(*tags)

    def below(self) -> Iterator[Element]:
        """Everything inside, in the order of the text."""
        for child in self.children:
            yield child
            yield from child.below()


def parse(path: str, data: bytes, code: str) -> Element:
    """The root element. Raises Errors with `code` if this is no XML, or XML that is not read
    here."""
    parser = expat.ParserCreate()
    outside = Element("", {}, [], Span(path, 1, 1, 1, 1))
    opened = [outside]

    def here(width: int) -> Span:
        line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
        return Span(path, line, column, line, column + width)

    def start(tag: str, attributes: dict[str, str]) -> None:
        span = here(len(tag) + 1)
        if len(opened) > DEEPEST:
            _refuse(
                code,
                f"more than {DEEPEST} elements inside each other",
                span,
                "this is not a graph file",
            )
        named = {name.rpartition(":")[2]: value for name, value in attributes.items()}
        element = Element(tag.rpartition(":")[2], named, [], span)
        opened[-1].children.append(element)
        opened.append(element)

    def end(tag: str) -> None:
        opened.pop()

    def doctype(name: str, system: str | None, public: str | None, internal: bool) -> NoReturn:
        _refuse(
            code,
            "this XML has a document type, which is not read",
            here(9),
            "remove the `<!DOCTYPE ...>`",
        )

    parser.StartElementHandler = start
    parser.CharacterDataHandler = lambda text: opened[-1].words.append(text)
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        span = Span(path, error.lineno, error.offset + 1, error.lineno, error.offset + 1)
        _refuse(code, f"this is no XML: {expat.ErrorString(error.code)}", span, "")
    except (LookupError, ValueError):
        # an encoding that Python does not support, or not one byte for a character
        _refuse(
            code,
            "the encoding of this XML is not known",
            Span(path, 1, 1, 1, 1),
            "write it as UTF-8",
        )
    return outside.children[0]


def as_text(node: Element, depth: int = 0) -> Iterator[str]:
    """The lines of an element with its content. Text counts only if there is nothing else."""
    space = "    " * depth
    said = attributes_as_text(node.attributes)
    if node.children:
        yield f"{space}<{node.tag}{said}>"
        for child in node.children:
            yield from as_text(child, depth + 1)
        yield f"{space}</{node.tag}>"
    elif node.text:
        yield f"{space}<{node.tag}{said}>{escape(node.text)}</{node.tag}>"
    else:
        yield f"{space}<{node.tag}{said}/>"


def attributes_as_text(attributes: dict[str, str]) -> str:
    """What follows the tag of an element that has them."""
    return "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())


def _refuse(code: str, message: str, span: Span, help_text: str) -> NoReturn:
    raise Errors([Diagnostic(code, message, span, help=help_text)])
