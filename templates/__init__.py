"""Jinja templates, laid out like their output. They only format; the caller decides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(room: str = "") -> Environment:
    """The one environment: no escaping (the output is code, escaped by filters), every undefined
    name an error.

    `room` is a package with templates of its own, in its folder `templates`.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    shared = PackageLoader(__name__, "")
    return Environment(
        loader=ChoiceLoader([PackageLoader(room), shared]) if room else shared,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def kit(name: str) -> dict[str, str]:
    """The files that deploy and test the application NAME.flow of a folder: `flowc new --kit`."""
    jinja = environment()
    image = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
    words = {"name": name, "text": f"{name}.flow", "image": image}
    files = {
        "Dockerfile": "Dockerfile",
        ".dockerignore": "dockerignore",
        f"{image}.service": "unit.service",
        ".github/workflows/flowc.yml": "ci.yml",
        ".gitignore": "gitignore",
        "requirements.txt": "requirements.txt",
    }
    return {
        path: jinja.get_template(f"new/{template}.j2").render(words)
        for path, template in files.items()
    }


def starter(name: str) -> dict[str, str]:
    """The files of `flowc new`, for an application of that name."""
    jinja = environment()
    words = {"name": name, "app": "".join(part.capitalize() for part in name.split("_")) or "App"}
    if not words["app"][0].isalpha():
        words["app"] = "App" + words["app"]
    return {
        f"{name}.flow": jinja.get_template("new/app.flow.j2").render(words),
        "tasks.py": jinja.get_template("new/tasks.py.j2").render(words),
        "README.md": jinja.get_template("new/README.md.j2").render(words),
    }
