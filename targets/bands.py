"""Checks that a network can run in the bands of a pin, and within its memory.

In: a task and a stage of its pin. Out: code, message and help of a fault, or None.
"""

from __future__ import annotations

from collections.abc import Collection

from ..model.application import Network, Task
from ..model.mapping import PinStage
from ..model.quantity import in_bytes


def unfit_bands(task: Task, stage: PinStage, kinds: Collection[str]) -> tuple[str, str, str] | None:
    """The reason why a network cannot run in such bands."""
    if not stage.bands:
        return None
    network = task.network
    if network is None:
        return "F527", f"`{task.name}` is no network: it has no rows", "leave `bands` out"
    if set(kinds) != {"cpu"}:
        return (
            "F527",
            f"`{task.name}` does not run on a CPU: bands are for networks there",
            "leave `bands` out",
        )
    if network.one_piece:
        message = f"`{task.name}` has {network.one_piece}: its rows are not known"
        return "F404", message, "leave `bands` out"
    if network.batch > 1:
        message = f"`{task.name}` groups {network.batch} firings: bands have one image each"
        return "F527", message, "leave `batch` or `bands` out"
    if network.moving is not None:
        return (
            "F527",
            f"the cut of `{task.name}` moves: its parts have no bands",
            "leave `adapt` or `bands` out",
        )
    from ..networks.bands.firings import CannotBand, plan_of
    from ..networks.bands.made import net_of
    from ..networks.onnx.interface import NetworkError

    try:
        plan_of(net_of(network), stage.bands)
    except CannotBand as error:
        return error.code, f"`{task.name}`: {error}", error.help
    except NetworkError as error:
        return error.code, error.message, error.help
    return None


def unfit_memory(
    task: Task, stage: PinStage, kinds: Collection[str]
) -> tuple[str, str, str] | None:
    """The reason why a network does not fit into the memory of its pin."""
    if stage.memory is None:
        return None
    network = task.network
    if network is None or set(kinds) != {"cpu"}:
        message = f"`{task.name}` is no network on a CPU: its memory is not known"
        return "F512", message, "leave `memory` out"
    from ..networks.bands.choices import choice_for
    from ..networks.onnx.memory import needs

    sessions = 0
    if stage.bands:
        choice = choice_for(network, stage.bands)
        weights, between, sessions = choice.weights, choice.buffers, choice.sessions
    else:
        whole = needs(network)
        if whole is None:
            reason = f"it has {network.one_piece}" if network.one_piece else "its sizes are open"
            return (
                "F512",
                f"the memory of `{task.name}` is not known: {reason}",
                "leave `memory` out",
            )
        weights, between = whole.weights, network.batch * whole.block
    taken = weights + between + sessions
    if taken <= stage.memory:
        return None
    message = f"`{task.name}` takes {in_bytes(taken)}, its pin gives {in_bytes(stage.memory)}"
    help_text = f"weights are {in_bytes(weights)}, between layers it needs {in_bytes(between)}"
    help_text += f", its sessions keep {in_bytes(sessions)}" if sessions else ""
    return "F511", message, f"{help_text}; {_least(network, taken)}"


def _least(network: Network, taken: int) -> str:
    """The least memory of a network in bands, and the layers that determine it, if less than
    now.
    """
    from ..networks.bands.choices import choices_of

    possible = network.batch == 1 and network.moving is None and not network.one_piece
    least = next((c for c in choices_of(network) if c.bands), None) if possible else None
    if least is None or least.bytes >= taken:
        return "no bands need less"
    return (
        f"in bands it takes {in_bytes(least.bytes)} at least, for the layers that make"
        f" `{least.dictated_by}`"
    )
