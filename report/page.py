"""A report as one file that any browser shows without a network: the document with the scripts that
draw it.

In: a document. Out: HTML. The page may load nothing and run only its own script (the page's policy
has its hash); names reach it as data and are only ever shown as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files

from .document import Document

#: The scripts, in the order in which they are joined.
SCRIPTS = ("base.js", "chart.js", "graph.js", "gantt.js", "sections.js", "main.js")
_DATA = re.compile(rb'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def page(document: Document) -> str:
    """The page. Equal documents give equal text."""
    return render(document.to_json(), document.name)


def live_page(document: Document, choice: int | None = None) -> str:
    """The page for a server (`serve`), which sends it the program's status.

    If the server accepts requests, `choice` is how often the user has chosen another mapping so
    far.
    """
    return render(
        document.to_json(),
        document.name,
        f"const CHOICE = {json.dumps(choice)};\n{_asset('live.js')}",
    )


def render(data: str, name: str, live: str = "") -> str:
    """The page for a document as JSON; with `live`, it has another script that receives its
    server's events."""
    style, script = _asset("page.css"), "\n".join(_asset(file) for file in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n{live}}})();\n'
    # Nothing in the data can end its element, and nothing in it is a tag.
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    policy = [
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        *(["connect-src 'self'"] if live else []),
    ]
    parts = {
        "POLICY": escape("; ".join(policy)),
        "TITLE": escape(f"{name} - flowc"),
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    return re.sub(
        r"%(POLICY|TITLE|STYLE|DATA|SCRIPT)%", lambda found: parts[found[1]], _asset("page.html")
    )


def data_of(content: bytes) -> bytes:
    """The document inside of a page, as JSON. Raises ValueError."""
    match = _DATA.search(content)
    if match is None:
        raise ValueError("it is not a report of flowc")
    return match[1]


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
