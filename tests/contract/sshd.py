"""A real OpenSSH server on the loopback that only speaks SFTP."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dispatcher.app.servers import free_ports


@dataclass(frozen=True)
class Sshd:
    port: int
    host_key: str
    user: str
    key: bytes
    stranger: bytes

    def settings(self, directory: Path, **more: str) -> dict[str, str]:
        return {
            "host": "127.0.0.1", "port": str(self.port), "user": self.user,
            "host_key": self.host_key, "directory": str(directory),
            "allow_private": "127.0.0.1", **more,
        }  # fmt: skip


def make_key(path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(words, check=True)


@contextmanager
def sftp_server(place: Path) -> Iterator[Sshd]:
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/bin")
    assert program, "sshd is missing: apt-get install openssh-server"
    for name in ("host", "client", "stranger"):
        make_key(place / name)
    (place / "known").write_bytes((place / "client.pub").read_bytes())
    (port,) = free_ports(1)
    (place / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {place}/host\nPidFile none\n"
        f"AuthorizedKeysFile {place}/known\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        "ForceCommand internal-sftp\nMaxStartups 100\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    words = [program, "-D", "-e", "-f", str(place / "sshd_config")]
    with (place / "sshd.log").open("wb") as log:
        process = subprocess.Popen(words, stderr=log)
    try:
        until = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (place / "sshd.log").read_text()
                assert time.monotonic() < until, "sshd does not start"
                time.sleep(0.02)
        yield Sshd(
            port=port,
            host_key=" ".join((place / "host.pub").read_text().split()[:2]),
            user=getpass.getuser(),
            key=(place / "client").read_bytes(),
            stranger=(place / "stranger").read_bytes(),
        )
    finally:
        process.terminate()
        process.wait(120)
