"""A board that is this machine: an sshd on loopback, with keys that are thrown away."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limits import HANGS

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if os.path.exists("/usr/sbin/sshd") else None)


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Loopback:
    """`address` for `--board`; `ssh` for the variable FLOWC_SSH."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, unused_port()
        self._server: subprocess.Popen[bytes] | None = None
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
                check=True,
                timeout=HANGS,
            )
        shutil.copy(folder / "user.pub", folder / "authorized")
        host = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{self._port} {host}")
        lines = [
            f"Port {self._port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", f"PidFile {folder}/pid",
            f"AuthorizedKeysFile {folder}/authorized", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
            "PermitRootLogin yes", "LogLevel ERROR",
        ]  # fmt: skip
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        options = [
            f"IdentityFile {folder}/user",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {folder}/known",
        ]
        (folder / "config").write_text("Host *\n" + "".join(f"    {line}\n" for line in options))

    @property
    def ssh(self) -> str:
        return f"ssh -F {self._folder}/config"

    def address(self, folder: str = "") -> str:
        return f"{getpass.getuser()}@127.0.0.1:{self._port}{folder}"

    def start(self) -> None:
        os.makedirs("/run/sshd", exist_ok=True)
        assert SSHD is not None
        self._server = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", self._folder / "sshd_config"], stderr=subprocess.PIPE
        )
        while True:
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            assert self._server.poll() is None, self._server.communicate(timeout=HANGS)
            time.sleep(0.02)

    def stop(self) -> None:
        """No more connections; those that are there stay."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(HANGS)
            if self._server.stderr is not None:
                self._server.stderr.close()


@contextmanager
def loopback(folder: Path) -> Iterator[Loopback]:
    board = Loopback(folder)
    board.start()
    try:
        yield board
    finally:
        board.stop()
