"""Python modules of tasks, apart from all others of the process.

In: the file of a task. Out: its module. What it imports by the name of a file or package beside it,
at once or later, belongs to this copy of the program alone: another program, or the user of this
one as a library, may have modules of the same names.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Dict, Optional, Sequence

#: Names of Python itself, where it tells them all.
_PYTHONS = frozenset(sys.builtin_module_names) | getattr(sys, "stdlib_module_names", frozenset())


def load(path: str) -> Any:
    """The module of a task's file, imported once."""
    path = os.path.abspath(path)
    name = _name("task", path)
    if name in sys.modules:
        return sys.modules[name]
    loader = _Loader(name, path, _folder(path))
    module = made_by(loader)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def made_by(loader: SourceFileLoader, folder: Optional[str] = None) -> ModuleType:
    """The empty module that a loader will execute: a package if it has a `folder` of modules."""
    spec = ModuleSpec(loader.name, loader, origin=loader.path)
    spec.has_location = True
    if folder is not None:
        spec.submodule_search_locations = [folder]
    return importlib.util.module_from_spec(spec)


def _name(kind: str, path: str) -> str:
    """A unique name: this copy of the runtime has its own."""
    return "%s_%s" % (kind, hashlib.sha256(("%s %s" % (__name__, path)).encode()).hexdigest()[:16])


class _Folder:
    """A folder with local modules: a package under a name of its own."""

    def __init__(self, path: str) -> None:
        self.path, self.name = path, _name("tasks", path)
        self._specs: Dict[str, Optional[ModuleSpec]] = {}
        spec = ModuleSpec(self.name, None, is_package=True)
        spec.submodule_search_locations = [path]
        sys.modules[self.name] = importlib.util.module_from_spec(spec)
        #: What its modules take for the built-in names.
        self.builtins = dict(vars(builtins), __import__=self._import)

    def _import(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        """The `import` of its modules."""
        first = name.partition(".")[0]
        if level or not self._has(first, globals):
            return builtins.__import__(name, globals, locals, fromlist, level)
        own = "%s.%s" % (self.name, name)
        if fromlist:
            return builtins.__import__(own, globals, locals, fromlist)
        importlib.import_module(own)
        return sys.modules["%s.%s" % (self.name, first)]

    def _has(self, name: str, importer: Any) -> bool:
        """Is that a local module, for every importer but itself?"""
        if name not in self._specs:
            spec = None
            if name not in _PYTHONS:
                spec = PathFinder.find_spec(self.name + "." + name, [self.path])
            if (
                spec is not None
                and spec.origin is None
                and importlib.util.find_spec(name) is not None
            ):
                spec = None  # a mere folder gives way to a package that is installed
            self._specs[name] = spec
        found = self._specs[name]
        return found is not None and (
            found.origin is None or found.origin != (importer or {}).get("__file__")
        )


_folders: Dict[str, _Folder] = {}


def _folder(path: str) -> _Folder:
    folder = os.path.dirname(path)
    if folder not in _folders:
        _folders[folder] = _Folder(folder)
    return _folders[folder]


class _Loader(SourceFileLoader):
    """Gives a module the `import` of its folder."""

    def __init__(self, name: str, path: str, folder: _Folder) -> None:
        SourceFileLoader.__init__(self, name, path)
        self._folder = folder

    def exec_module(self, module: Any) -> None:
        module.__dict__["__builtins__"] = self._folder.builtins
        SourceFileLoader.exec_module(self, module)


class _Finder:
    """Finds what folders have, for `import`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """The module of that name in one of the folders."""
        top = name.partition(".")[0]
        folder = next((f for f in _folders.values() if f.name == top), None)
        spec = None if folder is None else PathFinder.find_spec(name, path)
        if spec is not None and folder is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path, folder)
        return spec


sys.meta_path.insert(0, _Finder)
