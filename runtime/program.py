"""What main.py says of a program: its apps, the channels between their tasks, and the static order
of each processor.

In: the calls of main.py. Out: a `Program`, which `lifecycle.py` executes. How its run is doing is
in `Program.run`.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Sequence

from .channel import Channel
from .graph import App, Fire, Task
from .run import Run
from .tokens import TaskError

if TYPE_CHECKING:
    from .bridge import Bridge
    from .control import Control
    from .link import Link
    from .scenario import State
    from .scheduling import Scheduling


class Arrow(NamedTuple):
    """A channel, as main.py says it: from an output to an input."""

    source: Task
    output: str
    destination: Task
    input: str
    capacity: int
    delay: int
    values: Sequence[float]
    key: Optional[str]


class Processor(NamedTuple):
    """A worker to be. `state` is the one in which it works, in a program that has states; `rounds`
    is the function in rounds.py that is written for its order, empty if there is none."""

    name: str
    order: List[Fire]
    scheduling: Optional["Scheduling"]
    state: Optional["State"]
    rounds: str


class Program:
    """Built by the generated `main.py`, then executed once."""

    def __init__(self, name: str, home: str) -> None:
        self.name = name
        self.run = Run(home)
        self.apps = self.run.apps
        self.tasks = self.run.tasks
        self.processors: List[Processor] = []
        self.arrows: List[Arrow] = []
        self.channels: List[Channel] = []
        #: What apps hand each other, by name.
        self.links: Dict[str, Link] = {}
        #: Who changes states, where there are any, and the state whose apps and processors are
        #: being made.
        self.control: Optional[Control] = None
        self.state_being_built: Optional[State] = None
        #: What joins open ends to the dataflow of a robot, where the program is a node of one.
        self.bridge: Optional[Bridge] = None
        #: Bytes that are planned for networks: weights, buffers of what is between layers, tokens
        #: on channels, arenas.
        self.planned: Optional[Dict[str, int]] = None
        #: Bytes of weights of alternatives that have a part in common: separate, distinct, and as
        #: they are built.
        self.shared: Optional[Dict[str, int]] = None

    def app(self, name: str, period: Optional[str] = None, deadline: Optional[str] = None) -> App:
        """Add an app; times are exact fractions of ns as text, such as "20000000" or
        "100000000/3"."""
        made = App(
            self.run,
            name,
            Fraction(period) if period else None,
            Fraction(deadline) if deadline else None,
        )
        self.apps.append(made)
        made.sibling_apps = self.apps
        if self.state_being_built is not None:
            self.state_being_built.apps.append(made)
            made.sibling_apps = self.state_being_built.apps
        return made

    def channel(
        self,
        source: Task,
        output: str,
        destination: Task,
        input: str,
        capacity: int,
        delay: int = 0,
        values: Sequence[float] = (),
        key: Optional[str] = None,
    ) -> None:
        """Connect an output to an input. `capacity` is in tokens; by its `key` it is the same one
        in all states."""
        self.arrows.append(Arrow(source, output, destination, input, capacity, delay, values, key))

    def processor(
        self,
        name: str,
        order: Sequence[Fire],
        scheduling: Optional["Scheduling"] = None,
        rounds: str = "",
    ) -> None:
        """A worker that runs this order, again and again, scheduled like that, by that function of
        rounds.py once there is nothing to decide."""
        self.processors.append(
            Processor(name, list(order), scheduling, self.state_being_built, rounds)
        )
        self.run.add_worker()

    def file(self, path: str) -> str:
        """A data file of the build, as a parameter of a task."""
        return os.path.join(self.run.home, path)

    def raise_event(self, name: str) -> None:
        """From whatever thread. Raises ValueError for an event that is unknown."""
        if self.control is None:
            raise ValueError("the program has no states")
        self.control.raise_event(name)

    def twin(self) -> None:
        """Let CPU threads play GPU, DLAs and NPUs: same workers, same orders, same channels.
        Raises TaskError."""
        for task in self.tasks:
            if task.code.device is not None or task.code.twin is not None:
                if task.code.twin is None:
                    raise TaskError(
                        "%s has code for a GPU only: a twin needs `reference` or `on cpu` in its"
                        " .flow" % task.name
                    )
                task.code = task.code.twin
                self.run.twin = True
