"""Write man pages of flowc and of each verb into a folder: `python docs/make_man.py build/man`.

They are what `--help` prints, made with help2man (a Debian package of that name), which has to be
installed. `man -l build/man/flowc-check.1` shows one of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import flowc
from flowc.cli import app
from flowc.cli._verbs import Verbs


def main(folder: Path) -> None:
    """One page each."""
    folder.mkdir(parents=True, exist_ok=True)
    program = str(Path(sys.executable).with_name("flowc"))
    pages = {"": app.info.help or ""}
    for name, verb in Verbs.verbs.items():
        pages[name] = verb.load().__doc__ or ""
    for word, text in pages.items():
        name = f"flowc-{word}" if word else "flowc"
        words = [
            "help2man",
            "--no-info",
            "--name",
            text.splitlines()[0],
            "--version-string",
            flowc.__version__,
        ]
        called = f"{program} {word}".strip()
        page = subprocess.run([*words, called], check=True, capture_output=True, text=True).stdout
        (folder / f"{name}.1").write_text(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
