"""Files that a program reads for its user, with limits, and those that it writes: what stands there
stays as it is until there is something whole instead.

In: a path that the user has named. Out: the text of a regular file, or `Output`, which has found
out before the run whether it can be written. A regular file, or the one that a link leads to, is
written under another name beside it and then renamed; where nothing can be written beside it, it is
written in its place at the end. What is no regular file (a terminal, a pipe, /dev/null) is opened
at once, and written into.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager
from typing import IO, Iterator, Optional, Tuple

#: Bytes of the longest text that is read.
MOST = 1 << 26
#: How the names of files begin that take the place of others in the end.
BESIDE = ".flowc-"
#: Why nothing can be written beside a file that can be written itself.
_NOT_BESIDE = (errno.EACCES, errno.EPERM, errno.EROFS)
#: Links that lead to each other end here.
_MOST_LINKS = 40


def read_text(path: str) -> str:
    """A text of at most `MOST` bytes. Raises OSError and ValueError. A pipe may have no writer, and
    a device no end: both are refused without waiting."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as stream:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is no regular file")
        content = stream.read(MOST + 1)
    if len(content) > MOST:
        raise ValueError("it has more than %d MiB" % (MOST >> 20))
    return content.decode("utf-8")


def beginning(path: str, size: int) -> bytes:
    """The first bytes of a file; none of what cannot be read, or is no file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return b""
        return os.read(file, size)  # no limit: a file
    finally:
        os.close(file)


class Output:
    """A file that is going to be written once. Raises OSError, with the name that was given, where
    it cannot be.

    `wait`: for a reader of a pipe.
    """

    def __init__(self, path: str, wait: bool = True) -> None:
        self.name = path
        self._sink: Optional[int] = None
        #: The permissions of the file, if there is one.
        self._mode: Optional[int] = None
        try:
            self._file = os.path.realpath(path)
            self._sink = _opened(path, wait)
            if self._sink is None:
                self._try()
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error

    def _try(self) -> None:
        if os.path.exists(self._file):
            self._mode = stat.S_IMODE(os.stat(self._file).st_mode)
            os.close(os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
        temporary, stream = self._begun()
        stream.close()
        os.unlink(temporary)

    @contextmanager
    def written(self) -> Iterator[IO[str]]:
        """A stream for all of it. Where the block ends with an exception, nothing has changed.
        Raises OSError."""
        if self._sink is not None:
            with open(self._sink, "w") as sink:
                yield sink
            return
        temporary, stream = self._begun()
        try:
            with stream:
                yield stream
            self._replace(temporary)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)

    def _begun(self) -> Tuple[str, IO[str]]:
        """A new file, beside the other one if that is possible: its name, and a stream."""
        temporary = os.path.join(os.path.dirname(self._file), BESIDE + os.urandom(8).hex())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o666 if self._mode is None else self._mode)
        except OSError as error:
            if error.errno not in _NOT_BESIDE or self._mode is None:
                raise
            import tempfile

            descriptor, temporary = tempfile.mkstemp(prefix=BESIDE)
        if self._mode is not None:
            os.fchmod(descriptor, self._mode)
        return temporary, open(descriptor, "w")

    def _replace(self, temporary: str) -> None:
        if os.path.dirname(temporary) == os.path.dirname(self._file):
            try:
                return os.replace(temporary, self._file)
            except OSError as error:
                if error.errno != errno.EBUSY:  # a file that is mounted
                    raise
        _copy(temporary, self._file)


def _opened(path: str, wait: bool) -> Optional[int]:
    """A descriptor for what is no regular file; None for a file."""
    own = _descriptor(path)
    if own is not None:
        return os.dup(own)
    if not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode):
        return None
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC | (0 if wait else os.O_NONBLOCK))


def _descriptor(path: str) -> Optional[int]:
    """The number of a descriptor of this process that a path leads to: /dev/stdout, /dev/fd/5.

    To open it anew would begin a file that it is redirected to from the start, where others write
    as well.
    """
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(os.path.abspath(path))
        folder = os.path.realpath(folder)
        if folder == "/proc/%d/fd" % os.getpid() and name.isdigit():
            return int(name)
        path = os.path.join(folder, name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


def _copy(source: str, target: str) -> None:
    """Write a file in its place, once there is room for all of it."""
    with open(source, "rb") as content, open(target, "r+b") as stream:
        before = os.fstat(stream.fileno()).st_size
        try:
            os.posix_fallocate(stream.fileno(), 0, max(1, os.fstat(content.fileno()).st_size))
        except OSError:
            os.ftruncate(stream.fileno(), before)
            raise
        shutil.copyfileobj(content, stream)
        stream.truncate()
