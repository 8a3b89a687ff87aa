"""Payments at MTurk: rewards by approval, bonuses under our key, each once."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from connectors.base import Money, Pay, PayKind, Rejected, TryLater
from connectors.mturk.api import Api, MTurkRefused
from connectors.mturk.reviewing import submission_id

CURRENCY: Final = "USD"


def dollars(money: Money) -> str:
    """Return an amount in MTurk's format.

    Raises
    ------
    Rejected
        If it is not in dollars, or not in whole cents.
    """
    cents = money.in_parts(100)
    if money.currency != CURRENCY or not cents:
        raise Rejected(
            "MTurk pays whole cents of US dollars",
            why="the amount is something else",
            fix="set another reward: dispatcher runs budget RUN --reward USD:1.20",
        )
    return f"{cents // 100}.{cents % 100:02d}"


class MTurkPayments:
    """Approvals and bonuses.

    Parameters
    ----------
    api : Api
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    def balance(self) -> Money:
        """Return what the account may still spend."""
        return Money.read(f"USD:{self._api.balance()}")

    def approve(self, pay: Pay) -> None:
        """Approve a piece of work; no error if it is approved already.

        Raises
        ------
        Rejected
            If MTurk does not know it, somebody rejected it, or it pays another amount.
        TryLater
            If MTurk does not show the approval yet.
        """
        piece, hit = self._piece(pay)
        if Decimal(hit["Reward"]) != Decimal(dollars(pay.reward)):
            raise Rejected(
                "the HIT pays another reward than was booked for it",
                fix="judge it at MTurk by hand",
            )
        if piece["AssignmentStatus"] == "Approved":
            return
        _check_not_rejected(piece)
        try:
            self._api.approve(str(piece["AssignmentId"]))
        except MTurkRefused:
            # the response was lost, or MTurk approved by itself: is it approved now?
            if not self.paid(pay):
                raise
        else:
            if not self.paid(pay):
                raise TryLater(
                    "MTurk does not show yet that it was approved",
                    fix="it is asked again later",
                )

    def bonus(self, pay: Pay) -> None:
        """Pay a bonus; one that MTurk lists under our key is paid already.

        Raises
        ------
        Rejected
            As in :meth:`approve`.
        """
        amount = dollars(pay.reward)
        piece, _ = self._piece(pay)
        _check_not_rejected(piece)
        if self._has_bonus(pay, piece):
            return
        self._api.bonus(
            WorkerId=pay.account,
            AssignmentId=piece["AssignmentId"],
            BonusAmount=amount,
            Reason=f"Thank you for your work {_mark(pay)}",
            UniqueRequestToken=pay.key,
        )

    def paid(self, pay: Pay) -> bool:
        """Return whether MTurk has paid this."""
        try:
            piece, _ = self._piece(pay)
        except Rejected:
            return False
        if pay.kind is PayKind.BONUS:
            return self._has_bonus(pay, piece)
        return bool(piece["AssignmentStatus"] == "Approved")

    def _piece(self, pay: Pay) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the submitted assignment of this worker and acceptance, and its HIT."""
        found = self._api.assignment(pay.submission.partition("~")[0])
        if found is not None:
            piece, hit = found
            mine = piece["WorkerId"] == pay.account and hit["HITId"] == pay.reference
            if mine and submission_id(piece) == pay.submission:
                return piece, hit
        raise Rejected(
            "MTurk knows no such work of this worker",
            why="it was handed back, or its id went to another",
            fix="look at the HIT at MTurk",
        )

    def _has_bonus(self, pay: Pay, piece: Mapping[str, Any]) -> bool:
        return any(
            one["WorkerId"] == pay.account and _mark(pay) in one["Reason"]
            for one in self._api.bonuses(str(piece["AssignmentId"]))
        )


def _mark(pay: Pay) -> str:
    return f"({pay.key})"


def _check_not_rejected(piece: Mapping[str, Any]) -> None:
    if piece["AssignmentStatus"] == "Rejected":
        raise Rejected(
            "this work was rejected at MTurk",
            why="somebody has judged it there",
            fix="take the rejection back there, if it is to be paid",
        )
