"""What documents are made of: moments, amounts, names, pages, problems."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

T = TypeVar("T")


def _moment(at: object) -> object:
    return datetime.fromtimestamp(at / 1e6, UTC) if isinstance(at, int) else at


def _base64(content: object) -> object:
    return b64encode(content).decode() if isinstance(content, bytes) else content


def _amount(text: object) -> object:
    if not isinstance(text, str):
        return text
    sign, rest = ("-", text[1:]) if text.startswith("-") else ("", text)
    return {"amount": sign + rest[4:], "currency": rest[:3]}  # GBP:1.20


Ratio = Annotated[float, BeforeValidator(float)]
"""An exact ratio, as near as a float comes."""
Moment = Annotated[datetime, BeforeValidator(_moment)]
"""A moment, UTC (RFC 3339)."""
Account = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_-]{0,39}/[^\x00-\x1f\x7f]{1,400}$",
        description="CONNECTOR/NAME",
    ),
]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=500, description="One line; kept for auditors."),
]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Id = Annotated[int, Field(ge=1, le=2**62)]


class Request(BaseModel):
    """The body of a request; unknown members are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Document(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Page(Document, Generic[T]):
    """A part of a list, and the cursor of the next part; null at the end."""

    items: Sequence[T]
    next_cursor: str | None = None


class Problem(Document):
    """Why a request was refused (RFC 9457), and the way out."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fix: str
    retryable: bool
    instance: str
    why: str | None = None
    facts: Mapping[str, str | int | float] | None = None
    errors: Sequence[Mapping[str, str]] | None = None


class Amount(Document):
    """An amount of money, exactly."""

    amount: str
    currency: str


Money = Annotated[Amount, BeforeValidator(_amount)]
