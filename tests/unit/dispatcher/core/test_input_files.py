import os
import threading

import pytest

from dispatcher.core import input_files
from dispatcher.core.input_files import open_input, read_input


def test_a_named_pipe_that_nobody_writes_into_is_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_input(tmp_path / "pipe") == b""


def test_what_a_slow_program_writes_is_read_to_its_end():
    reading, writing = os.pipe()
    with open_input(f"/dev/fd/{reading}") as file:
        os.close(reading)
        first = threading.Thread(
            target=lambda: (os.write(writing, b"a"), os.close(writing))
        )
        first.start()
        assert file.read() == b"a"
        first.join()


def test_a_device_without_end_does_not_fill_memory(monkeypatch):
    monkeypatch.setattr(input_files, "LARGEST", 1000)
    with pytest.raises(OSError, match="File too large"):
        read_input("/dev/zero")
