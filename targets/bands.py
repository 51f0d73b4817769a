"""Whether a network can go in the bands that a pin asks for.

In: a task and a stage of its pin. Out: code, message and help of what is in the way, or None.
"""

from __future__ import annotations

from collections.abc import Collection

from ..model.application import Task
from ..model.mapping import PinStage


def unfit_bands(task: Task, stage: PinStage, kinds: Collection[str]) -> tuple[str, str, str] | None:
    """Why a network cannot go in such bands."""
    if not stage.bands:
        return None
    network = task.network
    if network is None:
        return "F527", f"`{task.name}` is no network: it has no rows", "leave `bands` out"
    if set(kinds) != {"cpu"}:
        return "F527", f"`{task.name}` does not run on a CPU: bands are for networks there", "leave `bands` out"
    if network.batch > 1:
        message = f"`{task.name}` groups {network.batch} firings: bands have one image each"
        return "F527", message, "leave `batch` or `bands` out"
    if network.moving is not None:
        return "F527", f"the cut of `{task.name}` moves: its parts have no bands", "leave `adapt` or `bands` out"
    from ..networks.bands.firings import CannotBand
    from ..networks.bands.made import net_of, planned_of
    from ..networks.onnx.interface import NetworkError

    try:
        planned_of(net_of(network), stage.bands, 0.0)
    except CannotBand as error:
        return error.code, f"`{task.name}`: {error}", error.help
    except NetworkError as error:
        return error.code, error.message, error.help
    return None
