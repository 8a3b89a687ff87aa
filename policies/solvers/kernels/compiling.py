"""Compile kernels with numba: only for large problems, once per installation.

A kernel is a plain function over named tuples of arrays. Problems below :data:`FROM`
run it uncompiled, on memory views of the same arrays, and do not even import numba.
Above, ``numba.njit`` compiles all kernels of a group together and caches them on disk.

To keep compilation short, where numba would take a minute: every function gets one
signature, from its annotations (numba would compile it anew for each constant
argument), there are few functions, and those that Python does not call get no wrapper.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import FunctionType, MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

FROM: Final = 10_000
"""Pairs examined in a sweep, from which kernels are compiled.

A plan and its climb (linear average, k = 2 to 5) took .08 s of CPU uncompiled and .001 s
compiled at 6,775 pairs, .45 and .004 s at 24,215; loading compiled kernels takes .5 s.
"""

LOADING: Final = 0.6
"""CPU seconds that the first compiled function of a process takes, however small.

.17 import numba, .36 fill its tables of types; the next functions take .01 each.
"""

GROUPS: Final = {
    "search": ("moves", "local_search", "pick_next_best", "resampling"),
    "cover": ("cover",),
    "annealing": ("annealing",),
}
"""Modules of each group, whose functions call each other."""

Kernels = Mapping[str, Callable[..., Any]]
Arrays = TypeVar("Arrays", bound=tuple[Any, ...])

_LOCK: Final = RLock()  # guards numba's settings
_LOADED: Final[set[str]] = set()  # names of compiled functions in this process
_PACKAGE: Final = "policies.solvers.kernels"
_OPTIONS: Final = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,  # kernels allocate nothing; reference counts cost ten times the work
}
_INNER: Final = {"no_cpython_wrapper": True}
_SCALARS: Final = {"int": "int64", "float": "float64", "bool": "boolean"}
_ARRAYS: Final = {"Ints": "int64", "Floats": "float64", "Bools": "boolean"}


def kernels(group: str, *, quick: bool) -> Kernels:
    """Return a group's functions: compiled (those that Python calls) or plain."""
    return _Compiled.of(group) if quick else _plain(group)


def is_loaded() -> bool:
    """Whether compiled functions are in this process already: others then load at once."""
    return bool(_LOADED)


def views(arrays: Arrays) -> Arrays:
    """Return the arrays as memory views, which plain Python reads and writes faster.

    Elements are Python's numbers, not numpy's. Views have no rows, so tables of real
    numbers, one for each adversary, stay arrays.
    """
    return type(arrays)(
        *(
            one.data
            if isinstance(one, np.ndarray) and _is_read_by_element(one)
            else one
            for one in arrays
        )
    )


def ready(arrays: Arrays) -> Arrays:
    """Return the arrays as compiled kernels need them: contiguous and writable."""
    return type(arrays)(
        *(
            np.require(one, requirements=["C", "W"])
            if isinstance(one, np.ndarray)
            else one
            for one in arrays
        )
    )


def _is_read_by_element(array: Any) -> bool:  # noqa: ANN401 - an array
    return bool(array.ndim < 3 or array.dtype.kind != "f")


def compile_all() -> None:
    """Compile every group that is not on disk yet."""
    for group in GROUPS:
        _Compiled.of(group)


def cache_directory() -> Path | None:
    """Return the directory of this version's compiled kernels; None if there is none.

    A directory of the user, as an installed package may be read-only and uninstalling it
    should leave nothing behind: ``$NUMBA_CACHE_DIR``, or else below
    ``$XDG_CACHE_HOME`` or ``~/.cache``. Its name depends on the text of the kernels, on
    numba and on Python: numba itself checks only the file of the function called from
    outside, by its path and time. They are part of the name too: else a second
    installation of the same version would be taken for compiled, and compile within the
    limit of its first search.
    """
    from numba import __version__

    digest = sha256(f"{__version__} {sys.version}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{file} {file.stat().st_mtime_ns}".encode())
        digest.update(file.read_bytes())
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        chosen = os.environ.get("NUMBA_CACHE_DIR")
        root = Path(chosen or Path(home) / "sparsi-dispatcher" / "numba")
        found = root / digest.hexdigest()[:16]
        found.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=found):
            return found
    except (OSError, RuntimeError):  # no home, read-only, or full
        return None


