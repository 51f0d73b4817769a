"""Boards whose answers were generated: chatty, broken and hostile ones, and what flowc does with
them."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
import time
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from flowc.machines import agent, board, fleet, frames, whoami
from flowc.machines.board import Board, Lost
from flowc.profiling import machine
from flowc.profiling.measure import MeasurementFailed, run_build

from . import far_end, mutate
from .faces import face

SCRIPT = Path(far_end.__file__)
#: What takes half a minute for people takes a moment here.
QUICK = {
    "BEGIN": 5.0,
    "ANSWER": 1.0,
    "SILENCE": 0.5,
    "LEAVE": 0.5,
    "PATIENCE": 0.3,
    "PAUSE": 0.05,
    "SLOWEST": 10**7,
}
SMALL = {"MOST_KEPT": 1 << 20, "MOST_SAID": 1 << 22, "MOST_FILE": 1 << 22, "MOST_WRITTEN": 1 << 22}
#: Seconds after which a board hangs, on a machine with other things to do.
HANGS = 100.0
WHO = json.dumps({**whoami.document(), "numpy": "1.26.4", "device": None})
SEEN = json.dumps(
    {
        "samples": {"A.s": [1000, 1100, 900]}, "mean_ns": {"A.s": 1000.0}, "held": {"A.s": 0.5}, "waits": ["A.s"],
        "period_ns": {"A": 1e6}, "latency_ns": {"A": 2e6}, "longest_ns": {"A": 3000000}, "frames": {"A": 7},
        "misses": {"A": 0}, "paths": {"A": [[1000, 7, 0], [None, 0, 0]]}, "busy": {"cpu": 0.5}, "delayed": 0.0,
    }
)  # fmt: skip
#: What the shell of a board says, and what else may come before all answers.
BEFORE = ("", "", "", "hello\n", "\x1b[31mWelcome\x1b[0m\n" * 50, "no newline", "\0" * 5000, "{}\n")
Answers = list[tuple[str, list[tuple[Any, str]]]]


def _answers(rng: Random) -> Answers:
    """What the questions of `run` are answered by an honest board; some of what is printed was
    changed."""
    done: tuple[Any, str] = ({"end": 0}, "")

    def printed(text: str) -> list[tuple[Any, str]]:
        noise = rng.choice(("", "", "a library says\n", "no newline "))
        changed = mutate.json_text(rng, text) if rng.random() < 0.3 else text
        said = [({"said": "out"}, noise), ({"alive": True}, ""), ({"said": "out"}, "\n" + changed)]
        return [
            *((document, payload) for document, payload in said if payload or "alive" in document),
            done,
        ]

    seen = mutate.json_text(rng, SEEN) if rng.random() < 0.4 else SEEN
    seen = '{"failure": "no luck"}' if rng.random() < 0.1 else seen
    return [
        ("begin", [({"base": "/far", "python": [3, 10, 2]}, "")]),
        ("known", [({"files": {"gone.py": "12"}}, "")]),
        ("put", [({}, "")]),
        ("folder", [({"path": "/far/tmp-1"}, "")]),
        ("remove", [({}, "")]),
        ("get", [({"more": True}, seen), ({"more": False}, "")]),
        ("run python3 -m flowc.machines.whoami", printed(WHO)),
        ("run python3 -m flowc.profiling.there.costs", printed('{"noise": 0.1, "celsius": null}')),
        ("run", [({"said": "err"}, "a task says this\n"), done]),
    ]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _wrong(rng: Random, known: bytes) -> dict[str, Any]:
    """How a board answers that does not answer as it should; `known` is such an answer."""
    part = known[: rng.randrange(len(known) + 1)]
    head, body = far_end.LENGTHS.unpack(known[: far_end.LENGTHS.size])
    header = known[far_end.LENGTHS.size :][:head].decode()
    match rng.randrange(12):
        case 0 | 1 | 2:  # a header of other values
            changed = mutate.json_text(rng, header).encode(errors="surrogatepass")
            return {
                "kind": "bytes",
                "bytes": _text(far_end.LENGTHS.pack(len(changed), 0) + changed),
            }
        case 3:
            return {"kind": "bytes", "bytes": _text(mutate.data(rng, known))}
        case 4:
            lengths = rng.choice(
                (
                    (head, 1 << 40),
                    (1 << 31, 0),
                    (0, 0),
                    (1, 0),
                    (head + 5, body),
                    (1 << 20, 1 << 16),
                )
            )
            return {
                "kind": "silence",
                "bytes": _text(far_end.LENGTHS.pack(*lengths) + known[far_end.LENGTHS.size :]),
            }
        case 5:
            return {
                "kind": "bytes",
                "bytes": _text(rng.choice((b"hello\n", b"\0", b"{}", known[1:])) + known),
            }
        case 6:
            return {"kind": rng.choice(("silence", "closed", "deaf")), "bytes": _text(part)}
        case 7:
            return {"kind": "end", "bytes": _text(part), "status": rng.choice((0, 1, 127, 255))}
        case 8:
            deep = rng.choice(
                (b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b'"\\ud800"', b"\xff\xfe", b"")
            )
            return {"kind": "bytes", "bytes": _text(far_end.LENGTHS.pack(len(deep), 0) + deep)}
        case 9:
            return {"kind": "dribble", "pause": rng.choice((0.0, 0.001, 0.2))}
        case _:
            again = rng.choice(
                (
                    b"x" * 65536, b"\0" * 65536, far_end.frame({"said": "out"}, b"y" * 60000), far_end.frame({"alive": True}),
                    far_end.frame({"more": True}, b"z" * 60000), far_end.frame({"said": "err"}), far_end.frame({"more": True}),
                )
            )  # fmt: skip
            pause = rng.choice((0.0, 0.0, 0.01))
            return {
                "kind": "endless",
                "bytes": _text(part),
                "again": _text(again),
                "to": rng.choice((1, 1, 2)),
                "pause": pause,
            }


def prepare(folder: Path) -> None:
    """A directory that is put there."""
    (folder / "tree").mkdir()
    (folder / "tree" / "main.py").write_text("pass\n")


def make(rng: Random, folder: Path) -> None:
    """The script of a board; one in three answers all questions."""
    answers = _answers(rng)
    at = rng.randrange(16) if rng.random() < 0.67 else -1
    document, payload = rng.choice(answers)[1][0]
    known = far_end.frame(document, payload.encode())
    before = b"x" * (1 << 21) if rng.random() < 0.03 else rng.choice(BEFORE).encode()
    plan = {
        "answers": answers,
        "at": at,
        "how": _wrong(rng, known),
        "before": _text(before),
        "mark": agent.MAGIC.decode(),
    }
    (folder / "script.json").write_text(json.dumps(plan))


def run(rng: Random, folder: Path) -> bool:
    """Reach it, and have everything done there that a board does."""
    begin = time.monotonic()
    ssh = shlex.join([sys.executable, "-S", "-E", str(SCRIPT), str(folder / "script.json")])
    with (
        mock.patch.multiple(board, **QUICK, **SMALL),
        mock.patch.object(frames, "WHOLE", 0.5),
        mock.patch.dict(os.environ, {"FLOWC_SSH": ssh}),
    ):
        done = face(_all, folder, rng.random() < 0.2)
    assert time.monotonic() - begin < HANGS, "it was waited for too long"
    return done


def _all(folder: Path, several: bool) -> int:
    said: list[str] = []
    try:
        if several:
            with fleet.fleet(["far", "far/other"], report=said.append) as boards:
                run_build(folder / "tree", 0.1, strict=True, host=boards)
            return 0
        with Board("far", report=said.append) as far:
            assert far.identity.cores >= 1
            run_build(folder / "tree", 0.1, strict=True, host=far)
            machine.noise(far)
            with far.writing({"--report": folder / "report.json"}):
                far.execute(["true"])
    except (MeasurementFailed, Lost):
        return 1
    return 0
