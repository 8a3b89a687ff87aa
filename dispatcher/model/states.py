"""What may follow what, and numbers with a meaning."""

from collections.abc import Mapping
from typing import Final

SYSTEM_CHAIN: Final = 0
"""Id of the ledger's ``system`` chain; every other chain is an adversary's."""

TRANSITIONS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "run": {
        "active": frozenset(),
        "lost": frozenset(),  # born so: of its records only the ledger is left
    },
    "load": {
        "loading": frozenset({"done"}),
        "done": frozenset({"loading"}),  # the same file once more
    },
    "plan": {
        "draft": frozenset({"applied", "dropped"}),
        "applied": frozenset({"superseded"}),
        "dropped": frozenset(),
        "superseded": frozenset(),
    },
    "outbox": {
        "ready": frozenset({"leased", "cancelled", "dead"}),
        "leased": frozenset({"ready", "sent", "dead"}),
        "sent": frozenset(),
        "dead": frozenset({"ready", "cancelled"}),
        "cancelled": frozenset(),
    },
    # Every state but "offered" counts as seen (design decision 4: handed = seen).
    "task": {
        "booked": frozenset(
            {"sent", "published", "answered", "returned", "expired", "dead"}
        ),
        "sent": frozenset({"answered", "returned", "expired", "dead"}),
        "shown": frozenset({"answered", "returned", "expired"}),
        "expired": frozenset({"shown", "answered"}),  # the same worker, late
        "returned": frozenset({"shown", "answered"}),
        "dead": frozenset(
            {"booked", "sent", "published", "answered"}
        ),  # it may have arrived after all
        "published": frozenset(),  # a feed has it; no answer comes of it
        "answered": frozenset({"shown"}),  # taken back by its worker, at once
    },
    "result": {
        "open": frozenset({"answered", "conflict"}),
        "conflict": frozenset({"open", "answered"}),
        "answered": frozenset({"open", "conflict"}),  # a late answer may change it
        "erased": frozenset(),  # born so: the values are gone, nothing is asked
    },
    # What is released or refused is room in the budget again.
    "payment": {
        "reserved": frozenset({"due", "released", "held", "paid", "refused"}),
        "released": frozenset({"reserved"}),  # it came in after all
        "due": frozenset(
            {
                "paid",
                "unknown",
                "held",
                "refused",
                "reserved",
            }  # its answer is taken back
        ),
        # a person looks; or the offer that was given up is at the market after all
        "held": frozenset({"due", "paid", "refused", "reserved"}),
        "unknown": frozenset({"due", "paid", "refused"}),  # a person looks
        "refused": frozenset({"reserved"}),  # a person asked for it once more
        "paid": frozenset(),
    },
    "account": {
        "active": frozenset({"blocked", "stopped", "left"}),
        "blocked": frozenset({"active"}),
        "stopped": frozenset({"active", "blocked", "left"}),  # below the floor
        "left": frozenset({"active", "blocked"}),  # by the worker's own wish
    },
    "gold_task": {
        "shown": frozenset({"answered", "returned", "expired"}),
        "expired": frozenset({"shown", "answered"}),
        "returned": frozenset({"shown", "answered"}),
        "answered": frozenset({"shown"}),
    },
    "qualification": {
        "open": frozenset({"passed", "failed"}),
        "failed": frozenset({"open"}),  # one more try
        "passed": frozenset(),
    },
}
"""State tables: table -> state -> states that may follow."""

LIVE_TASK_STATES: Final = ("booked", "sent", "shown")
"""A task in one of these may still bring an answer: it counts as a planned copy."""


def record_unit(record_id: int) -> int:
    """Unit id of a record."""
    return 2 * record_id


def subject_unit(subject_id: int) -> int:
    """Unit id of a subject."""
    return 2 * subject_id + 1


def link_unit(link_id: int) -> int:
    """Unit id of a link: negative, so that it is no record's and no subject's."""
    return -link_id