@cache
def _plain(group: str) -> Kernels:
    return MappingProxyType(dict(_functions(group)))


def _functions(group: str) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of a group, each after those that it calls."""
    found: dict[str, FunctionType] = {}
    for part in GROUPS[group]:
        module = import_module(f"{_PACKAGE}.{part}")
        found |= {
            name: one
            for name, one in vars(module).items()
            if isinstance(one, FunctionType) and one.__module__ == module.__name__
        }
    listed: dict[str, FunctionType] = {}

    def visit(name: str) -> None:
        if name in found and name not in listed:
            for other in found[name].__code__.co_names:
                if other != name:
                    visit(other)
            listed[name] = found[name]

    for name in found:
        visit(name)
    return iter(listed.items())


class _Compiled(dict[str, Callable[..., Any]]):
    """The functions of a group that Python calls, each loaded on first use."""

    def __init__(self, group: str) -> None:
        _optimise_quickly()
        import numba

        super().__init__()
        self._directory = directory = cache_directory()
        parts = [import_module(f"{_PACKAGE}.{part}") for part in GROUPS[group]]
        outer = {name for part in parts for name in part.ENTRY_POINTS}
        inlined = {name for part in parts for name in getattr(part, "INLINED", ())}
        space: dict[str, Any] = {}
        for part in parts:
            space |= vars(part)
        self._signatures = {}
        functions = dict(_functions(group))
        with _set(directory):
            for name, one in functions.items():
                plain = FunctionType(one.__code__, space, name)
                how = {"cache": directory is not None} if name in outer else _INNER
                how = how | {"forceinline": name in inlined}
                space[name] = numba.njit(**_OPTIONS, **how)(plain)
                self._signatures[name] = _signature(one, space)
        self._space = space
        done = directory / f"{group}.compiled" if directory is not None else None
        if done is None or not done.exists():
            print(  # noqa: T201 - whoever waits should know
                f"compiling the solvers' kernels ({group}), once per installation ...",
                file=sys.stderr,
            )
            for name in functions:
                self._compile(name)
            if done is not None:
                done.touch()

    def __missing__(self, name: str) -> Callable[..., Any]:
        self[name] = self._compile(name)
        _LOADED.add(name)
        return self[name]

    def _compile(self, name: str) -> Any:  # noqa: ANN401 - numba's
        """Compile a function for its signature, or load it."""
        made = self._space[name]
        with _set(self._directory):
            if not made.signatures:
                made.compile(self._signatures[name])
                made.disable_compile()
        return made

    @staticmethod
    @cache
    def of(group: str) -> Kernels:
        """Return a group, compiled once per process."""
        return _Compiled(group)


def _optimise_quickly() -> None:
    """Make LLVM optimise at level 1, without vectors, unless numba is in use already.

    Together that saves a quarter of its time, for code that is as fast: loops of
    kernels branch at every turn. numba reads its settings from the environment
    repeatedly, so the variables stay set.
    """
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_OPT", "1")
        os.environ.setdefault("NUMBA_LOOP_VECTORIZE", "0")


@contextmanager
def _set(directory: Path | None) -> Iterator[None]:
    """Make numba cache compiled code in this directory.

    The setting belongs to the process, so it is restored: others may use numba too.
    """
    from numba.core import config

    with _LOCK:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(directory or before)
        try:
            yield
        finally:
            config.CACHE_DIR = before


def _signature(function: FunctionType, space: Mapping[str, Any]) -> tuple[Any, ...]:
    given = {n: a for n, a in function.__annotations__.items() if n != "return"}
    return tuple(_types(given.values(), space))


def _types(annotations: Iterable[Any], space: Mapping[str, Any]) -> Iterator[Any]:
    """Return numba's types for these: numbers, arrays, and named tuples of them.

    ``Ints2`` is an array with two axes, and so on.
    """
    from numba import types

    for one in annotations:
        name = getattr(one, "__forward_arg__", one)
        kind = name.rstrip("23")
        if name in _SCALARS:
            yield getattr(types, _SCALARS[name])
        elif kind in _ARRAYS:
            axes = int(name[len(kind) :] or 1)
            yield types.Array(getattr(types, _ARRAYS[kind]), axes, "C")
        else:
            record: type[NamedTuple] = space[name]
            fields = list(_types(record.__annotations__.values(), space))
            yield types.BaseTuple.from_types(fields, record)
