"""`python -m tests.fuzz`: try inputs, keep the findings, end with a table; exit status 1 if there
are findings."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from .faces import ROOT
from .kinds import KINDS
from .pool import Tally, attempt, limited, prepare, run


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=sys.modules["tests.fuzz"].__doc__
    )
    parser.add_argument("--minutes", type=float, help="how long (default: 60)")
    parser.add_argument("--inputs", type=int, help="how many, instead of how long")
    parser.add_argument("--seed", default="1", help="other seeds, other inputs")
    parser.add_argument(
        "--kind", default=",".join(KINDS), help=f"of {', '.join(KINDS)} (default: all)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: one for each core)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "fuzz",
        help="where findings go (default: build/fuzz)",
    )
    parser.add_argument("--replay", metavar="KEY", help="try one input again: the key of a finding")
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    kinds = options.kind.split(",")
    unknown = [k for k in kinds if k not in KINDS]
    if unknown:
        parser.error(f"there is no kind {unknown[0]}")
    minutes = options.minutes if options.minutes is not None or options.inputs is not None else 60.0
    tally = run(
        options.seed,
        kinds,
        inputs=options.inputs,
        minutes=minutes,
        jobs=options.jobs,
        keep=options.out,
    )
    print(table(tally))
    for name, finding in tally.findings.items():
        print(f"\n{finding.count} x {finding.what} at {finding.place}: {options.out / name}")
        print(f"  python -m tests.fuzz --replay '{finding.key}'")
    return 1 if tally.findings else 0


def replay(key: str) -> int:
    """One input again, in this process, with its files left behind."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz.")) / "input"
    kind = key.split()[-2]
    prepare(folder, kind)
    with limited():
        outcome, finding = attempt(kind, key, folder)
    print(f"{outcome}: {folder}")
    if finding is not None:
        print(finding.text)
    return 1 if finding is not None else 0


def table(tally: Tally) -> str:
    """Counts by kind."""
    lines = [
        f"{'kind':<10}{'inputs':>9}{'accepted':>10}{'refused':>9}{'findings':>10}{'places':>8}{'most CPU':>10}"
    ]
    for kind in sorted({k for k, _ in tally.counts}):
        accepted, refused, found = (
            tally.counts[kind, o] for o in ("accepted", "refused", "finding")
        )
        places = sum(f.kind == kind for f in tally.findings.values())
        slowest = tally.slowest.get(kind, (0.0, ""))[0]
        total = accepted + refused + found
        lines.append(
            f"{kind:<10}{total:>9}{accepted:>10}{refused:>9}{found:>10}{places:>8}{slowest:>8.1f} s"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
