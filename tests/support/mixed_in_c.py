"""What mixed.py does in Python, as functions in C."""

from __future__ import annotations

import subprocess
from pathlib import Path

from flowc.codegen.carried import RUNTIME
from flowc.codegen.in_c import FIRINGS, compile_command
from flowc.model import application
from flowc.runtime.code import C

from limits import HANGS

#: Arguments of the functions: inputs and outputs.
MOST = 7
#: What support/mixed.py does in Python. The rates of a phase stand in a text: "1 2,0 3," are those
#: of two ports.
C_CODE = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct { int64_t n, seen; } state;
typedef struct { int64_t number, fails_at, waits; const char *rates; } params;

static int mix(void *memory, void **ports, int inputs, int outputs, const params *p)
{
    state *s = memory;
    const char *text = p->rates;
    if (s->n == p->fails_at)
        return 7;
    if (p->waits)
        usleep(p->waits);
    for (int i = 0; i < inputs + outputs; i++) {
        int64_t rates[16], count = 0, *port = ports[i];
        for (; *text != ','; text++)
            if (*text != ' ')
                rates[count++] = strtol(text, (char **)&text, 10), text--;
        text++;
        for (int64_t k = 0; k < rates[s->n % count]; k++)
            if (i < inputs)
                s->seen = (31 * s->seen + port[k] + 1) % 1000003;
            else if (port[k])
                return 8; /* it has to be zero */
            else
                port[k] = (s->seen + 7 * p->number + 3 * (i - inputs) + 11 * s->n + k) % 1000003;
    }
    s->n++;
    return 0;
}
"""


def _function(inputs: int, outputs: int) -> str:
    names = [f"a{k}" for k in range(inputs + outputs)]
    given = "".join(f"void *{name}, " for name in names)
    return (
        f"int mix_{inputs}_{outputs}(void *s, {given}const params *p)\n"
        f"{{ void *a[] = {{{', '.join([*names, '0'])}}}; return mix(s, a, {inputs}, {outputs}, p); }}\n"
    )


def compile_mixed(folder: Path) -> str:
    """Make a home of programs with these functions, and with what fires chains of them."""
    functions = [_function(i, o) for i in range(MOST) for o in range(MOST)]
    (folder / "mix.c").write_text(C_CODE + "".join(functions))
    (folder / "runtime").mkdir()
    (folder / FIRINGS).write_bytes((RUNTIME / "firings.c").read_bytes())
    own = compile_command(FIRINGS)[2:]
    for command in (["-O2", "-fPIC", "-shared", "-o", "mix.so", "mix.c"], own):
        subprocess.run(["cc", *command], cwd=folder, check=True, timeout=HANGS)
    return str(folder)


def in_reach(graph: application.Application) -> bool:
    """Is there a function for every task?"""
    ends = [(len(t.inputs), len(t.outputs)) for t in graph.tasks]
    return all(max(i, o) < MOST and i + o <= 9 for i, o in ends)


def mixed_in_c(number: int, task: application.Task, fails_at: int = -1, waits: int = 0) -> C:
    """The code of a task."""
    ports = [*task.inputs, *task.outputs]
    rates = "".join(" ".join(map(str, p.rates)) + "," for p in ports)
    given = [
        ("number", "int", number),
        ("fails_at", "int", fails_at),
        ("waits", "int", waits),
        ("rates", "string", rates),
    ]
    name = f"mix_{len(task.inputs)}_{len(task.outputs)}"
    return C("mix.so", name, given, [("all", "int64", (2,))])
