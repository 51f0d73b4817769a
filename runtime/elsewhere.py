"""Tasks of other parts of a program, as the sources of paths that end here.

In: what another part tells of them (`stamps.py`). Out: the releases of their firings, and the marks
of tokens that they, as readers of mailboxes, have found. They do not fire here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .graph import LONGEST_AGO, App, Task
from .link import Mark
from .run import Run
from .tokens import Port


class _ElsewhereCode(Code):
    """Of a task that does not fire here."""

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        raise AssertionError("it fires in another part")


class Elsewhere(Task):
    """A task of another part; `firings` per iteration. Times in ns, by the clock of this part."""

    def __init__(self, run: Run, name: str, firings: int, marks: Sequence[Mark]) -> None:
        app = App(run, name.partition(".")[0], None, None)
        super().__init__(app, name, _ElsewhereCode(), (), ())
        self.per_iteration, self.marks = firings, list(marks)
        self._releases = _Heard(firings * LONGEST_AGO)
        self._marks = _Heard(firings * LONGEST_AGO)

    def heard(self, of_marks: bool, firing: int, times: Sequence[Optional[int]]) -> None:
        """The other part has told of a firing. Raises ValueError for too few or too many times."""
        if len(times) != (len(self.marks) if of_marks else 1):
            raise ValueError("%d times of a firing of %s" % (len(times), self.name))
        (self._marks if of_marks else self._releases).keep(firing, times)

    def keep_releases(self) -> None:
        """They are kept from the start."""

    def release_of(self, firing: int) -> Optional[int]:
        """See `Task`; None: it is not known."""
        return self._releases.of(0, firing)

    def telling(self, mark: Mark) -> Optional[Callable[[int], Optional[int]]]:
        """Tells of a firing that mark of the token that it has found; None where tokens have none
        such."""
        for place, known in enumerate(self.marks):
            if (known.source, known.oldest) == (mark.source, mark.oldest):
                return partial(self._marks.of, place)
        return None


class _Heard:
    """What was heard of the latest firings. A message may come late, over a way of its own: so the
    number of the firing is kept as well."""

    def __init__(self, most: int) -> None:
        self._latest: List[Tuple[int, Sequence[Optional[int]]]] = [(-1, ())] * most

    def keep(self, firing: int, times: Sequence[Optional[int]]) -> None:
        """These are the times of a firing."""
        self._latest[firing % len(self._latest)] = firing, times

    def of(self, place: int, firing: int) -> Optional[int]:
        """One of the times of a firing; None: not known."""
        number, times = self._latest[firing % len(self._latest)]
        return times[place] if number == firing else None
