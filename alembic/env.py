"""Alembic's environment: the connection and the dialect come from the program.

See ``dispatcher/store/migrations.py``, the only caller.
"""

from alembic import context

from dispatcher.model import metadata

attributes = context.config.attributes

if context.is_offline_mode():
    context.configure(
        dialect_name=attributes["dialect"],
        target_metadata=metadata,
        literal_binds=True,
        transactional_ddl=True,
    )
else:
    context.configure(
        connection=attributes["connection"],
        target_metadata=metadata,
        # SQLite alters a table by copying it; never done to the ledger.
        render_as_batch=True,
        compare_type=True,
        compare_server_default=True,
        transactional_ddl=True,
    )

with context.begin_transaction():
    context.run_migrations()
