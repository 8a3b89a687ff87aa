"""Expressions of a kernel: see :mod:`policies.solvers.kernels.llvm`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, Protocol

from llvmlite import ir

from policies.solvers.kernels.values import (
    BOOL,
    FLOAT,
    INT,
    NUMBERS,
    Array,
    Record,
    Value,
    constant,
    flat,
    joint,
    number,
    refilled,
    refused,
)

_COMPARED: Final = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MATHS: Final = {math.sqrt: "llvm.sqrt", math.exp: "llvm.exp", math.log: "llvm.log"}


class Around(Protocol):
    """What a function is translated within."""

    module: Any
    space: Any

    def call(self, builder: Any, name: str, given: Sequence[Value]) -> list[Any]:  # noqa: ANN401
        """Emit a call of another function."""


class Expressions:
    """Reading and computing.

    Parameters
    ----------
    around : Around
    code : llvmlite.ir.Function
        Gets the instructions.
    """

    def __init__(self, around: Around, code: Any) -> None:  # noqa: ANN401
        self.around, self.code = around, code
        self.entry = code.append_basic_block("entry")
        self.first = code.append_basic_block("body")
        self.b = ir.IRBuilder(self.first)
        self.names: dict[str, Value] = {}  # where each local name's value is kept

    def slot(self, kind: Any) -> Any:  # noqa: ANN401
        """Make room for a value, once a call."""
        return ir.IRBuilder(self.entry).alloca(kind)

    def load(self, name: str, at: ast.AST) -> Value:
        """Read a name: a local one, or a number of the kernel's module."""
        if name not in self.names:
            return constant(self.around.space.get(name), at)
        slots = self.names[name]
        return refilled(slots, (self.b.load(one) for one in flat(slots)))

    def place(self, node: ast.Subscript) -> Value:
        """Return where an element is, or the part of an array."""
        array = self.value(node.value)
        if not isinstance(array, Array):
            raise refused(node, "only arrays have elements")
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if len(parts) > len(array.shape):
            raise refused(node, "more indices than dimensions")
        at = ir.Constant(INT, 0)
        for part, step in zip(parts, array.steps, strict=False):
            turn = number(self.b, self.value(part), INT, node)
            at = self.b.add(at, self.b.mul(turn, step))
        spot = self.b.gep(array.data, [at], inbounds=True)
        rest = len(parts)
        if rest == len(array.shape):
            return spot
        return Array(spot, array.shape[rest:], array.steps[rest:])

    def element(self, spot: Any) -> Any:  # noqa: ANN401
        """Read an element."""
        value = self.b.load(spot)
        return value if value.type in (INT, FLOAT) else number(self.b, value, BOOL)

    def value(self, node: ast.expr) -> Value:
        """Return what an expression gives."""
        found = self.values(node)
        if len(found) != 1:
            raise refused(node, f"{len(found)} values where one is expected")
        return found[0]

    def values(self, node: ast.expr) -> list[Value]:
        """Return what an expression gives: several for tuples and for some calls."""
        if isinstance(node, ast.Tuple):
            return [self.value(one) for one in node.elts]
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return list(self.array(node.value).shape)
        do = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if do is None:
            raise refused(node, f"kernels do not know {type(node).__name__}")
        return [do(node)]

    def array(self, node: ast.expr) -> Array:
        """Return an array."""
        found = self.value(node)
        if not isinstance(found, Array):
            raise refused(node, "only arrays have lengths")
        return found

    def on_constant(self, node: ast.Constant) -> Any:  # noqa: ANN401
        """Emit a literal."""
        return constant(node.value, node)

    def on_name(self, node: ast.Name) -> Value:
        """Read a name."""
        return self.load(node.id, node)

    def on_attribute(self, node: ast.Attribute) -> Value:
        """Read a field of a record."""
        record = self.value(node.value)
        if not isinstance(record, Record) or node.attr not in record.fields:
            raise refused(node, f"{node.attr} is no field")
        return record.fields[node.attr]

    def on_subscript(self, node: ast.Subscript) -> Value:
        """Read an element, an array's part, or one of its lengths."""
        of, which = node.value, node.slice
        if isinstance(of, ast.Attribute) and of.attr == "shape":
            if isinstance(which, ast.Constant) and isinstance(which.value, int):
                return self.array(of.value).shape[which.value]
            raise refused(node, "lengths are asked for by literal numbers")
        spot = self.place(node)
        return spot if isinstance(spot, Array) else self.element(spot)

    def on_binop(self, node: ast.BinOp) -> Any:  # noqa: ANN401
        """Compute with two numbers."""
        return self.computed(node.op, self.value(node.left), self.value(node.right))

    def computed(self, op: ast.operator, one: Any, two: Any) -> Any:  # noqa: ANN401
        """Add, subtract, multiply or divide as Python does."""
        b, kind = self.b, joint(one, two)
        if isinstance(op, ast.Div):
            return b.fdiv(number(b, one, FLOAT), number(b, two, FLOAT))
        kind = INT if kind is BOOL else kind
        one, two = number(b, one, kind), number(b, two, kind)
        known: dict[type[ast.operator], Callable[..., Any]] = {
            ast.Add: b.add if kind is INT else b.fadd,
            ast.Sub: b.sub if kind is INT else b.fsub,
            ast.Mult: b.mul if kind is INT else b.fmul,
        }
        if type(op) in known:
            return known[type(op)](one, two)
        if kind is INT and isinstance(op, ast.FloorDiv | ast.Mod):
            return self.floored(op, one, two)
        raise refused(None, f"kernels do not know {type(op).__name__} of such numbers")

    def floored(self, op: ast.operator, one: Any, two: Any) -> Any:  # noqa: ANN401
        """Divide integers towards minus infinity."""
        b, zero = self.b, ir.Constant(INT, 0)
        rest = b.srem(one, two)
        signs = b.icmp_signed("<", b.xor(rest, two), zero)
        down = b.and_(b.icmp_signed("!=", rest, zero), signs)
        if isinstance(op, ast.Mod):
            return b.add(rest, b.select(down, two, zero))
        return b.sub(b.sdiv(one, two), b.zext(down, INT))

    def on_unaryop(self, node: ast.UnaryOp) -> Any:  # noqa: ANN401
        """Negate a number or a truth."""
        if isinstance(node.op, ast.Not):
            return self.b.not_(self.truth(node.operand))
        if not isinstance(node.op, ast.USub):
            raise refused(node, "of signs kernels know minus and not")
        value = self.value(node.operand)
        if joint(value, value) is FLOAT:
            return self.b.fneg(value)
        return self.b.neg(number(self.b, value, INT))

    def on_compare(self, node: ast.Compare) -> Any:  # noqa: ANN401
        """Compare two numbers."""
        how = _COMPARED.get(type(node.ops[0]))
        if how is None or len(node.ops) > 1:
            raise refused(node, "numbers are compared two at a time, by their size")
        return self.compared(
            how, self.value(node.left), self.value(node.comparators[0])
        )

    def compared(self, how: str, one: Any, two: Any) -> Any:  # noqa: ANN401
        """Compare two numbers; nothing but ``!=`` holds of what is no number."""
        kind = INT if joint(one, two) is BOOL else joint(one, two)
        one, two = number(self.b, one, kind), number(self.b, two, kind)
        if kind is INT:
            return self.b.icmp_signed(how, one, two)
        real = self.b.fcmp_unordered if how == "!=" else self.b.fcmp_ordered
        return real(how, one, two)

    def on_boolop(self, node: ast.BoolOp) -> Any:  # noqa: ANN401
        """Look at one truth after another, as far as needed."""
        spot, done = self.slot(BOOL), self.code.append_basic_block("known")
        for i, part in enumerate(node.values):
            truth = self.truth(part)
            self.b.store(truth, spot)
            if i < len(node.values) - 1:
                more = self.code.append_basic_block("more")
                both = isinstance(node.op, ast.And)
                self.b.cbranch(truth, *((more, done) if both else (done, more)))
                self.b.position_at_end(more)
        self.b.branch(done)
        self.b.position_at_end(done)
        return self.b.load(spot)

    def on_ifexp(self, node: ast.IfExp) -> Any:  # noqa: ANN401
        """Evaluate one of two expressions."""
        yes, no, done = (self.code.append_basic_block(n) for n in ("yes", "no", "done"))
        self.b.cbranch(self.truth(node.test), yes, no)
        found = []
        for block, part in ((yes, node.body), (no, node.orelse)):
            self.b.position_at_end(block)
            found.append((self.value(part), self.b.block))
        kind = joint(found[0][0], found[1][0])
        spot = self.slot(kind)
        for value, block in found:
            self.b.position_at_end(block)
            self.b.store(number(self.b, value, kind), spot)
            self.b.branch(done)
        self.b.position_at_end(done)
        return self.b.load(spot)

    def truth(self, node: ast.expr) -> Any:  # noqa: ANN401
        """Return whether a number is not zero."""
        return number(self.b, self.value(node), BOOL)

    def called(self, node: ast.Call) -> list[Value]:
        """Call a kernel, or one of the known functions."""
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise refused(node, "functions are called by name and place")
        name = node.func.id
        what = self.around.space.get(name)
        if name == "len":
            return [self.array(node.args[0]).shape[0]]
        given = [self.value(one) for one in node.args]
        if isinstance(what, FunctionType):
            return self.around.call(self.b, name, given)
        if name in NUMBERS:
            return [number(self.b, given[0], NUMBERS[name])]
        if name in ("min", "max") and len(given) == 2:
            return [self.chosen("<" if name == "min" else ">", *given)]
        if what in _MATHS:
            known = self.around.module.declare_intrinsic(_MATHS[what], [FLOAT])
            return [self.b.call(known, [number(self.b, given[0], FLOAT)])]
        raise refused(node, f"kernels may not call {name}")

    def chosen(self, how: str, one: Any, two: Any) -> Any:  # noqa: ANN401
        """Return the lower or the higher of two numbers; the first of equal ones."""
        kind = joint(one, two)
        one, two = number(self.b, one, kind), number(self.b, two, kind)
        return self.b.select(self.compared(how, two, one), two, one)
