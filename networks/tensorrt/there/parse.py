"""Asks TensorRT for RTX what it makes of ONNX files: a script, in a process of its own.

Usage: parse.py [--build] FILE...

Writes a line of JSON for each file: `errors` (node number or -1, operator, TensorRT's words) and,
if it was built, `built` (bytes of the plan; null: not built), `words` (why it was not built), and
the builder's bytes of `weights` and of `activations`. The parser is foreign code that reads foreign
files: what it does to its process is no harm to the caller.
"""

import json
import os
import re
import sys
from typing import Any

import tensorrt_rtx as trt


class _Words(trt.ILogger):  # type: ignore[misc]
    """Keeps what TensorRT says of errors and of memory."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.errors: list[str] = []
        self.bytes: dict[str, int] = {}

    def log(self, severity: Any, message: str) -> None:
        if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
            self.errors.append(message)
        found = re.fullmatch(r"Total (Activation|Weights) Memory: (\d+) bytes", message)
        if found:
            self.bytes[found[1]] = int(found[2])


def asked(path: str, build: bool) -> dict[str, Any]:
    """What TensorRT says of a file."""
    words = _Words()
    builder = trt.Builder(words)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, words)
    if not parser.parse_from_file(path):
        errors = [parser.get_error(i) for i in range(parser.num_errors)]
        found = [(e.node(), e.node_operator(), e.desc()) for e in errors]
        return {"errors": found}
    if not build:
        return {"errors": []}
    words.errors.clear()
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    size = None if plan is None else plan.nbytes
    return {
        "errors": [],
        "built": size,
        "words": "; ".join(words.errors),
        "weights": words.bytes.get("Weights"),
        "activations": words.bytes.get("Activation"),
    }


def main() -> int:
    files = [argument for argument in sys.argv[1:] if argument != "--build"]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for file in files:
        print(json.dumps(asked(file, "--build" in sys.argv[1:])), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
