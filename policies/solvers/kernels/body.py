"""Statements of a kernel's functions: see :mod:`policies.solvers.kernels.llvm`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from policies.solvers.kernels.expressions import Around, Expressions
from policies.solvers.kernels.values import (
    INT,
    Array,
    Record,
    Value,
    answered,
    declared,
    flat,
    number,
    refilled,
    refused,
)


class Body(Expressions):
    """Statements: what is written, and which way is taken.

    Parameters
    ----------
    around : Around
    code : llvmlite.ir.Function
    results : tuple of llvmlite.ir.Type, or None
        What the function gives back.
    """

    def __init__(
        self,
        around: Around,
        code: Any,  # noqa: ANN401
        results: tuple[Any, ...] | None,
    ) -> None:
        super().__init__(around, code)
        self.results = results
        self.loops: list[tuple[Any, Any]] = []  # where continue and break lead

    def whole(self, body: Sequence[ast.stmt]) -> None:
        """Emit the function."""
        self.run(body)
        if not self.b.block.is_terminated:
            if self.results is None:
                self.b.ret_void()
            else:
                self.b.unreachable()  # each way of such a function returns
        ir.IRBuilder(self.entry).branch(self.first)

    def bind(self, name: str, value: Value, at: ast.AST) -> None:
        """Give a local name a value."""
        parts = flat(value)
        if name not in self.names:
            slots = (self.slot(part.type) for part in parts)
            self.names[name] = refilled(value, slots)
        kept, whole = flat(self.names[name]), isinstance(value, Array | Record)
        if not whole and len(kept) == 1:
            parts = [number(self.b, value, kept[0].type.pointee, at)]
        if [part.type for part in parts] != [spot.type.pointee for spot in kept]:
            raise refused(at, f"{name} is an array here and something else there")
        for spot, part in zip(kept, parts, strict=True):
            self.b.store(part, spot)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a name, or write an element."""
        if isinstance(target, ast.Subscript):
            spot = self.place(target)
            self.b.store(number(self.b, value, spot.type.pointee, target), spot)
        elif not isinstance(target, ast.Name):
            raise refused(target, "only names and elements are assigned to")
        elif target.id != "_":
            self.bind(target.id, value, target)

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Emit statements, up to one that leaves."""
        for node in body:
            if self.b.block.is_terminated:
                return
            do = getattr(self, f"do_{type(node).__name__.lower()}", None)
            if do is None:
                raise refused(node, f"kernels do not know {type(node).__name__}")
            do(node)

    def do_expr(self, node: ast.Expr) -> None:
        """Call a function, or pass a docstring."""
        if not isinstance(node.value, ast.Constant):
            self.values(node.value)

    def do_assign(self, node: ast.Assign) -> None:
        """Assign one value or several."""
        target = node.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        found = self.values(node.value)
        if len(parts) > 1 and len(found) == 1 and isinstance(found[0], Record):
            found = list(found[0].fields.values())
        if len(node.targets) > 1 or len(parts) != len(found):
            raise refused(node, f"{len(found)} values for {len(parts)} targets")
        for part, value in zip(parts, found, strict=True):
            self.assign(part, value)

    def do_annassign(self, node: ast.AnnAssign) -> None:
        """Assign a number whose type is told."""
        kind = declared(node.annotation, {}, node)
        if node.value is None or kind is None:
            raise refused(node, "only numbers are declared, and with a value")
        self.assign(node.target, number(self.b, self.value(node.value), kind, node))

    def do_augassign(self, node: ast.AugAssign) -> None:
        """Change a number where it is."""
        if isinstance(node.target, ast.Subscript):
            spot = self.place(node.target)
            old = self.element(spot)  # before the rest, as Python does
            value = self.computed(node.op, old, self.value(node.value))
            self.b.store(number(self.b, value, spot.type.pointee, node), spot)
        else:
            old = self.value(node.target)
            value = self.computed(node.op, old, self.value(node.value))
            self.assign(node.target, value)

    def do_return(self, node: ast.Return) -> None:
        """Leave the function."""
        wanted = self.results or ()
        found = [] if node.value is None else self.values(node.value)
        if len(found) != len(wanted):
            raise refused(node, "more or fewer results than declared")
        pairs = zip(found, wanted, strict=True)
        found = [number(self.b, value, kind, node) for value, kind in pairs]
        if len(found) < 2:
            self.b.ret(found[0]) if found else self.b.ret_void()
            return
        whole = ir.Constant(answered(wanted), ir.Undefined)
        for i, one in enumerate(found):
            whole = self.b.insert_value(whole, one, i)
        self.b.ret(whole)

    def do_if(self, node: ast.If) -> None:
        """Take one of two ways."""
        names = ("then", "else", "after")
        yes, no, done = (self.code.append_basic_block(name) for name in names)
        self.b.cbranch(self.truth(node.test), yes, no)
        for block, body in ((yes, node.body), (no, node.orelse)):
            self.b.position_at_end(block)
            self.run(body)
            self.onward(done)
        self.b.position_at_end(done)

    def onward(self, block: Any) -> None:  # noqa: ANN401
        """Go on elsewhere, unless the way ended."""
        if not self.b.block.is_terminated:
            self.b.branch(block)

    def do_while(self, node: ast.While) -> None:
        """Repeat while a test holds."""
        names = ("test", "loop", "out")
        test, body, done = (self.code.append_basic_block(name) for name in names)
        self.b.branch(test)
        self.b.position_at_end(test)
        self.b.cbranch(self.truth(node.test), body, done)
        self.b.position_at_end(body)
        self.repeated(node, test, done)
        self.b.position_at_end(done)

    def repeated(self, node: ast.While | ast.For, more: Any, done: Any) -> None:  # noqa: ANN401
        """Emit what is repeated."""
        if node.orelse:
            raise refused(node, "loops have no else")
        self.loops.append((more, done))
        self.run(node.body)
        self.onward(more)
        self.loops.pop()

    def do_for(self, node: ast.For) -> None:
        """Count over a range."""
        start, stop, step = self.ranged(node)
        b, spot, names = self.b, self.slot(INT), ("test", "loop", "next", "out")
        test, body, more, done = (self.code.append_basic_block(name) for name in names)
        b.store(start, spot)
        b.branch(test)
        b.position_at_end(test)
        now = b.load(spot)
        b.cbranch(b.icmp_signed("<" if step > 0 else ">", now, stop), body, done)
        b.position_at_end(body)
        self.assign(node.target, now)
        self.repeated(node, more, done)
        b.position_at_end(more)
        b.store(b.add(b.load(spot), ir.Constant(INT, step)), spot)
        b.branch(test)
        b.position_at_end(done)

    def ranged(self, node: ast.For) -> tuple[Any, Any, int]:
        """Return start, stop and step of a loop's range."""
        over = node.iter
        named = isinstance(over, ast.Call) and isinstance(over.func, ast.Name)
        if not named or over.func.id != "range":  # type: ignore[attr-defined]
            raise refused(node, "loops go over a range")
        args = over.args  # type: ignore[attr-defined]
        step = ast.literal_eval(args[2]) if len(args) == 3 else 1
        ends = [number(self.b, self.value(one), INT, node) for one in args[:2]]
        return (*ends, step) if len(ends) == 2 else (ir.Constant(INT, 0), ends[0], step)

    def do_break(self, _: ast.Break) -> None:
        """Leave the loop."""
        self.b.branch(self.loops[-1][1])

    def do_continue(self, _: ast.Continue) -> None:
        """Go on with the loop's next turn."""
        self.b.branch(self.loops[-1][0])
