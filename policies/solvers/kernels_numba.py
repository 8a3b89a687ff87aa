"""Compiling kernels: plain functions that see each other, compiled only when needed."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from types import FunctionType
from typing import Any, Final, cast

FROM: Final = 10_000
"""Pairs that a sweep looks at from which kernels are compiled."""


def compiled(
    spaces: tuple[dict[str, Any], ...], names: tuple[str, ...], doors: tuple[str, ...]
) -> dict[str, Any]:
    """Compile functions together, each when first called, and return them by name.

    Parameters
    ----------
    spaces : tuple of dict
        Globals of the modules that hold the functions; later ones win.
    names : tuple of str
        The functions. They are not changed: copies of them see each other compiled.
    doors : tuple of str
        Those that are called from outside: cached on disk with all that they call.
    """
    import numba

    space: dict[str, Any] = {}
    for one in spaces:
        space |= one
    plain = {name: space[name] for name in names}
    mark = stamp(space, plain)
    for name in names:
        space[name] = jitted(numba.njit, _copy(plain[name], space, ""), cache=False)
    outside = {
        n: jitted(numba.njit, _copy(plain[n], space, mark), cache=True) for n in doors
    }
    return space | outside


def stamp(space: dict[str, Any], functions: dict[str, FunctionType]) -> str:
    """Name the state of the code: numba's cache looks at the file of a door alone.

    Changes with the code of any function and with any number among the globals.
    """
    digest = sha256()
    for name in sorted(space):
        if isinstance(space[name], int | float):
            digest.update(f"{name}={space[name]!r};".encode())
    for name in sorted(functions):
        code = functions[name].__code__
        digest.update(code.co_code + repr((name, code.co_consts)).encode())
    return digest.hexdigest()[:12]


def _copy(function: FunctionType, space: dict[str, Any], mark: str) -> FunctionType:
    copy = FunctionType(function.__code__, space, function.__name__)
    copy.__module__ = function.__module__
    copy.__qualname__ = f"{function.__name__}_{mark}"  # names the cache's files
    return copy


def jitted(
    njit: Callable[..., Any], function: FunctionType, *, cache: bool
) -> Callable[..., Any]:
    """Compile one function; without a cache where none can be written."""
    how: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if not cache:  # seen by kernels alone: Python needs no way in
        how |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    try:
        return cast(Callable[..., Any], njit(cache=cache, **how)(function))
    except RuntimeError:  # numba found no directory that it may write to
        return cast(Callable[..., Any], njit(**how)(function))
