"""Sealed files: their chunks stay in order, and what is none is refused."""

import os
import struct

import numpy as np
import pytest

from dispatcher.core.errors import BackupBroken, NotFound
from dispatcher.custody import backup
from dispatcher.custody.sealed_file import CHUNK, Secret, read_sealed, write_sealed

SECRET = Secret(passphrase=b"six words that nobody guesses")


def test_chunks_can_not_be_swapped_dropped_or_doubled(tmp_path):
    path = tmp_path / "big"
    noise = np.random.default_rng(1).bytes(3 * CHUNK).hex()
    header = {"id": "b", "schema": "1"}
    with path.open("wb") as file:
        write_sealed(file, header, iter([noise + "\n"]), SECRET, os.urandom)
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    start += 4 + struct.unpack(">I", data[start : start + 4])[0] + 7
    chunks, at = [], start
    while at < len(data):
        size = 4 + struct.unpack(">I", data[at : at + 4])[0]
        chunks.append(data[at : at + size])
        at += size
    assert len(chunks) >= 3

    def text(parts):
        path.write_bytes(data[:start] + b"".join(parts))
        with path.open("rb") as file:
            return list(read_sealed(file, SECRET)[1])

    assert text(chunks) == [noise]
    for parts in (
        chunks[:-1],
        chunks[1:],
        [chunks[1], chunks[0], *chunks[2:]],
        [chunks[0], *chunks],
        [],
    ):
        with pytest.raises(BackupBroken):
            text(parts)


def test_what_is_no_backup_is_told(tmp_path):
    with pytest.raises(NotFound):
        backup.look(tmp_path / "none")
    (tmp_path / "odd").write_bytes(b"x" * 100)
    with pytest.raises(BackupBroken):
        backup.look(tmp_path / "odd")
