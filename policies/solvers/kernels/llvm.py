"""Kernels as LLVM instructions: the small Python that they are written in, translated.

Numba infers the types of some fifty small functions one by one, and optimises each of
them once more in every function above it: twelve seconds for a kernel of which LLVM
needs less than one. Kernels declare their types, so they are emitted as they stand, all
into one module; numba keeps what it does well: calls from Python without its lock,
linking, optimising, the cache on disk.

The language: functions whose parameters and results are annotated ``int``, ``float``,
``bool``, ``Ints``, ``Floats``, ``Bools`` (arrays of any dimensions), a named
tuple of these, or as results a tuple of numbers; ``if``, ``while``, ``for`` over
``range``, ``break``, ``continue``, ``return``; assignments to names, elements and
tuples of them; arithmetic, comparisons of two, ``and``, ``or``, ``not`` and conditional
expressions; calls of each other, of ``len``, ``min`` and ``max`` of two, ``int``,
``float``, ``bool``, ``sqrt``, ``exp`` and ``log``; ``array.shape``. A name keeps the
type that it was first given; ``and`` and ``or`` tell truths. Indices are not negative,
integers stay within 64 bits, nothing is divided by zero. Anything else is refused, with
its line.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from llvmlite import ir

from policies.solvers.kernels.body import Body
from policies.solvers.kernels.values import (
    Array,
    Record,
    Value,
    answered,
    declared,
    flat,
    number,
    refilled,
    results,
)


class Told(NamedTuple):
    """What a function says of itself: its tree, its parameters, its results."""

    tree: ast.FunctionDef
    wanted: tuple[Any, ...]
    results: tuple[Any, ...] | None


class Unit:
    """All functions that one kernel needs, in one LLVM module.

    Parameters
    ----------
    module : llvmlite.ir.Module
        Gets the functions, none of which is seen outside.
    space : mapping of str to object
        What the functions find by name: each other, numbers, ``sqrt``.
    """

    def __init__(self, module: Any, space: Mapping[str, Any]) -> None:  # noqa: ANN401
        self.module, self.space = module, space
        self._told: dict[str, Told] = {}
        self._codes: dict[tuple[Any, ...], Any] = {}

    def call(self, builder: Any, name: str, given: Sequence[Value]) -> list[Any]:  # noqa: ANN401
        """Emit a call of a function; return its results."""
        told = self.told(name)
        fitted = [
            _fitted(builder, value, one)
            for one, value in zip(told.wanted, given, strict=True)
        ]
        key = (name, *(_form(one) for one in fitted))
        if key not in self._codes:
            self._codes[key] = self._translated(name, fitted)
        parts = [part for value in fitted for part in flat(value)]
        found = builder.call(self._codes[key], parts)
        if told.results is None:
            return []
        if len(told.results) == 1:
            return [found]
        return [builder.extract_value(found, i) for i in range(len(told.results))]

    def told(self, name: str) -> Told:
        """Read a function's source, once."""
        if name not in self._told:
            tree = source_of(self.space[name])
            parameters = tree.args.args
            wanted = (declared(one.annotation, self.space, one) for one in parameters)
            self._told[name] = Told(tree, tuple(wanted), results(tree))
        return self._told[name]

    def _translated(self, name: str, given: Sequence[Value]) -> Any:  # noqa: ANN401
        told = self.told(name)
        kinds = [part.type for value in given for part in flat(value)]
        code = ir.Function(
            self.module,
            ir.FunctionType(answered(told.results), kinds),
            self.module.get_unique_name(f"kernel.{name}"),
        )
        code.linkage = "internal"
        body, parts = Body(self, code, told.results), iter(code.args)
        try:
            for one, like in zip(told.tree.args.args, given, strict=True):
                body.bind(one.arg, refilled(like, parts), one)
            body.whole(told.tree.body)
        except TypeError as error:
            error.add_note(f"in {self.space[name].__module__}.{name}")
            raise
        return code


def source_of(function: FunctionType) -> ast.FunctionDef:
    """Return a function's syntax tree, with lines as in its file.

    Raises
    ------
    RuntimeError
        If the file is not what was loaded any more.
    """
    lines, first = inspect.getsourcelines(function)
    text = textwrap.dedent("".join(lines))
    if not _as_loaded(text, function.__code__):
        raise RuntimeError(
            f"{function.__code__.co_filename} has changed since the program started: "
            f"{function.__name__} cannot be compiled; start the program again"
        )
    tree = ast.parse(text)
    ast.increment_lineno(tree, first - 1)
    (found,) = tree.body
    assert isinstance(found, ast.FunctionDef)
    return found


def _as_loaded(text: str, known: CodeType) -> bool:
    """Whether the text of a function is what was loaded."""
    try:
        parts = compile(text, known.co_filename, "exec").co_consts
    except SyntaxError:
        return False
    return any(
        isinstance(one, CodeType) and _told(one) == _told(known) for one in parts
    )


def _told(code: CodeType) -> tuple[Any, ...]:
    return code.co_name, code.co_code, code.co_consts, code.co_names, code.co_varnames


def _fitted(builder: Any, value: Value, wanted: Any) -> Value:  # noqa: ANN401
    """Return an argument as its parameter is declared."""
    if hasattr(wanted, "_fields"):
        return Record(dict(zip(wanted._fields, value.fields.values(), strict=True)))
    return value if wanted is None else number(builder, value, wanted)


def _form(value: Value) -> Any:  # noqa: ANN401
    """Return what two arguments share that one translation can serve."""
    if isinstance(value, Record):
        return tuple(_form(part) for part in value.fields.values())
    if isinstance(value, Array):
        return str(value.data.type), len(value.shape)
    return 0
