"""Compiled kernels are kept for one installation, and found by it alone."""

import os
import shutil
from pathlib import Path

from policies.solvers.kernels import compiling


def test_a_second_installation_of_the_same_text_is_not_taken_for_compiled(
    tmp_path, monkeypatch
):
    """Numba compiled it again, without a word: 4.4 s of a search limited to one."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    here, other = compiling.cache_directory(), tmp_path / "other"
    shutil.copytree(Path(compiling.__file__).parent, other)
    monkeypatch.setattr(compiling, "__file__", str(other / "compiling.py"))
    copied = compiling.cache_directory()
    assert copied == compiling.cache_directory() != here
    os.utime(other / "moves.py", ns=(0, 0))  # as a new installation at this place does
    assert compiling.cache_directory() not in {here, copied}
