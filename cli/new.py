"""The verb `new`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import replace

if TYPE_CHECKING:
    from ..model.diagnostic import Errors


def new(
    directory: Annotated[
        Path, typer.Argument(help="Where to write it; must not exist or be empty, but for --kit.")
    ],
    kit: Annotated[
        bool,
        typer.Option(
            "--kit",
            help=(
                "Also a Dockerfile, a systemd unit, a recipe for GitHub Actions; beside a .flow"
                " text only these. Of an app with open ends as --service."
            ),
        ),
    ] = False,
    service: Annotated[
        bool,
        typer.Option(
            "--service",
            help=(
                "An app with open ends as a web service: ASGI application, load test, Dockerfile,"
                " systemd unit, compose file; beside a .flow text only these."
            ),
        ),
    ] = False,
) -> int:
    """Write a working starter: a .flow text, its tasks, what to try."""
    texts = sorted(p.stem for p in directory.glob("*.flow")) if directory.is_dir() else []
    if (kit or service) and texts:
        files = _kit_beside(directory, _only_text(directory, texts), service)
    else:
        files = _starter(directory, kit, service)
    for path, text in files.items():
        replace(directory / path, text)
    print(f"{directory}: {', '.join(files)}")
    if not texts:
        new_text = shlex.quote(str(directory / f"{_name_for(directory)}.flow"))
        after = "--frames 5"
        if service:
            after = f"; then see {shlex.quote(str(directory / 'README.md'))}"
        print(f"try: flowc {'test' if service else 'run'} {new_text} {after}".replace(" ;", ";"))
    elif "service.py" in files:
        place = "" if directory == Path() else f"cd {shlex.quote(str(directory))}; "
        print(f"try: {place}flowc build {texts[0]}.flow; uvicorn service:app")
    return 0


def _kit_beside(directory: Path, text: str, as_service: bool) -> dict[str, str]:
    """The files that deploy a text that is there. Raises Errors."""
    from ..driver.text.check import check
    from ..model.diagnostic import listed
    from ..templates import kit, service_kit

    checked = check(directory / f"{text}.flow")
    if as_service:
        checked.require()
    apps = checked.system.apps if checked.ok else ()
    opened = [app.name for app in apps if any(task.border for task in app.tasks)]
    if as_service and not opened:
        message = f"no app of `{text}.flow` has open ends, which requests go in and out of"
        raise _refusal(message, "give one an `in` and an `out`, or write a kit with --kit")
    files = service_kit(text, opened[0]) if opened else kit(text)
    there = [path for path in files if (directory / path).exists()]
    if there:
        message = f"`{directory}` has {listed(there)} already"
        raise _refusal(message, "move these files; nothing was written")
    return files


def _starter(directory: Path, with_kit: bool, as_service: bool) -> dict[str, str]:
    """The files of a new app. Raises Errors."""
    from ..templates import kit, service_starter, starter

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise _refusal(f"`{directory}` is not empty", "choose a new directory")
    name = _name_for(directory)
    if as_service:
        return service_starter(name)
    return starter(name) | kit(name) if with_kit else starter(name)


def _name_for(directory: Path) -> str:
    """An identifier like the name of the directory."""
    characters = directory.resolve().name
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in characters)
    return name or "app"


def _refusal(message: str, help_text: str) -> Errors:
    from ..model.diagnostic import Diagnostic, Errors

    return Errors([Diagnostic("F604", message, None, help=help_text)])


def _only_text(directory: Path, texts: list[str]) -> str:
    """The name of the text that a kit deploys. Raises Errors."""
    from ..model.diagnostic import listed

    if len(texts) > 1:
        message = f"`{directory}` has several texts: {listed([f'{t}.flow' for t in texts])}"
        raise _refusal(message, "a kit deploys one: put it in a folder of its own")
    if not re.fullmatch(r"\w[\w.-]*", texts[0], re.ASCII):
        message = f"`{texts[0]}.flow` has a name that would need quotes everywhere in a kit"
        raise _refusal(message, "rename it with letters, digits, `_`, `-` and `.`")
    return texts[0]
