"""A study's draft, made and deleted to see what Prolific keeps of whom it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from connectors.base import Misconfigured, Offer, Stranger, Tried, Wall
from connectors.prolific.api import Api


def try_draft(
    api: Api,
    offer: Offer,
    told: Callable[[str], Mapping[str, Any]],
    check: Callable[[str, str], None],
    other: Stranger,
) -> Iterator[Tried]:
    """Draft a study for one participant and read back who could see it.

    It is never published, which would cost money.

    Parameters
    ----------
    api : Api
    offer : Offer
        Synthetic; its key names the group.
    told : callable
        Group -> the study spelt out.
    check : callable
        (study, participant) -> None; raises Misconfigured for a draft that is not safe.
    other : Stranger
        Who must not be in the group.
    """
    group = api.group_of(offer.account, offer.key)
    number = str(api.draft(told(group))["id"])
    try:
        check(number, offer.account)
        yield Tried(Wall.BINDING, held=True, told="the draft is for one group alone")
        alone = api.members(group) == [offer.account] != [other.account]
        yield Tried(Wall.BINDING, alone, "the group holds that participant alone")
    except Misconfigured as error:
        yield Tried(Wall.BINDING, held=False, told=error.what)
    finally:
        api.discard(number)
