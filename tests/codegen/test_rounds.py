"""The rounds that a build has in a file: they are what its program does, and can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flowc.codegen.rounds.names import OWN, Names
from flowc.codegen.rounds.order import Task
from flowc.model.deployment import DeployedPort
from flowc.runtime.plan import Block
from hypothesis import given
from hypothesis import strategies as st

from builds import HANGS, Write, build, harness

#: Tasks and ports that are called like variables of the rounds.
TEXT = """
type N = int64
task Make { out n: N  out worker: N   python "t.py:Make" }
task Same { in x: N  out n_0: N   python "t.py:same" }
task Keep { in a: N  in b: N  in old: N  out c: N   python "t.py:keep" }
task Take { in c: N rate 2   python "t.py:Take" }
app A {
    call: Make   call_n: Same   first_call: Keep   worker: Take
    call.n -> call_n   call_n -> first_call.a   call.worker -> first_call.b
    first_call -> delay 1 = 3 -> first_call.old   first_call -> worker
}
"""
CODE = """
class Make:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return self.n, -3 * self.n
def same(x): return x
def keep(a, b, old): return a + b + old
class Take:
    def __call__(self, c): pass
"""


def test_names_of_a_text_are_those_of_the_rounds(write: Write, tmp_path: Path) -> None:
    out = build(write(TEXT, t_py=CODE), tmp_path / "out")
    text = (out / "rounds.py").read_text()
    assert "# A.first_call, 2 of 2" in text and "\ndef cpu_0(ctx):\n" in text
    assert 'rounds="cpu_0"' in (out / "main.py").read_text()
    done = harness(out)
    assert done.returncode == 0, done.stderr


def test_a_program_does_what_is_in_the_file(write: Write, tmp_path: Path) -> None:
    """A traceback shows its lines."""
    out = build(write(TEXT, t_py=CODE), tmp_path / "out")
    file = out / "rounds.py"
    text = file.read_text()
    first = "first_worker_ = n\n"
    assert text.count(first) == 1
    file.write_text(text.replace(first, "first_worker_ = n // 0\n"))
    done = subprocess.run(
        [sys.executable, out / "main.py", "--frames", "9"],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 1
    assert "internal error: ZeroDivisionError" in done.stderr
    assert 'rounds.py", line ' in done.stderr and "first_worker_ = n // 0\n" in done.stderr


WORDS = st.text("abcfirstl_10", min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, st.lists(WORDS, unique=True, max_size=3)), min_size=1, max_size=6))
def test_no_two_variables_are_equal(drawn: list[tuple[str, list[str]]]) -> None:
    tasks = []
    for name, ports in dict(drawn).items():
        outputs = tuple(DeployedPort(port, "int64", (), (1,), False) for port in ports)
        tasks.append(Task(f"A.{name}", (), outputs, (), tuple(() for _ in outputs), 1))
    names = Names(tasks)
    found = [*OWN, *names.tasks]
    for number, task in enumerate(tasks):
        found += [
            names.of(word, number) for word in ("call", "call1", "call11", "first", "claim0_1")
        ]
        for i in range(len(task.outputs)):
            blocks = [Block(number, i, firing, age) for firing in (0, 1, 10) for age in (0, 1)]
            found += [names.block(block) for block in blocks]
    assert len(set(found)) == len(found)
