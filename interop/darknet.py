"""Darknet networks in: a .cfg with its .weights becomes an .onnx (`networks.darknet`)."""

from __future__ import annotations

from pathlib import Path

from ..model.diagnostic import Diagnostic, Errors
from ..networks.darknet.convert import CfgError, is_darknet, read_darknet
from ..networks.onnx.interface import NetworkError
from .registry import Imported, Request


def is_network(path: Path) -> bool:
    """Does a .cfg describe the layers of a network? Raises Errors if it cannot be read."""
    try:
        return is_darknet(path)
    except NetworkError as fault:
        raise Errors([Diagnostic(fault.code, fault.message, None, help=fault.help)]) from fault


def read(request: Request) -> Imported:
    """The network with its weights, by default those beside the .cfg. Raises Errors."""
    weights = request.weights or request.path.with_suffix(".weights")
    try:
        return Imported(
            {request.target.name: read_darknet(request.path, weights).SerializeToString()}
        )
    except CfgError as faults:
        raise Errors(faults.diagnostics) from faults
    except NetworkError as fault:
        raise Errors([Diagnostic(fault.code, fault.message, None, help=fault.help)]) from fault
