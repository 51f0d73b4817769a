"""Names of HOPES in texts: words of the language stay names, where the grammar takes them for
some."""

from __future__ import annotations

import keyword
from itertools import pairwise
from pathlib import Path

import flowc
from flowc.dsl.parse import keywords, soft_keywords
from flowc.interop.hopes import importer as hopes

from hopes_xml import composite, level, task


def test_what_the_grammar_takes_stays(tmp_path: Path) -> None:
    """Every word of the language is the name of a task on each level, and of a port at each end of
    an arrow."""
    words = sorted(keywords())
    files = tmp_path / "Deep.files"
    inside = [task(word, f"{word}:4:1", f"{word}_back:4:1") for word in words]
    ends = [f"{a}.{a}_back>{b}.{b}" for a, b in pairwise(words)]
    first, last = words[0], words[-1]
    whole = composite("Whole", "Whole/CICTask/task.xml", "in:4:1", "of:4:1", f"in:{first}:{first}", f"of:{last}:{last}_back")  # fmt: skip
    around = [
        task("Begin", "", "out:4:1"),
        whole,
        *(task(word, f"{word}:4:1", "out:4:1") for word in words),
    ]
    arrows = [f"{a}.out>{b}.{b}" for a, b in pairwise(words)]
    level(files / "CICTask", around, "Begin.out>Whole.in", f"Whole.of>{first}.{first}", *arrows)
    level(files / "Whole/CICTask", inside, *ends)
    path = tmp_path / "deep.flow"
    path.write_text(hopes.read(tmp_path, "deep").text)
    checked = flowc.check(path)
    assert checked.ok
    found = {t.name.partition(".")[2]: t for t in checked.system.apps[0].tasks}
    soft = soft_keywords()
    assert {"process", "state", "link"} < soft < keywords() and not soft & {
        "in",
        "out",
        "delay",
        "of",
    }
    assert {*soft} <= found.keys() and {f"Whole.{word}" for word in soft} <= found.keys()
    others = keywords() - soft
    assert not any(name.rpartition(".")[2] in others for name in found)
    # Stubs in Python have arguments of these names.
    for word in soft - {*keyword.kwlist}:
        assert [p.name for p in found[word].inputs] == [word]
