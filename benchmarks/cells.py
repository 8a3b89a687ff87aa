"""Tables of cells as CSV: what is there is kept, what is missing is run, line by line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Protocol, TypeVar

Row = dict[str, str]


class Named(Protocol):
    """A cell: its first columns, as they stand in the file."""

    @property
    def name(self) -> tuple[str, ...]: ...


One = TypeVar("One", bound=Named)


def rows_of(path: Path) -> list[Row]:
    """The cells of the file; a last line that was cut is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return list(csv.DictReader(StringIO(text[: text.rfind("\n") + 1])))


def fill(
    path: Path,
    fields: tuple[str, ...],
    cells: Iterator[One],
    run: Callable[[One, list[Row]], dict[str, object] | None],
    shown: tuple[str, ...],
) -> None:
    """Run the cells that are not in the file yet.

    Parameters
    ----------
    path : Path
    fields : tuple of str
        The columns; the first of them name a cell.
    cells : iterator of Named
    run : callable
        Gives the columns of a cell; of the rows that are there it may use others. None
        where there is nothing to be told.
    shown : tuple of str
        Columns that are printed beside the name.
    """
    kept = rows_of(path)
    before = len(kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")  # whatever cuts this, no cell is lost
    with fresh.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    fresh.replace(path)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        for cell in cells:
            if any(tuple(row.values())[: len(cell.name)] == cell.name for row in kept):
                continue
            found = run(cell, kept)
            if found is None:
                continue
            row = {field: str(found.get(field, "")) for field in fields}
            writer.writerow(row)
            file.flush()
            kept.append(row)
            print(path.stem, *cell.name, *(row[f] or "-" for f in shown), flush=True)
    print(
        f"{path}: {len(kept) - before} cells were run, {before} were there", flush=True
    )
