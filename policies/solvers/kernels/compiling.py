"""Compiling kernels: plain functions that see each other, compiled only when needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import FunctionType
from typing import Any, Final, cast

FROM: Final = 10_000
"""Pairs that a sweep looks at from which kernels are compiled."""


def compiled(
    spaces: tuple[dict[str, Any], ...], names: tuple[str, ...], doors: tuple[str, ...]
) -> dict[str, Any]:
    """Compile functions together, each door when first called, and return the doors.

    Parameters
    ----------
    spaces : tuple of dict
        Globals of the modules that hold the functions; later ones win.
    names : tuple of str
        The functions, in the language of :mod:`policies.solvers.kernels.llvm`.
    doors : tuple of str
        Those that are called from outside: cached on disk with all that they call.
    """
    import numba

    space: dict[str, Any] = {}
    for one in spaces:
        space |= one
    mark = stamp(space, {name: space[name] for name in names})
    return {
        name: jitted(numba.njit, door(intrinsic_of(space, name), f"{name}_{mark}"))
        for name in doors
    }


def stamp(space: Mapping[str, Any], functions: Mapping[str, FunctionType]) -> str:
    """Name the state of the code: numba's cache looks at the file of a door alone.

    Changes with the text of any function, with any number among the globals, and with
    the way that kernels are translated.
    """
    from policies.solvers.kernels import body as kernels_body
    from policies.solvers.kernels import expressions as kernels_expressions
    from policies.solvers.kernels import llvm as kernels_llvm
    from policies.solvers.kernels import values as kernels_values

    digest = sha256()
    for part in (kernels_body, kernels_expressions, kernels_llvm, kernels_values):
        digest.update(inspect.getsource(part).encode())
    for name in sorted(space):
        if isinstance(space[name], int | float):
            digest.update(f"{name}={space[name]!r};".encode())
    for name in sorted(functions):
        digest.update(inspect.getsource(functions[name]).encode())
    return digest.hexdigest()[:12]


def door(kernel: Callable[..., Any], name: str) -> FunctionType:
    """Return a function that does nothing but call the kernel.

    ``name`` names the cache's files. The kernel is among the globals: numba would write
    what a closure holds into the cache's index.
    """
    made = FunctionType(_enter.__code__, {"kernel": kernel}, name)
    made.__module__, made.__qualname__ = __name__, name
    return made


def _enter(*given: Any) -> Any:  # noqa: ANN401 - as the kernel's
    # a door is a copy of this with globals of its own
    return kernel(given)  # type: ignore[name-defined] # noqa: F821


def intrinsic_of(space: Mapping[str, Any], name: str) -> Callable[..., Any]:
    """Return the kernel as something that numba calls: typed, and emitted, on demand."""
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    from policies.solvers.kernels import values
    from policies.solvers.kernels.llvm import Unit, source_of

    known = {values.INT: types.int64, values.FLOAT: types.float64}
    known[values.BOOL] = types.boolean
    tree = source_of(space[name])
    kinds = [known[kind] for kind in values.results(tree) or ()]

    def typed(_: Any, given: Any) -> Any:  # noqa: ANN401 - numba's
        """Type the kernel, and say how it is emitted."""

        def emitted(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            parts = zip(
                signature.args[0], cgutils.unpack_tuple(builder, args[0]), strict=True
            )
            made = [_value(context, builder, kind, part) for kind, part in parts]
            found = Unit(builder.module, space).call(builder, name, made)
            if len(found) == 1:
                return found[0]
            if not found:
                return context.get_dummy_value()
            return context.make_tuple(builder, signature.return_type, found)

        several = types.Tuple(kinds) if kinds else types.none
        return (kinds[0] if len(kinds) == 1 else several)(given), emitted

    return cast(Callable[..., Any], intrinsic(typed))


def _value(context: Any, builder: Any, kind: Any, value: Any) -> Any:  # noqa: ANN401
    """Return an argument as kernels take it."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    from policies.solvers.kernels.values import INT, Array, Record

    if isinstance(kind, types.BaseTuple):
        parts = zip(kind, cgutils.unpack_tuple(builder, value), strict=True)
        made = [_value(context, builder, one, part) for one, part in parts]
        return Record({str(i): part for i, part in enumerate(made)})
    known = (types.int64, types.float64, types.boolean)
    if isinstance(kind, types.Array) and kind.dtype in known:
        array = context.make_array(kind)(context, builder, value)
        shape = cgutils.unpack_tuple(builder, array.shape)
        steps = [ir.Constant(INT, 1)]
        if kind.layout == "C":
            for length in reversed(shape[1:]):
                steps.insert(0, builder.mul(steps[0], length))
        else:
            size = ir.Constant(INT, 1 if kind.dtype == types.boolean else 8)
            strides = cgutils.unpack_tuple(builder, array.strides)
            steps = [builder.sdiv(stride, size) for stride in strides]
        return Array(array.data, tuple(shape), tuple(steps))
    if isinstance(kind, types.Integer):
        return context.cast(builder, value, kind, types.int64)
    if kind not in known:
        raise TypeError(f"a kernel was given {kind}: expected numbers of 64 bits")
    return value


def jitted(njit: Callable[..., Any], function: FunctionType) -> Callable[..., Any]:
    """Compile one function; without a cache where none can be written."""
    how = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Callable[..., Any], njit(cache=True, **how)(function))
    except RuntimeError:  # numba found no directory that it may write to
        return cast(Callable[..., Any], njit(**how)(function))
