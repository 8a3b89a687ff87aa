"""Which tables and columns a schema has, this program's or an older one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from sqlalchemy import LargeBinary

from dispatcher.model import metadata
from dispatcher.store import migrations, schema
from dispatcher.store.engine import Store, make_backend

Columns = dict[str, bool]
"""Columns of a table in order; whether each holds bytes."""

LEFT_OUT: Final = frozenset({"sign_in_link", "operator_session", "hook"})
"""What no copy of a store keeps."""


def layout(version: str) -> dict[str, Columns]:
    """Tables that copies of a store keep, at one of the program's migrations.

    Parameters
    ----------
    version : str
        Not after :data:`schema.HEAD`.
    """
    found = _modelled() if version == schema.HEAD else _migrated(version)
    return {name: columns for name, columns in found.items() if name not in LEFT_OUT}


def _modelled() -> dict[str, Columns]:
    return {
        table.name: {c.name: isinstance(c.type, LargeBinary) for c in table.columns}
        for table in metadata.sorted_tables  # what is referred to comes first
    }


def _migrated(version: str) -> dict[str, Columns]:
    """Tables of an empty store that was migrated so far: no model is left of them."""
    with tempfile.TemporaryDirectory() as place:
        backend = make_backend(Path(place) / "empty.db", create=True)
        migrations.upgrade(backend, to=version)
        with Store(backend) as store, store.read() as tx:
            found = tx.reflected()
    return {
        table.name: {c.name: isinstance(c.type, LargeBinary) for c in table.columns}
        for table in found.sorted_tables
        if table.name != "alembic_version"
    }
