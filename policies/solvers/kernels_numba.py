"""Compiling kernels: plain functions that see each other, compiled only when needed."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, cast

FROM: Final = 10_000
"""Pairs that a sweep looks at from which kernels are compiled."""


def compiled(
    spaces: tuple[dict[str, Any], ...], names: tuple[str, ...]
) -> dict[str, Any]:
    """Compile functions together, each lazily and cached, and return them by name.

    Parameters
    ----------
    spaces : tuple of dict
        Globals of the modules that hold the functions; later ones win.
    names : tuple of str
        The functions. They are not changed: copies of them see each other compiled.
    """
    import numba

    space: dict[str, Any] = {}
    for one in spaces:
        space |= one
    for name in names:
        plain = space[name]
        copy = FunctionType(plain.__code__, space, name)
        copy.__module__ = plain.__module__
        space[name] = jitted(numba.njit, copy)
    return space


def jitted(njit: Callable[..., Any], function: FunctionType) -> Callable[..., Any]:
    """Compile one function; without a cache where none can be written."""
    try:
        return cast(Callable[..., Any], njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory that it may write to
        return cast(Callable[..., Any], njit(nogil=True)(function))
