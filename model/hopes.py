"""Words of HOPES' files that who reads them and who writes them share."""

from __future__ import annotations

import re

#: The namespace of CIC XML.
SCHEMA = "http://peace.snu.ac.kr/CICXMLSchema"
#: What HOPES writes as a time where something cannot run, in us.
CANNOT = 99999999
#: What HOPES calls the ways in which its programs decide who runs when.
POLICIES = {
    "static-assignment": "Static-Assignment-Execution-Policy",
    "self-timed": "Self-timed-Execution-Policy",
}
#: The forms of a project: that of its translator (CIC XML), and that of its tool, which makes the other one itself.
FORMS = ("cic", "project")
#: How code that flowc has written says that it has the initial tokens of an input itself: the port, and how many.
HELD = re.compile(r"^[ \t]*#[ \t]*define[ \t]+FLOWC_HELD_(\w+)[ \t]+(\d{1,9})[ \t]*$", re.MULTILINE | re.ASCII)
#: The folder with static orders.
ORDERS = "convertedSDF3xml"
