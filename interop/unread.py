"""Files of tools whose formats flowc does not read, so that a message can name them.

In: a path. Out: what the file is, in words, by its content, else by its name; empty if unknown.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..model.files import read_bytes

#: What a file is, and what it begins with, or has at the start of a line.
_CONTENT = (
    ("a model of AMALTHEA (APP4MC)", r"<[\w.-]*:?Amalthea\b"),
    ("a model of Capella", r"<[\w.-]*:?(?:Project|Capella)\b[^>]*polarsys\.org/capella"),
    ("an AUTOSAR description (ARXML)", r"<AUTOSAR\b"),
    ("a model of Simulink", r"^Model \{"),
    ("an architecture of CARET", r"^(?:named_paths|path_name_aliases):"),
    ("a dataflow of dora", r"^nodes:\s*\n\s*-\s+(?:id|name):"),
    ("a graph of MediaPipe", r"^[ \t]*calculator[ \t]*:|^(?:input|output)_stream[ \t]*:"),
    ("a graph in DOT (Graphviz)", r"^(?:strict\s+)?(?:di)?graph\b[^{<\n]*\{"),
    ("a task graph of TGFF", r"^@(?:TASK_GRAPH|HYPERPERIOD)\b"),
    ("a pipeline of GStreamer", r"\bgst-launch(?:-[\d.]+)?\b|^[ \t]*[\w-]+src\b.*\s!\s"),
    ("a graph in GraphML", r"<graphml\b"),
    ("a launch file of ROS", r"<launch\b"),
    ("a flow of Node-RED", r"\A\s*\[\s*\{[^}]*\"(?:wires|z)\"\s*:"),
)
_ENDINGS = {
    ".amxmi": "a model of AMALTHEA (APP4MC)",
    ".arxml": "an AUTOSAR description (ARXML)",
    ".dot": "a graph in DOT (Graphviz)",
    ".gv": "a graph in DOT (Graphviz)",
    ".tgff": "a task graph of TGFF",
    ".pbtxt": "a text of protocol buffers (MediaPipe)",
    ".slx": "a model of Simulink",
    ".mdl": "a model of Simulink",
    ".yaml": "a text in YAML",
    ".yml": "a text in YAML",
    ".json": "a text in JSON",
    ".onnx": "a network in ONNX",
    ".flow": "a text of flowc",
}
#: As many bytes are looked at.
_LOOKED_AT = 1 << 12


def unread(path: Path) -> str:
    """What a file is, if a tool has written it whose files flowc does not read."""
    try:
        begin = read_bytes(path)[:_LOOKED_AT].decode(errors="replace")
    except OSError:
        return ""
    if re.search(r"<(?:[\w.-]+:)?sdf3\b", begin):
        return ""
    for what, pattern in _CONTENT:
        if re.search(pattern, begin, re.MULTILINE):
            return what
    return _ENDINGS.get(path.suffix.lower(), "")
