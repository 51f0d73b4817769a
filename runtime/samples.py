"""Writes what open ends of a program in C++ get where it is measured or tested: the same random
tokens as in the program in Python.

In: the build as the current folder, and a folder for the samples: `python3 -m runtime.samples
FOLDER`. Out: a file for each `in`, called after its task, with the bytes of SAMPLES tokens.
"""

from __future__ import annotations

import os
import sys

from .ends import samples
from .harness import build


def main(folder: str) -> int:
    """The exit status."""
    for name, tokens in samples(build(os.getcwd())).items():
        with open(os.path.join(folder, name), "wb") as file:
            for token in tokens:
                file.write(token.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
