"""Budgets and payments."""

from typing import Final

from sqlalchemy import CheckConstraint, Column, Index, String, Text
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, number, states_of, word

UNIT: Final = 1_000_000
"""Parts of a currency's unit; also parts of the whole that a fee is counted in."""

DAY: Final = 86_400 * 1_000_000
"""Microseconds of a day; allowances begin anew at midnight UTC."""


class Budget(SQLModel, table=True):
    """What a run may cost. All amounts are millionths of the currency's unit.

    ``reward`` is what one piece of work at a market that pays is offered for, ``bonus``
    what one answered field earns; ``fee`` is what such a market adds, in millionths of
    what it pays. ``taken`` is all that is promised, owed or paid; ``day_taken`` what was
    of it on day ``day`` (days since 1970 UTC). Rebuildable from the payments.
    """

    __tablename__ = "budget"
    __table_args__ = (
        CheckConstraint("cap >= 0 AND reward >= 0 AND bonus >= 0", name="amounts"),
        CheckConstraint("taken >= paid AND paid >= 0", name="taken"),
    )
    run_id: int = Field(sa_column=number(of="run.id"))
    currency: str = Field(sa_column=word(3))
    cap: int = Field(sa_column=big())
    per_day: int | None = Field(default=None, sa_column=big(null=True))
    reward: int = Field(default=0, sa_column=big())
    bonus: int = Field(default=0, sa_column=big())
    fee: int = Field(default=0, sa_column=big())
    taken: int = Field(default=0, sa_column=big())
    paid: int = Field(default=0, sa_column=big())
    day: int = Field(default=0, sa_column=big())
    day_taken: int = Field(default=0, sa_column=big())

    def room(self, now: int) -> int:
        """What may still be taken; below 0 where the cap was lowered since."""
        room = self.cap - self.taken
        if self.per_day is not None:
            room = min(room, self.per_day - self.taken_today(now))
        return room

    def taken_today(self, now: int) -> int:
        """What was taken of the day's allowance."""
        # a clock that was put back gives no second allowance for the same day
        return self.day_taken if now // DAY <= self.day else 0

    def used_up(self, now: int) -> str:
        """What stops new work: ``cap``, ``day`` or, where nothing does, an empty word."""
        price = self.bonus or self.reward or 1
        if self.cap - self.taken < price:
            return "cap"
        return "day" if self.room(now) < price else ""

    def bonus_with_fee(self, *, at_market: bool) -> int:
        """What one field takes; a market that pays adds its fee."""
        return self.bonus + (self.fee_of(self.bonus) if at_market else 0)

    def fee_of(self, amount: int) -> int:
        """What a market adds to an amount, rounded up."""
        return -(-amount * self.fee // UNIT)


class Payment(SQLModel, table=True):
    """What one thing is paid: there is one payment of each kind for it, ever.

    ``kind`` is ``reward`` (of a piece of work; ``about`` is the message that offered it)
    or ``field`` (one answered field; ``about`` is the task). ``piece`` is the message of
    the piece of work that it belongs to: with a market that pays; else None. ``fee`` is
    what the market adds to ``amount``; ``day`` the day whose allowance it took.
    ``reference``, ``submission`` and ``progress`` are the market's, of rewards.
    ``cause`` is set of a held reward that what is heard of the market may still settle:
    ``ended`` (its work ended there, begun and not handed in) or ``given-up`` (its offer
    was given up, and may lie there). ``why`` is for people.
    """

    __tablename__ = "payment"
    __table_args__ = (
        states_of("payment"),
        CheckConstraint("kind IN ('reward','field')", name="kind"),
        CheckConstraint("amount >= 0 AND fee >= 0", name="amount"),
        CheckConstraint("cause IN ('ended','given-up')", name="cause"),
        # In the order of the looks, which page through a state; with what is counted.
        Index(None, "state", "kind", "about", "connector"),
        Index(None, "account_id", "kind"),
        Index(None, "piece"),
        Index(None, "run_id"),
        Index(None, "reference"),
    )
    kind: str = Field(sa_column=Column(String(8), primary_key=True))
    about: int = Field(sa_column=number())
    run_id: int = Field(sa_column=big())
    account_id: int = Field(sa_column=big())
    connector: str = Field(sa_column=word(40))
    piece: int | None = Field(default=None, sa_column=big(null=True))
    amount: int = Field(sa_column=big())
    fee: int = Field(sa_column=big())
    state: str = Field(default="reserved", sa_column=word(12))
    day: int = Field(sa_column=big())
    attempts: int = Field(default=0, sa_column=big())
    due: int = Field(default=0, sa_column=big())
    reference: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    submission: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    progress: str | None = Field(default=None, sa_column=word(12, null=True))
    cause: str | None = Field(default=None, sa_column=word(12, null=True))
    why: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    created_at: int = Field(sa_column=big())
    at: int = Field(sa_column=big())


class PaymentEvent(SQLModel, table=True):
    """Every change of every payment, append-only (triggers refuse update and delete)."""

    __tablename__ = "payment_event"
    __table_args__ = (Index(None, "kind", "about"),)
    id: int = Field(sa_column=number())
    kind: str = Field(sa_column=word(8))
    about: int = Field(sa_column=big())
    run_id: int = Field(sa_column=big())
    state: str = Field(sa_column=word(12))
    amount: int = Field(sa_column=big())
    fee: int = Field(sa_column=big())
    at: int = Field(sa_column=big())
    actor: str = Field(sa_column=Column(Text, nullable=False))
    why: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
