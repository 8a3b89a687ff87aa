"""Solvers, disclosures and utilities of installed packages: load and check them.

Only what a policy or an operator names is ever loaded. A solver's plan is judged before
it counts (:mod:`policies.solvers.third_party`), and a function's value is checked for
every set of fields (:mod:`policies.rules.tabulated`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar, cast

from dispatcher.core.errors import Invalid, Usage
from dispatcher.core.plugins import load_point, only_point
from policies.model.problem import Problem
from policies.rules.functions import FieldFunction, UserUtility
from policies.solvers import ORDERED, PRINTED, Solver
from policies.solvers import SOLVERS as BUILT_IN
from policies.solvers.search.greedy import Greedy
from policies.solvers.third_party import Foreign

FUNCTIONS: Final = "sparsi_dispatcher.functions"
SOLVERS: Final = "sparsi_dispatcher.solvers"
UTILITIES: Final = "sparsi_dispatcher.utilities"

Kind = TypeVar("Kind", FieldFunction, UserUtility)


def load_function(name: str) -> FieldFunction:
    """Load the disclosure function that a policy names as ``plugin:NAME``.

    Raises
    ------
    Invalid
        There is none of that name, or two, or what is there is no function.
    """
    return _loaded(FUNCTIONS, "disclosure function", name, FieldFunction)


def load_utility(name: str) -> UserUtility:
    """Load the utility that a policy or an instance file names.

    Raises
    ------
    Invalid
        There is none of that name, or two, or what is there is no utility.
    """
    return _loaded(UTILITIES, "utility", name, UserUtility)


def _loaded(group: str, what: str, name: str, kind: type[Kind]) -> Kind:
    loaded = load_point(only_point(group, what, name))
    if not isinstance(loaded, kind):
        raise Invalid(
            f"what is installed as {what} {name!r} is none",
            why=f"it is a {type(loaded).__name__}, expected "
            f"policies.rules.functions.{kind.__name__}",
            fix=f"tell the author: the entry point must name a {kind.__name__}",
        )
    return loaded


def solver_names() -> list[str]:
    """Return the names of solvers in installed packages."""
    return sorted({point.name for point in entry_points(group=SOLVERS)})


def solvers_for(problem: Problem) -> list[str]:
    """Return the names of built-in solvers that support a problem."""
    return sorted(name for name, one in BUILT_IN.items() if one.supports(problem))


def find_solver(name: str) -> Solver:
    """Return a solver by name: built-in, or of an installed package.

    Plans of the latter are judged before they count.

    Raises
    ------
    Usage
        There is none of that name.
    Invalid
        See :func:`load_solver`.
    """
    found = BUILT_IN.get(name)
    if found is not None:
        return found
    if name not in solver_names():
        raise Usage(
            f"there is no algorithm {name[:40]!r}",
            why=f"known: {', '.join(sorted({*BUILT_IN, *solver_names()}))}",
            fix="leave --algorithm out: auto picks by structure",
        )
    return Foreign(load_solver(name), name)


def reads_paper(name: str) -> bool:
    """Whether a solver may run as printed in the paper; a package's is asked to."""
    return name in PRINTED or name not in BUILT_IN


def solver_with(name: str, options: Mapping[str, tuple[str, str | None]]) -> Solver:
    """Return a solver by name, with the choices of what goes entry by entry.

    Parameters
    ----------
    name : str
    options : Mapping
        By what the caller calls it: ``order`` or ``local``, and the choice; None: not
        made.

    Raises
    ------
    Usage
        It is none that goes entry by entry, and a choice was made; or there is none.
    Invalid
        See :func:`load_solver`.
    """
    solver = find_solver(name)
    made = {word: pair for word, pair in options.items() if pair[1] is not None}
    if not made:
        return solver
    if name not in ORDERED:
        words = " and ".join(made)
        raise Usage(
            f"{words}: {name[:40]} has no such choice",
            why=f"only {' and '.join(ORDERED)} go entry by entry, in an order of entries",
            fix=f"leave {words} out, or take the algorithm graspl",
        )
    choices: dict[str, Any] = dict(made.values())
    return replace(cast("Greedy", solver), **choices)


def load_solver(name: str) -> Solver:
    """Load a solver of an installed package.

    Raises
    ------
    Invalid
        There is none of that name, or two, or what is there is no solver.
    """
    loaded = load_point(only_point(SOLVERS, "solver", name))
    made = _made(loaded, name) if isinstance(loaded, type) else loaded
    if not callable(made) or not callable(getattr(made, "supports", None)):
        raise Invalid(
            f"what is installed as solver {name!r} is none",
            why=f"a {type(made).__name__} has no supports(problem), or is not callable",
            fix="tell the author: policies.solvers.contract would have found it",
        )
    return cast("Solver", made)


def _made(kind: type, name: str) -> object:
    """Instantiate a class of a package."""
    try:
        return kind()
    except (Exception, SystemExit) as error:
        # third-party code: whatever it raises, there is no solver
        raise Invalid(
            f"the solver {name!r} cannot be made",
            why=f"{kind.__name__}() raised {type(error).__name__}",
            fix="tell the author: the class is called without arguments",
        ) from error
