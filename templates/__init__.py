"""Jinja templates, laid out like their output. They only format; the caller decides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..model.version import __version__

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


#: What deploys and tests a program that runs by itself, and one that answers requests.
_KIT = {
    "Dockerfile": "new/Dockerfile",
    ".dockerignore": "new/dockerignore",
    "{image}.service": "new/unit.service",
    ".github/workflows/flowc.yml": "new/ci.yml",
    ".gitignore": "new/gitignore",
    "requirements.txt": "new/requirements.txt",
}
_SERVICE_KIT = {
    **_KIT,
    "Dockerfile": "service/Dockerfile",
    "{image}.service": "service/unit.service",
    "requirements.txt": "service/requirements.txt",
    "compose.yml": "service/compose.yml",
    "service.py": "service/service.py",
    "load.py": "service/load.py",
}


def kit(name: str) -> dict[str, str]:
    """The files that deploy and test the application NAME.flow of a folder: `flowc new --kit`."""
    return _filled(_KIT, name)


def service_kit(name: str, app: str) -> dict[str, str]:
    """The files that make a web service of an app with open ends: `flowc new --service`."""
    return _filled(_SERVICE_KIT, name, app)


def starter(name: str) -> dict[str, str]:
    """The files of `flowc new`, for an application of that name."""
    files = {
        "{name}.flow": "new/app.flow",
        "tasks.py": "new/tasks.py",
        "README.md": "new/README.md",
    }
    return _filled(files, name, app_of(name))


def service_starter(name: str) -> dict[str, str]:
    """The files of `flowc new --service`, for a service of that name."""
    files = {
        "{name}.flow": "service/app.flow",
        "tasks.py": "service/tasks.py",
        "README.md": "service/README.md",
    }
    return _filled(files, name, app_of(name)) | service_kit(name, app_of(name))


def app_of(name: str) -> str:
    """The name of the app in a new text of that name."""
    app = "".join(part.capitalize() for part in name.split("_")) or "App"
    return app if app[0].isalpha() else "App" + app


def _filled(files: dict[str, str], name: str, app: str = "") -> dict[str, str]:
    """Files by their paths, from templates."""
    jinja = environment()
    image = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
    module = re.sub("[^A-Za-z0-9]+", "_", name)
    words = {
        "name": name,
        "text": f"{name}.flow",
        "image": image,
        "app": app,
        "module": module,
        "wheel": f"./flowc-{__version__}-py3-none-any.whl",
    }
    return {
        path.format(**words): jinja.get_template(f"{template}.j2").render(words)
        for path, template in files.items()
    }
