"""Kernels mean what Python means by them, and what they may not say is refused."""

import importlib
from collections.abc import Callable
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from policies.model.problem_arrays import Floats
from policies.model.sets import Bools, Ints
from policies.solvers.kernels.compiling import compiled
from policies.solvers.kernels.llvm import Unit, source_of
from policies.solvers.kernels.values import INT, Array

SEVEN = 7


class Pair(NamedTuple):
    """A record with an array and a number."""

    table: Floats
    scale: float


def divided(a: int, b: int) -> tuple[int, int, float]:
    return a // b, a % b, a / b


def ordered(x: float, y: float) -> int:
    code = 1 if x < y else 0
    code += 2 if x <= y else 0
    code += 4 if x == y else 0
    code += 8 if x != y else 0
    code += 16 if x > y else 0
    code += 32 if x >= y else 0
    return code


def counted(n: int, z: Ints) -> int:
    """Loops forwards, backwards, left early and passed over."""
    total = 0
    for i in range(n):
        if i == 3:
            continue
        if i > SEVEN:
            break
        total += i
    for i in range(n, -1, -2):
        total = total * 3 + i
    i = 0
    while i < len(z) and z[i] >= 0:
        total += z[i]
        i += 1
    return total


def bumped(z: Ints, i: int) -> int:
    z[i] += 1
    return z[i]


def mixed(z: Ints, pair: Pair, truths: Bools) -> float:
    """Rows, records, truths, order of evaluation, mathematics."""
    rows, columns = pair.table.shape
    row = pair.table[rows - 1]
    row[0], row[columns - 1] = row[columns - 1], row[0]
    z[0] += bumped(z, 0)
    truths[0] = not truths[1] or (truths[2] and z[0] > 1)
    found = float(int(row[0] * 2.0)) + min(z[0], 2.5) + max(z[1], -1)
    found += sqrt(float(abs_of(z[1]))) + exp(-1.0) + log(2.0)
    return found * pair.scale if truths[0] else -found


def abs_of(a: int) -> int:
    return -a if a < 0 else a


def everything(
    ints: Ints, reals: Floats, pair: Pair, truths: Bools, out: Floats
) -> None:
    a, b = ints[0], ints[1]
    out[0], out[1], out[2] = divided(a, b)
    out[3] = ordered(reals[0], reals[1])
    out[4] = counted(abs_of(a) % 12, ints)
    out[5] = mixed(ints, pair, truths)


NAMES = (
    *("divided", "ordered", "counted", "bumped", "mixed", "abs_of"),
    "everything",
)
DOOR = compiled((globals(),), NAMES, ("everything",))["everything"]

small = st.integers(-50, 50)
real = st.floats(-9, 9) | st.just(float("nan"))


@given(
    ints=st.lists(small, min_size=3, max_size=6).filter(lambda z: z[1]),
    reals=st.lists(real, min_size=2, max_size=2),
    cells=st.lists(st.floats(-9, 9), min_size=6, max_size=6),
    truths=st.lists(st.booleans(), min_size=3, max_size=3),
    turned=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_kernel_does_what_python_does(ints, reals, cells, truths, turned):
    """Bit for bit, whatever way the arrays are laid out."""
    seen = []
    for run in (everything, DOOR):
        z, flags, out = np.array(ints), np.array(truths), np.zeros(6)
        table = np.array(cells).reshape(2, 3)
        pair = Pair(table.T if turned else table, 2.0)
        run(z, np.array(reals), pair, flags, out)
        seen.append((out.tolist(), z.tolist(), flags.tolist(), table.tolist()))
    assert seen[0] == seen[1]


def integers_and_reals(a: int) -> float:
    b = 1
    b = a / 2 + b
    return b * 2.0


def a_list(a: int) -> int:
    b = [a]
    return b[0]


def a_method(z: Ints) -> int:
    return z.sum()


def an_unknown_call(a: int) -> int:
    return pow(a, 2)


def an_unknown_name(a: int) -> int:
    return a + NAMES


def no_annotation(a) -> int:
    return a


def three_compared(a: int) -> bool:
    return 0 < a < 9


def no_range(z: Ints) -> int:
    total = 0
    for one in z:
        total += one
    return total


def else_of_a_loop(a: int) -> int:
    while a > 0:
        a -= 1
        if a == 5:
            break
    else:
        a = 7
    return a


def too_many(z: Ints) -> int:
    return z[0, 0]


def an_array_as_a_number(z: Ints) -> int:
    return z + 1


def fewer_results(a: int) -> tuple[int, int]:
    return a


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (integers_and_reals, "a number of type double where i64"),
        (a_list, "do not know List"),
        (a_method, "called by name"),
        (an_unknown_call, "may not call pow"),
        (an_unknown_name, "neither a name"),
        (no_annotation, "a type is expected"),
        (three_compared, "two at a time"),
        (no_range, "over a range"),
        (else_of_a_loop, "no else"),
        (too_many, "more indices"),
        (an_array_as_a_number, "where a number is expected"),
        (fewer_results, "more or fewer results"),
    ],
    ids=lambda x: x.__name__ if callable(x) else "",
)
def test_what_kernels_may_not_say_is_refused(kernel: Callable[..., object], why: str):
    """With what it is; nothing is compiled to something else."""
    module = ir.Module()
    outer = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "outer")
    builder = ir.IRBuilder(outer.append_basic_block())
    one = ir.Constant(INT, 1)
    array = Array(builder.alloca(INT), (one,), (one,))
    takes_array = "z" in kernel.__code__.co_varnames
    with pytest.raises(TypeError, match=why) as caught:
        Unit(module, globals()).call(
            builder, kernel.__name__, [array if takes_array else one]
        )
    assert "a kernel cannot be compiled" in str(caught.value)


def test_numbers_of_other_sizes_are_refused():
    """An array of 32 bits would be read wrong."""
    with pytest.raises(Exception, match="numbers of 64 bits"):
        DOOR(
            np.zeros(3, np.int32),
            np.zeros(2),
            Pair(np.zeros((2, 3)), 1.0),
            np.zeros(3, np.bool_),
            np.zeros(6),
        )


def test_a_file_that_changed_meanwhile_is_not_compiled(tmp_path, monkeypatch):
    """What the program runs and what the file says must be one."""
    file = tmp_path / "changing.py"
    file.write_text("def one(a: int) -> int:\n    return a + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    one = importlib.import_module("changing").one
    assert source_of(one).name == "one"
    file.write_text("def one(a: int) -> int:\n    return a + 22\n")
    with pytest.raises(RuntimeError, match=r"changing\.py has changed"):
        source_of(one)
