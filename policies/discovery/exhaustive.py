"""Combinations and dependencies of any size, by desbordante (extra ``discovery``).

Without the extra, combinations and left sides of up to three and two columns are counted
by :mod:`~policies.discovery.uniqueness` and :mod:`~policies.discovery.dependencies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from policies.discovery.coded_table import CodedTable

EXTRA: Final = "discovery"
MOST_COLUMNS: Final = 24
MOST_ROWS: Final = 20_000
LARGEST: Final = 4
"""Columns on the left side of the largest dependencies that are searched."""
ERROR: Final = 0.2


def is_installed() -> bool:
    """Whether desbordante can be imported."""
    return find_spec("desbordante") is not None


def minimal_keys(table: CodedTable, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all the smallest combinations that tell all rows apart.

    Parameters
    ----------
    table : CodedTable
        Columns with empty cells are left out: an empty cell tells no row apart.
    columns : sequence of str
        The first 24 are searched.
    """
    import desbordante

    names = [name for name in columns if table[name].filled == table.rows]
    names = names[:MOST_COLUMNS]
    if not names or table.rows < 2:
        return []
    search = desbordante.ucc.algorithms.HPIValid()
    search.load_data(table=_frame(table, names, table.rows))
    search.execute()
    found = [tuple(names[i] for i in one.indices) for one in search.get_uccs()]
    return sorted(found, key=lambda one: (len(one), one))


def candidates(
    table: CodedTable, told: Sequence[str], by: Sequence[str]
) -> list[tuple[tuple[str, ...], str]]:
    """Return left sides of three and four columns that may tell a column.

    They are minimal up to an error of a fifth of the pairs of rows; whether they tell
    more than chance is measured by the caller.
    """
    import desbordante

    names = list(dict.fromkeys([*told, *by]))[:MOST_COLUMNS]
    rows = min(table.rows, MOST_ROWS)
    if len(names) < 2 or rows < 2:
        return []
    search = desbordante.afd.algorithms.Tane()
    search.load_data(table=_frame(table, names, rows))
    search.execute(error=ERROR, max_lhs=LARGEST)
    found = []
    for one in search.get_fds():
        left, right = one.to_index_tuple()
        columns = tuple(names[i] for i in left)
        if names[right] in told and len(columns) > 2 and set(columns) <= set(by):
            found.append((columns, names[right]))
    return found


def _frame(table: CodedTable, names: Sequence[str], rows: int) -> object:
    import pandas as pd

    return pd.DataFrame({str(i): table[n].codes[:rows] for i, n in enumerate(names)})
