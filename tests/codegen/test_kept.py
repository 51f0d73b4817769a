"""What compilers have made is kept: a second build with the same code needs no compiler, and one with
other code has it compiled."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import flowc
import pytest
from flowc.codegen import kept

from builds import Write

TEXT = """\
task Give { out x: int32   c "give.c:give" }
task Take { in x: int32   c "take.c:take" }
app A {
    give: Give   take: Take
    give -> take
}
"""
GIVE = """\
#include "own.h"
#include <far.h>
int give(void *state, int32_t *x, const void *p) { *x = OWN + FAR; return 0; }
"""
TAKE = "int take(void *state, const int32_t *x, const void *p) { return 0; }\n"

#: Build once more, somewhere else; the sources that a compiler was called for.
Again = Callable[[], set[str]]


@pytest.fixture
def again(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    """It logs what it compiles, and finds a header outside of the text."""
    text = write(TEXT, give_c=GIVE, take_c=TAKE, own_h="#define OWN 1\n")
    far = tmp_path / "far away"
    far.mkdir()
    (far / "far.h").write_text("#define FAR 2\n")
    log, compiler = tmp_path / "log", tmp_path / "cc"
    command = shutil.which(os.environ.get("CC", "cc"))
    compiler.write_text(
        f'#!/bin/sh\ncase " $* " in *" -E "*) ;; *) echo "$@" >> "{log}" ;; esac\n'
        f'exec {command} "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("CPATH", str(far))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def build() -> set[str]:
        log.write_text("")
        output = tmp_path / "build"
        shutil.rmtree(output, ignore_errors=True)
        flowc.build(text, output, measure=False)
        assert {file.suffix for file in (output / "c").iterdir()} == {".c", ".h", ".so"}
        return {word for word in log.read_text().split() if word.endswith(".c")}

    return build


def made(build: Path) -> int:
    """What the compiled task makes."""
    x = ctypes.c_int32()
    assert ctypes.CDLL(str(build / "c/give.so")).give(None, ctypes.byref(x), None) == 0
    return x.value


ALL = {"c/give.c", "c/take.c", "runtime/firings.c"}


def test_the_same_code_is_compiled_once(again: Again) -> None:
    assert again() == ALL
    assert again() == set()


def test_what_a_source_includes_counts(again: Again, tmp_path: Path) -> None:
    again()
    shutil.copytree(tmp_path / "build", tmp_path / "first")
    assert made(tmp_path / "first") == 3
    (tmp_path / "own.h").write_text("#define OWN 7\n")
    assert again() == {"c/give.c"}
    shutil.copytree(tmp_path / "build", tmp_path / "second")
    assert made(tmp_path / "second") == 9
    (tmp_path / "own.h").write_text("#define OWN 1\n")
    assert again() == set()
    (tmp_path / "far away/far.h").write_text("#define FAR 20\n")
    assert again() == {"c/give.c"}
    assert made(tmp_path / "build") == 21


def test_other_flags_and_other_tools_count(
    again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again()
    monkeypatch.setenv("CFLAGS", "-O0")
    assert again() == ALL
    with open(tmp_path / "cc", "a") as compiler:
        compiler.write("# a new release\n")
    assert again() == ALL
    assert again() == set()


OTHER = {
    "assembler": 'asm(".section .rodata\\nw: .inc" "bin \\"data.bin\\"\\n.byte 0\\n.text\\n");\n'
    "extern const char w[] __asm__(\"w\");\n#define MADE w[0] - '0'\n",
    "asked for": "#if __has_include(<new.h>)\n#include <new.h>\n#else\n#define MADE 1\n#endif\n",
    "shadowed": "#include <old.h>\n",
}


@pytest.mark.parametrize("way", OTHER)
def test_what_no_list_of_a_compiler_has_counts(
    again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    near, far = tmp_path / "near", tmp_path / "far away"
    near.mkdir()
    (far / "old.h").write_text("#define MADE 1\n")
    (near / "data.bin").write_text("1")
    body = "int give(void *state, int32_t *x, const void *p) { *x = MADE; return 0; }\n"
    (tmp_path / "give.c").write_text(OTHER[way] + body)
    monkeypatch.setenv("CFLAGS", f"-I{near}")
    again()
    assert made(tmp_path / "build") == 1
    same = flowc.build(tmp_path / "app.flow", tmp_path / "build", measure=False)
    assert same.fresh == (way == "assembler")
    shutil.copytree(tmp_path / "build", tmp_path / "second", copy_function=shutil.copy2)
    (near / "data.bin").write_text("2")
    (near / "new.h").write_text("#define MADE 2\n")
    (near / "old.h").write_text("#define MADE 2\n")
    flowc.build(tmp_path / "app.flow", tmp_path / "second", measure=False)  # has the same files
    assert made(tmp_path / "second") == 2
    again()
    shutil.copytree(tmp_path / "build", tmp_path / "fourth")
    assert made(tmp_path / "fourth") == 2


@pytest.mark.parametrize("damage", [b"", b"\x7fELF of another machine"])
def test_what_is_damaged_is_made_again(again: Again, tmp_path: Path, damage: bytes) -> None:
    again()
    for file in (tmp_path / "cache/flowc/objects").iterdir():
        file.write_bytes(damage)
    assert again() == ALL


def test_there_need_not_be_a_cache(
    again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file")
    assert again() == ALL
    assert again() == ALL


@pytest.mark.parametrize("limit", ["MOST", "MOST_BYTES"])
def test_what_was_not_used_for_longest_goes(
    again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    again()
    sizes = [file.stat().st_size for file in (tmp_path / "cache/flowc/objects").glob("*.o")]
    monkeypatch.setattr(kept, limit, 2 if limit == "MOST" else 5 * max(sizes) // 2)
    monkeypatch.setenv("CFLAGS", "-O0")
    again()
    assert len(list((tmp_path / "cache/flowc/objects").glob("*.o"))) == 2
    monkeypatch.delenv("CFLAGS")
    assert again() == ALL
