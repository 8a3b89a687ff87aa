"""The wall between two workers at MTurk, tried without offering anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connectors.base import Stranger, Tried, Wall
from connectors.mturk.api import Api


def try_number(
    api: Api, guard: Mapping[str, Any], account: str, other: Stranger
) -> Iterator[Tried]:
    """Give a worker the number that opens their HITs; read back who has it.

    A HIT itself would cost money, and MTurk shows no requester what a worker sees.

    Parameters
    ----------
    api : Api
    guard : Mapping
        The requirement of the worker's HITs.
    account : str
    other : Stranger
        Who must not have the number.
    """
    kind, number = guard["QualificationTypeId"], guard["IntegerValues"][0]
    api.give_score(kind, account, number)
    kept = api.score(kind, account) == number
    yield Tried(Wall.BINDING, kept, "MTurk keeps the worker's number")
    theirs = api.score(kind, other.account)
    yield Tried(Wall.BINDING, theirs != number, "the other worker has another number")
