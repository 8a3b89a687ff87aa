"""Paying at Prolific: approvals, bonuses in two steps, and what it says of both.

An approval may be repeated. A bonus may not: Prolific pays once more for every call, does
it minutes later, and has no list of what it was asked to pay. So it is asked what a
submission has been paid already, which may be too early to tell; only what went wrong
before the second step is known to have done nothing.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from connectors.errors import Misconfigured, Rejected, TryLater
from connectors.money import Money, Pay, PayKind, Progress
from connectors.prolific.api import Api

CENTS: Final = 100
_PROGRESS: Final = {
    "AWAITING REVIEW": Progress.SUBMITTED,
    "APPROVED": Progress.APPROVED,
    "PARTIALLY APPROVED": Progress.APPROVED,
    "REJECTED": Progress.REJECTED,
    "RETURNED": Progress.GONE,
    "TIMED-OUT": Progress.GONE,
    "SCREENED OUT": Progress.GONE,
}


def progress_of(status: object) -> Progress:
    """Read a submission's status; one that no document names is open."""
    return _PROGRESS.get(str(status), Progress.OPEN)


def whole_cents(money: Money) -> int:
    """Count an amount in cents, whatever the currency calls them.

    Raises
    ------
    Rejected
        It is no whole number of them.
    """
    cents = money.in_parts(CENTS)
    if cents is None:
        raise Rejected(
            f"{money} is no whole number of cents",
            why="Prolific pays whole ones",
            fix="set another reward: dispatcher runs budget set RUN --reward GBP:1.20",
        )
    return cents


class Purse:
    """The money of one workspace.

    Parameters
    ----------
    api : Api
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._currency = ""

    def cents(self, money: Money) -> int:
        """Count an amount in the workspace's cents.

        Raises
        ------
        Misconfigured
            It is in another currency than the workspace.
        Rejected
            It is no whole number of cents.
        """
        if not self._currency:
            self._currency = str(self._api.balance().get("currency_code") or "")
        if money.currency != self._currency:
            raise Misconfigured(
                f"the workspace is kept in {self._currency or 'no known currency'}, "
                f"the budget in {money.currency}",
                fix="set the budget of the run in the workspace's currency",
            )
        return whole_cents(money)

    def approve(self, pay: Pay) -> None:
        """Approve a submission; one that is approved already is fine.

        Raises
        ------
        Rejected
            It was not handed in, was handed back, or is another one's.
        TryLater
            It does not stand there as approved afterwards.
        """
        progress = progress_of(self._submission(pay).get("status"))
        if progress is Progress.APPROVED:
            return
        if progress is not Progress.SUBMITTED:
            raise Rejected(f"the submission is {progress}, and cannot be approved")
        state = self._api.approve(pay.submission)
        if progress_of(state) is not Progress.APPROVED and not self.paid(pay):
            raise TryLater(
                "Prolific does not show the submission as approved yet",
                why="it took the call, and the submission stands as before",
                fix="it is asked again later",
            )

    def bonus(self, pay: Pay) -> None:
        """Set a bonus up, and have it paid.

        Raises
        ------
        TryLater
            ``certain`` exactly where the second step was not taken.
        """
        try:
            cents = self.cents(pay.reward)
            self._submission(pay)
            left = self._api.balance().get("available_balance")
            if not isinstance(left, int | float) or left < cents:
                raise Misconfigured(
                    "there is no money for a bonus in the workspace",
                    fix="add some at Prolific; it is tried again",
                )
            amount = (Decimal(cents) / CENTS).quantize(Decimal("0.01"))
            number = self._api.set_up(pay.reference, f"{pay.submission},{amount}\n")
        except TryLater as error:
            raise error.as_certain() from error
        try:
            self._api.pay(number)
        except Misconfigured as error:  # it may have been done all the same
            raise TryLater(error.what, why=error.why, fix=error.fix) from error

    def paid(self, pay: Pay) -> bool | None:
        """Tell whether a submission was approved, or was paid a bonus of this amount.

        A bonus that is not there yet may be on its way: nobody can tell.
        """
        kept = self._submission(pay)
        if pay.kind is PayKind.REWARD:
            return progress_of(kept.get("status")) is Progress.APPROVED
        told = kept.get("bonus_payments")
        cents = self.cents(pay.reward)
        return True if cents in (told if isinstance(told, list) else ()) else None

    def _submission(self, pay: Pay) -> dict[str, Any]:
        """Read the submission of a payment, and see that it is whose it should be."""
        kept = self._api.submission(pay.submission)
        if kept is None:
            raise Rejected("Prolific knows no such submission")
        said = kept.get("study_id"), kept.get("participant")
        if said != (pay.reference, pay.account):
            raise Rejected(
                "the submission is another participant's, or of another study"
            )
        return kept
