"""The daemon's tick for the policy's ``retain``, and for what was erased before."""

from __future__ import annotations

from dispatcher.custody.erased_again import erase_again
from dispatcher.custody.erasure_context import Erased, ErasureContext
from dispatcher.custody.outside import finish
from dispatcher.custody.purging import purge
from dispatcher.custody.rekeying import seal_leftovers
from dispatcher.ledger.standing import current_policy


class Retention:
    """The daemon's tick: erases what the policy's ``retain`` no longer allows.

    Parameters
    ----------
    context : ErasureContext
    """

    def __init__(self, context: ErasureContext) -> None:
        self._context = context

    def tick(self, epoch: int) -> int:
        """Erase a bounded number of records that are too old; return how many.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        seal_leftovers(self._context.store)
        erase_again(self._context)
        with self._context.store.read() as tx:
            force = current_policy(tx)
        retain = None if force is None else force.policy.entity.retain
        if retain is None:
            finish(self._context, Erased())  # of an erasure that was broken off
            return 0
        done = purge(
            self._context, self._context.clock() - retain, epoch=epoch, pieces=20
        )
        return done.deleted["records"]
