"""Untrusted files: read only if they are regular and of limited size, written atomically.

In: a path. Out: the bytes of a regular file, or the file replaced; an OSError whose `strerror`
gives the user the reason. The callers interpret the bytes and choose the diagnostic. Only links
that the user named are followed: files beside a text may be planted there, and lead anywhere.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath

#: Maximum bytes of a text, a piece of code, a profile: large real ones have a few millions.
MOST = 1 << 26
#: The folder beside a text for files that flowc has derived from others.
KEPT = ".flowc"
#: Prefix of the names of temporary folders.
SCRATCH = "flowc."
#: Seconds after which such a folder is locked, if its process still exists.
LOCKED = 3600.0


def read_bytes(path: str | Path, most: int = MOST) -> bytes:
    """The content of a regular file of at most `most` bytes. Raises OSError.

    A device has no end and a FIFO blocks until another process writes: both are rejected without
    opening them.
    """
    try:
        _require_regular(os.stat(path).st_mode)
        # The file may have been replaced since: opening a FIFO must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a zero byte, or half a character
        raise OSError(errno.EINVAL, "Not a path") from error
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        _require_regular(found.st_mode)
        # Limits a file that grows, or one of /proc without a size, too.
        most = min(most, found.st_size + (1 << 16))
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)} (more than {most} bytes)")
    return content


def replace_file(path: Path, content: str | bytes, *, follow: bool = False) -> None:
    """Write a file atomically: a concurrent reader sees the old content or the new one.

    The folder must exist. A file keeps its mode. A link is replaced by the file; with `follow`, its
    target is replaced. Raises OSError; then nothing has changed.
    """
    target = Path(os.path.realpath(path)) if follow else path
    mode = _mode(target)
    data = content.encode() if isinstance(content, str) else content
    temporary, descriptor = _beside(target, mode)
    try:
        with open(descriptor, "wb") as stream:
            if mode is not None:
                os.fchmod(descriptor, mode)
            stream.write(data)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def scratch(place: Path | None = None, prefix: str = SCRATCH) -> Iterator[Path]:
    """A temporary folder: in `place`, else in the system's folder for temporary files.

    A killed process leaves its folder behind, but its lock ends with it: the next call for the same
    place removes the folder. Raises OSError.
    """
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=place, ignore_cleanup_errors=True
    ) as folder:
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _lock(lock)
            _sweep(Path(folder).parent, prefix, os.fstat(lock).st_mtime - LOCKED)
            yield Path(folder)
        finally:
            os.close(lock)


def _sweep(place: Path, prefix: str, before: float) -> None:
    """Remove folders of this user that processes killed before that time have left there."""
    with contextlib.suppress(OSError):  # the place cannot be listed: left-over folders stay
        for entry in os.scandir(place):
            if entry.name.startswith(prefix):
                _remove_if_left(entry.path, before)


def _remove_if_left(folder: str, before: float) -> None:
    with contextlib.suppress(OSError):  # it has just gone, or is no folder
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid == os.geteuid() and found.st_mtime < before and _lock(descriptor):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a folder while the descriptor is open. Not every file system has locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def own_cache(name: str = "") -> Path | None:
    """The folder for files that flowc can make again, or a folder in it, which only this user can
    write to; None without one."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "flowc"
    if not folder.is_absolute():
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            return None
        return make_folders(folder, name)
    except OSError:
        return None


def require_writable(path: Path) -> None:
    """Check that `replace_file` could write that file now. Raises OSError."""
    temporary, descriptor = _beside(path, _mode(path))
    os.close(descriptor)
    temporary.unlink()


def _beside(target: Path, mode: int | None) -> tuple[Path, int]:
    """A new file in the same folder, and a descriptor of it."""
    temporary = target.with_name(f".flowc-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return temporary, os.open(temporary, flags, 0o666 if mode is None else mode)


def make_folders(root: Path, below: str | PurePath) -> Path:
    """Make `root / below` with its parents. Raises OSError if a part below `root` is a link."""
    root.mkdir(parents=True, exist_ok=True)
    if has_link(root, below):
        raise OSError(errno.ELOOP, f"`{below}` leads through a link")
    (root / below).mkdir(parents=True, exist_ok=True)
    return root / below


def has_link(root: Path, below: str | PurePath) -> bool:
    """Is a part of the path below `root` a link, so that the path may lead anywhere?"""
    place = root
    for part in PurePath(below).parts:
        place = place / part
        if place.is_symlink():
            return True
    return False


def reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read or used, without its name and Python's numbers."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _mode(target: Path) -> int | None:
    """The permissions of the file to replace; None without one. Raises OSError if it is not a
    file.
    """
    try:
        found = os.lstat(target).st_mode
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OSError(errno.EINVAL, "Not a path") from error
    if stat.S_ISLNK(found):
        return None
    _require_regular(found)
    return found & 0o777


def _require_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")
