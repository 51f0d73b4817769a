"""Results of tests as JUnit XML, as Jenkins, GitLab and GitHub actions read it."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from .run import Tested, TestOutcome

#: Characters that XML 1.0 cannot hold.
_FOREIGN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"failed": "failure", "error": "error", "skipped": "skipped"}


def junit(tested: Tested) -> str:
    """One suite, named after the text; the classes of its test cases are apps."""
    outcomes = Counter(test.outcome for test in tested.tests)
    totals = {
        "name": tested.name,
        "tests": str(len(tested.tests)),
        "failures": str(outcomes["failed"]),
        "errors": str(outcomes["error"]),
        "skipped": str(outcomes["skipped"]),
        "time": f"{tested.seconds:.3f}",
    }
    suites = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(suites, "testsuite", totals)
    for test in tested.tests:
        _case(suite, tested.name, test)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=False) + "\n"


def _case(suite: ElementTree.Element, name: str, test: TestOutcome) -> None:
    place = {"classname": f"{name}.{test.app}" if test.app else name, "name": test.name}
    case = ElementTree.SubElement(suite, "testcase", {**place, "time": f"{test.seconds:.3f}"})
    if test.outcome != "passed":
        message = _FOREIGN.sub("?", test.message)
        element = ElementTree.SubElement(
            case, _ELEMENTS[test.outcome], {"message": message.rpartition("\n")[2]}
        )
        element.text = message
