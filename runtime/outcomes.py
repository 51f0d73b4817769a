"""Runs the tests of a build like `python3 -m unittest discover -s tests -v`, and writes what became
of each as JSON.

In: the directory of the build, as the current one, a file to write, and the directory in which the
program runs, if that is another one: `python3 -m runtime.outcomes FILE [FOLDER]`. Out: the same
words and the same exit status as unittest's own, and the document `{"seconds", "tests": [{"name",
"app", "outcome", "seconds", "message"}]}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import unittest
from typing import Any, Dict, List

from .files import Output


class _Result(unittest.TextTestResult):
    """Also keeps who was tested, and for how long."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.tests: List[unittest.TestCase] = []
        self.seconds: List[float] = []
        self._begin = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.tests.append(test)
        self._begin = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.seconds.append(time.monotonic() - self._begin)

    def outcomes(self) -> List[Dict[str, Any]]:
        """What became of every test, and of what unittest could not begin: a class, or a file."""
        found = [_outcome(test, seconds) for test, seconds in zip(self.tests, self.seconds)]
        of = {id(test): outcome for test, outcome in zip(self.tests, found)}
        for word, list_ in (
            ("skipped", self.skipped),
            ("failed", self.failures),
            ("error", self.errors),
        ):
            for test, message in list_:
                test = getattr(test, "test_case", test)  # a part of a test
                if id(test) not in of:
                    of[id(test)] = _outcome(test, 0.0)
                    found.append(of[id(test)])
                of[id(test)].update(outcome=word, message=message.strip())
        return found


def _outcome(test: unittest.TestCase, seconds: float) -> Dict[str, Any]:
    name = getattr(test, "_testMethodName", None) or test.id()
    app = getattr(test, "app", None)
    return {
        "name": name,
        "app": app,
        "outcome": "passed",
        "seconds": round(seconds, 6),
        "message": "",
    }


def main(file: str, folder: str = "") -> int:
    """Run the tests; the exit status."""
    begin = time.monotonic()
    suite = unittest.TestLoader().discover("tests")
    if folder:
        os.chdir(folder)
    result = unittest.TextTestRunner(verbosity=2, resultclass=_Result, warnings="default").run(
        suite
    )
    assert isinstance(result, _Result)
    with Output(file).written() as stream:
        json.dump(
            {"seconds": round(time.monotonic() - begin, 6), "tests": result.outcomes()},
            stream,
            indent=1,
        )
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
