"""Words of HOPES' files that who reads them and who writes them share."""

from __future__ import annotations

#: The namespace of CIC XML.
SCHEMA = "http://peace.snu.ac.kr/CICXMLSchema"
#: What HOPES writes as a time where something cannot run, in us.
CANNOT = 99999999
#: What HOPES calls the ways in which its programs decide who runs when.
POLICIES = {
    "static-assignment": "Static-Assignment-Execution-Policy",
    "self-timed": "Self-timed-Execution-Policy",
}
#: The folder with static orders.
ORDERS = "convertedSDF3xml"
