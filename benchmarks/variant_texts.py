"""A text of one network with variants, for benchmarks: each variant has a state, and the states
follow each other."""

from __future__ import annotations

from collections.abc import Sequence

TEXT = """
type X = float32[1, 3, SIDE, SIDE]
type Y = float32[1, CLASSES]
task Camera { out x: X   python "code.py:Camera" }
task Show { in y: Y   python "code.py:Show" }
network Net {
    in x: X   out y: Y
VARIANTS
}
app A { camera: Camera   net: Net   show: Show   camera -> net -> show }
scenario S {
    event turn
STATES
}
platform one { cpu core }
"""


def text_of(variants: Sequence[str], side: int, classes: int) -> str:
    """The text of declarations of variants, whose second word is their name; images are of `side` x
    `side`."""
    names = [line.split()[1] for line in variants]
    states = [
        f"{'initial ' * (k == 0)}state s{k} {{ run A   A.net = {name} }}"
        for k, name in enumerate(names)
    ]
    states += [f"s{k} -> s{(k + 1) % len(names)} on turn" for k in range(len(names))]
    words = {
        "SIDE": str(side),
        "CLASSES": str(classes),
        "VARIANTS": "\n".join(variants),
        "STATES": "\n".join(states),
    }
    text = TEXT
    for word, value in words.items():
        text = text.replace(word, value)
    return text
