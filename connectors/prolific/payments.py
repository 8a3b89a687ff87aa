"""Payments at Prolific: approvals, bonuses in two steps, and checks of both.

An approval may be repeated. A bonus may not: Prolific pays again for every call,
minutes later, and has no list of requested payments. So we check what a submission has
been paid already, which may be too early to be conclusive; only a failure before the
second step is known to have done nothing.
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
    """Return the progress for a submission's status; undocumented ones are open."""
    return _PROGRESS.get(str(status), Progress.OPEN)


def whole_cents(money: Money) -> int:
    """Return an amount in cents, whatever the currency calls them.

    Raises
    ------
    Rejected
        If it is not a whole number of cents.
    """
    cents = money.in_parts(CENTS)
    if cents is None:
        raise Rejected(
            f"{money} is no whole number of cents",
            why="Prolific pays whole ones",
            fix="set another reward: dispatcher runs budget RUN --reward GBP:1.20",
        )
    return cents


class Payments:
    """The money of one workspace.

    Parameters
    ----------
    api : Api
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._currency = ""

    def cents(self, money: Money) -> int:
        """Return an amount in the workspace's cents.

        Raises
        ------
        Misconfigured
            If its currency is not the workspace's.
        Rejected
            If it is not a whole number of cents.
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

    def balance(self) -> Money:
        """Return what the workspace may still spend."""
        found = self._api.balance()
        left, currency = found.get("available_balance"), found.get("currency_code")
        if not isinstance(left, int | float) or not isinstance(currency, str):
            raise TryLater("Prolific does not say what the workspace has left")
        return Money((Decimal(round(left)) / CENTS).quantize(Decimal("0.01")), currency)

    def approve(self, pay: Pay) -> None:
        """Approve a submission; no error if it is approved already.

        Raises
        ------
        Rejected
            If it was not submitted, was returned, or is another participant's.
        TryLater
            If Prolific does not show it as approved afterwards.
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
        """Set up a bonus and pay it.

        Raises
        ------
        TryLater
            ``certain`` exactly if the second step was not taken.
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
        except Misconfigured as error:  # it may have been done nevertheless
            raise TryLater(error.what, why=error.why, fix=error.fix) from error

    def paid(self, pay: Pay) -> bool | None:
        """Return whether a submission was approved, or paid a bonus of this amount.

        None for a bonus that is not there yet: it may be on its way.
        """
        submission = self._submission(pay)
        if pay.kind is PayKind.REWARD:
            return progress_of(submission.get("status")) is Progress.APPROVED
        bonuses = submission.get("bonus_payments")
        cents = self.cents(pay.reward)
        return True if cents in (bonuses if isinstance(bonuses, list) else ()) else None

    def _submission(self, pay: Pay) -> dict[str, Any]:
        """Return the submission of a payment, after checking whose it is."""
        kept = self._api.submission(pay.submission)
        if kept is None:
            raise Rejected("Prolific knows no such submission")
        said = kept.get("study_id"), kept.get("participant")
        if said != (pay.reference, pay.account):
            raise Rejected(
                "the submission is another participant's, or of another study"
            )
        return kept
