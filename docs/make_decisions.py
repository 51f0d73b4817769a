"""Writes docs/decisions.md: the decisions of each subject, with what has become of them.

Number, title, status and subject are those that the files of docs/decisions begin with.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: In the order of the page.
SUBJECTS = (
    "Dependencies",
    "The code",
    "The language",
    "Analysis",
    "Networks as graphs",
    "Mapping",
    "Networks in 8 bits, and Darknet",
    "Other tools",
    "Static orders",
    "The program",
    "Programs in C++",
    "GPUs and DLAs",
    "Measuring",
    "Reports",
    "Functional Mock-up Units",
    "Scenarios",
    "Editors and language models",
    "Several machines",
    "Documentation",
)
BEGINNING = re.compile(r"# (\d{3})\. (.+)\n\nStatus: (.+)\n\nSubject: (.+)\n\n## ")
INTRODUCTION = """\
# Decisions

<!-- Written by docs/make_decisions.py from docs/decisions. -->

What was decided, and why: one file per decision in `docs/decisions`. A new decision gets the next free number, and its
subject is a heading of this page. A decision that no longer holds stays, with the status `superseded by` and the number
of the one that replaces it. What has no remark is accepted.
"""


def page() -> str:
    """The text of the page. Raises ValueError."""
    rows: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
    for file in sorted((HERE / "decisions").glob("*.md")):
        beginning = BEGINNING.match(file.read_text())
        if beginning is None or beginning[4] not in rows or not file.name.startswith(beginning[1]):
            raise ValueError(
                f"docs/decisions/{file.name} does not begin with its number, title, `Status:` and"
                f" `Subject:` (one of {', '.join(SUBJECTS)})"
            )
        number, title, status, subject = beginning.groups()
        remark = "" if status == "accepted" else f": {status.replace('](', '](decisions/')}"
        rows[subject].append(f"- {number} [{title}](decisions/{file.name}){remark}\n")
    return "\n".join(
        [INTRODUCTION, *(f"## {subject}\n\n{''.join(found)}" for subject, found in rows.items())]
    )


if __name__ == "__main__":
    (HERE / "decisions.md").write_text(page())
