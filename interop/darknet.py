"""Darknet networks in: a .cfg with its .weights becomes an .onnx (`networks.darknet`)."""

from __future__ import annotations

from pathlib import Path

from ..model.diagnostic import Diagnostic, Errors
from .registry import Imported, Importer, Option, Request


def _recognizes(path: Path) -> bool:
    """Does a .cfg describe the layers of a network? Raises Errors if it cannot be read."""
    from ..networks.darknet.convert import is_darknet
    from ..networks.onnx.interface import NetworkError

    if path.suffix != ".cfg":
        return False
    try:
        return is_darknet(path)
    except NetworkError as fault:
        raise Errors([Diagnostic(fault.code, fault.message, None, help=fault.help)]) from fault


def _read(request: Request) -> Imported:
    """The network with its weights, by default those beside the .cfg. Raises Errors."""
    from ..networks.darknet.convert import CfgError, read_darknet
    from ..networks.onnx.interface import NetworkError

    weights = request.options.path("weights") or request.path.with_suffix(".weights")
    try:
        return Imported(
            {request.target.name: read_darknet(request.path, weights).SerializeToString()}
        )
    except CfgError as faults:
        raise Errors(faults.diagnostics) from faults
    except NetworkError as fault:
        raise Errors([Diagnostic(fault.code, fault.message, None, help=fault.help)]) from fault


IMPORTER = Importer(
    "darknet",
    "the .cfg of a Darknet network",
    _recognizes,
    _read,
    (Option("weights", "the weights (default: beside the .cfg)", Path),),
    ".onnx",
    "network",
    title="Darknet",
    inputs="NET.cfg",
)
