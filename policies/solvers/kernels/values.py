"""Values of kernels as LLVM sees them: numbers, arrays, and records of both.

Numbers are LLVM values of one of three types; what mixes is brought to the wider one,
as Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from llvmlite import ir

INT: Final = ir.IntType(64)
FLOAT: Final = ir.DoubleType()
BOOL: Final = ir.IntType(1)
NUMBERS: Final = {"int": INT, "float": FLOAT, "bool": BOOL}
ARRAYS: Final = ("Ints", "Floats", "Bools")


class Array(NamedTuple):
    """An array: where it starts, its lengths, and the steps from one to the next."""

    data: Any
    shape: tuple[Any, ...]
    steps: tuple[Any, ...]


class Record(NamedTuple):
    """A named tuple: its fields in their order."""

    fields: dict[str, Any]


Value = Any
"""An LLVM value, an :class:`Array` or a :class:`Record`."""


def flat(value: Value) -> list[Any]:
    """Return the LLVM values that a value is made of."""
    if isinstance(value, Record):
        return [part for field in value.fields.values() for part in flat(field)]
    if isinstance(value, Array):
        return [value.data, *value.shape, *value.steps]
    return [value]


def refilled(like: Value, parts: Iterator[Any]) -> Value:
    """Return a value of the same form, made of other LLVM values."""
    if isinstance(like, Record):
        return Record({n: refilled(v, parts) for n, v in like.fields.items()})
    first = next(parts)
    if isinstance(like, Array):
        shape = tuple(next(parts) for _ in like.shape)
        return Array(first, shape, tuple(next(parts) for _ in like.steps))
    return first


def number(builder: Any, value: Value, kind: Any, at: ast.AST | None = None) -> Any:  # noqa: ANN401
    """Return a number in another type.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    value
    kind : llvmlite.ir.Type
        INT, FLOAT, BOOL, or 8 bits for an element of an array of truths.
    at : ast.AST, optional
        What to name where a part would be lost; without it the part is dropped.

    Raises
    ------
    TypeError
        If it is no number, or a real one where an integer is asked for.
    """
    if isinstance(value, Array | Record):
        raise refused(at, "an array or record where a number is expected")
    old = value.type
    if old == kind:
        return value
    if kind == BOOL:
        if old == FLOAT:
            return builder.fcmp_unordered("!=", value, ir.Constant(FLOAT, 0.0))
        return builder.icmp_signed("!=", value, ir.Constant(old, 0))
    if kind == FLOAT:
        return (builder.uitofp if old == BOOL else builder.sitofp)(value, FLOAT)
    if old == BOOL:
        return builder.zext(value, kind)
    if at is not None:
        raise refused(at, f"a number of type {old} where {kind} is expected")
    return builder.fptosi(value, kind)


def joint(one: Value, two: Value) -> Any:  # noqa: ANN401
    """Return the type that holds both numbers."""
    if isinstance(one, Array | Record) or isinstance(two, Array | Record):
        raise refused(None, "an array or record where a number is expected")
    return max((one.type, two.type), key=(BOOL, INT, FLOAT).index)


def constant(value: object, at: ast.AST) -> Any:  # noqa: ANN401
    """Return a number as a constant."""
    for kind, told in ((bool, BOOL), (int, INT), (float, FLOAT)):
        if isinstance(value, kind):
            return ir.Constant(told, kind(value))
    raise refused(at, "neither a name of this kernel nor a number")


def declared(annotation: ast.expr | None, space: Mapping[str, Any], at: ast.AST) -> Any:  # noqa: ANN401
    """Return what an annotation names: a number's type, a named tuple, or None (array)."""
    name = annotation.id if isinstance(annotation, ast.Name) else ""
    if name in ARRAYS:
        return None
    found = NUMBERS.get(name, space.get(name))
    if name in NUMBERS or hasattr(found, "_fields"):
        return found
    known = ", ".join((*NUMBERS, *ARRAYS))
    raise refused(at, f"a type is expected: {known} or a named tuple of them")


def results(tree: ast.FunctionDef) -> tuple[Any, ...] | None:
    """Return the types of the numbers that a function gives back; None for nothing."""
    told = tree.returns
    if isinstance(told, ast.Constant) and told.value is None:
        return None
    several = isinstance(told, ast.Subscript) and isinstance(told.slice, ast.Tuple)
    parts = told.slice.elts if several else [told]  # type: ignore[union-attr]
    kinds = tuple(declared(part, {}, tree) for part in parts)
    if None in kinds:
        raise refused(tree, "kernels give back numbers, not arrays")
    return kinds


def answered(kinds: tuple[Any, ...] | None) -> Any:  # noqa: ANN401
    """Return the LLVM type of results."""
    if kinds is None:
        return ir.VoidType()
    return kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)


def refused(at: ast.AST | None, why: str) -> TypeError:
    """Return the error for what kernels may not do."""
    line = f" (line {at.lineno})" if isinstance(at, ast.stmt | ast.expr) else ""
    return TypeError(f"a kernel cannot be compiled{line}: {why}")
