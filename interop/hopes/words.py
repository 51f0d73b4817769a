"""Words of HOPES' files that import and export share."""

from __future__ import annotations

import re

#: The namespace of CIC XML.
SCHEMA = "http://peace.snu.ac.kr/CICXMLSchema"
#: The time, in us, that HOPES writes for a processor that cannot run a task.
CANNOT = 99999999
#: HOPES' names of the execution policies of its programs.
POLICIES = {
    "static-assignment": "Static-Assignment-Execution-Policy",
    "self-timed": "Self-timed-Execution-Policy",
}
#: The forms of a project: that of its translator (CIC XML), and that of its tool, which generates
#: the other.
FORMS = ("cic", "project")
#: Marks code written by flowc that holds the initial tokens of an input itself: the port, and their
#: number.
HELD = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+FLOWC_HELD_(\w+)[ \t]+(\d{1,9})[ \t]*$", re.MULTILINE | re.ASCII
)
#: The folder with static orders.
ORDERS = "convertedSDF3xml"
#: The package with the templates.
PACKAGE = "flowc.interop.hopes"
