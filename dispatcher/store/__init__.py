"""The only SQL of the project: SQLAlchemy's statements over the models, two databases.

A family of tables has one module here, and each table is written by that module alone.
It is plain functions that take a transaction first and give back plain values; the
caller opens the transaction, so that one stage does one visible transaction. Statements
are constants: to build one costs five times what it costs to run it::

    # dispatcher/store/pause.py
    _PAUSED = select(Pause).order_by(col(Pause.scope))
    _RESUME = delete(Pause).where(col(Pause.scope) == bindparam("scope"))

    def paused(tx: Tx) -> dict[str, Pause]:
        \"\"\"Every pause by its scope.\"\"\"
        return {one.scope: one for one in tx.models(_PAUSED)}

    def resume(tx: Tx, scope: str) -> bool:
        \"\"\"End a pause; False when there was none.\"\"\"
        return tx.execute(_RESUME, {"scope": scope}).rowcount == 1

    # elsewhere
    with store.write() as tx:
        pause.resume(tx, "all")

Many rows go through ``tx.insert_many`` and its sisters, ids come from ``tx.reserve``,
results of any size from ``tx.stream``. What docs/decisions/0011 lists as hot goes to the
driver bare, by ``tx.driver_rows`` and its sisters.
"""

from dispatcher.store.driver_errors import Clash
from dispatcher.store.engine import Clock, Entropy, Store, open_store
from dispatcher.store.transaction import Row, Tx

__all__ = ["Clash", "Clock", "Entropy", "Row", "Store", "Tx", "open_store"]
