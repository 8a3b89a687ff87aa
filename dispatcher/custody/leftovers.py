"""What would be traces of somebody, read from the store before it is gone."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatcher.custody.traces import needles_of, search
from dispatcher.store import Store
from dispatcher.store import erasure as rows


@dataclass(frozen=True)
class Sought:
    """Texts that belong to somebody and to nobody else.

    Attributes
    ----------
    needles : tuple of bytes
    sources : tuple of str
        Names of the files that the records were loaded from.
    """

    needles: tuple[bytes, ...]
    sources: tuple[str, ...]

    def left_in(self, directory: Path, *, but: Collection[Path]) -> list[str]:
        """Files under a directory that hold one of the texts."""
        return search(directory, self.needles, but=but, sources=self.sources)


def sought(
    store: Store, name: str, record_ids: Sequence[int], entry_ids: Sequence[int]
) -> Sought:
    """Read what is looked for: keys, and those values that no other record has.

    A drug that hundreds take is no trace of one of them. All records are read for it.

    Parameters
    ----------
    store : Store
    name : str
        Pseudonym of the person or record.
    record_ids, entry_ids : Sequence of int
        What is to be erased.
    """
    with store.read() as tx:
        keys, values = [], set[bytes]()
        for row in rows.records(tx, record_ids):
            keys.append(row[1])
            values.update(cell.encode() for cell in json.loads(row[3]))
        values.update(row[3] for row in rows.said_of(tx, entry_ids))
        values.update(rows.shown_of(tx, entry_ids))
        person = rows.subject(tx, name) if name.startswith("s") else None
        if person is not None:
            keys.append(rows.person_of(tx, person.id))
        own = set(needles_of(keys, ()))
        shared = own ^ set(needles_of((), values))
        for cells in rows.cells_of_others(tx, record_ids):
            if not shared:
                break
            shared -= {text for text in shared if text in cells}
        return Sought(
            tuple(needles_of(own | shared, ())), tuple(rows.sources_of(tx, record_ids))
        )
