"""Calls that may wait for ever, as far as their names tell: no module is imported, so no types are
known."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

#: What stands in the line of a wait that needs no limit, with the reason behind it, or in the line
#: above.
REASON = re.compile(r"# no limit: \S")
#: Methods and functions that wait for ever when they are called without any argument.
_BARE = {
    "wait",
    "join",
    "get",
    "acquire",
    "result",
    "accept",
    "communicate",
    "wait_for_termination",
}
#: Those that wait for ever without `timeout`, whatever else they are given.
_TIMED = {
    "communicate",
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.getoutput",
    "opener.open",
    "urlopen",
    "urllib.request.urlopen",
    "socket.create_connection",
    "HTTPConnection",
    "http.client.HTTPConnection",
}
#: Those that have no limit at all, but for one that stands elsewhere.
_NEVER = {
    "input",
    "os.read",
    "os.wait",
    "os.waitpid",
    "signal.pause",
    "signal.sigwait",
    "signal.sigwaitinfo",
}
#: Reading from the end of a pipe that another process holds.
_READING = {"read", "readline", "readlines", "read1"}
_PIPES = ("stdout", "stderr")
#: A socket's, which has its limit from how it was made, or from `settimeout`: in the same file.
_OF_SOCKETS = {
    "recv",
    "recv_into",
    "recvfrom",
    "recvmsg",
    "recv_multipart",
    "recv_json",
    "recv_string",
    "recv_bytes",
}
_LIMITED = re.compile(r"settimeout|RCVTIMEO|create_connection\([^\n]*timeout=")


def endless(file: Path) -> Iterator[str]:
    """The places of a file, with its path as it is given, that may wait for ever and do not say
    why."""
    text = file.read_text()
    lines = text.splitlines()
    tree = ast.parse(text)
    limited = {
        id(n) for call in ast.walk(tree) if _limits(call) for n in ast.walk(call) if n is not call
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in limited or not _may_wait(node, text):
            continue
        beside = lines[max(0, node.lineno - 2) : node.end_lineno]
        if not any(REASON.search(line) for line in beside):
            yield f"{file}:{node.lineno}: {ast.unparse(node)[:100]}"


def _limits(node: ast.AST) -> bool:
    """Does it give what stands inside a limit?"""
    if isinstance(node, ast.Call):
        return _name(node.func).rpartition(".")[2] == "wait_for"
    return isinstance(node, ast.AsyncWith) and any(
        "timeout" in ast.unparse(i.context_expr) for i in node.items
    )


def _may_wait(call: ast.Call, text: str) -> bool:
    full = _name(call.func)
    on, _, name = full.rpartition(".")
    given = {k.arg for k in call.keywords}
    at_once = any("NOHANG" in ast.unparse(a) or "NOBLOCK" in ast.unparse(a) for a in call.args)
    if at_once or given & {"timeout", None}:  # None: `**options`, which may have one
        return False
    if full in _TIMED or name in _TIMED:
        return True
    if full in _NEVER:
        return True
    if full == "select.select":
        return len(call.args) < 4
    if name in _READING:
        return on.rpartition(".")[2] in _PIPES
    if name in _OF_SOCKETS:
        return not _LIMITED.search(text)
    return name in _BARE and bool(on) and not call.args and not given


def _name(function: ast.expr) -> str:
    """`a.b.c` as it is written; calls and subscripts in it are left out."""
    match function:
        case ast.Name():
            return function.id
        case ast.Attribute():
            return f"{_name(function.value)}.{function.attr}"
        case ast.Call() | ast.Subscript() | ast.Await():
            return "_"
    return "_"
