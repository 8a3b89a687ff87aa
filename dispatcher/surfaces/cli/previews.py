"""What previews of a change say: findings past a limit, and open tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dispatcher.core.plurals import count

if TYPE_CHECKING:
    from dispatcher.ledger.recall import Recall, Recalled
    from dispatcher.operations.dry_run import LimitFinding

LISTED: Final = 20
"""Findings that are listed one by one; ``--json`` has all of them."""


def findings(found: Iterable[LimitFinding]) -> list[dict[str, Any]]:
    """Return findings for ``--json``; records are named by the operator's key."""
    listed = []
    for finding in found:
        one = {"adversary": finding.adversary, "rule": finding.rule}
        if finding.record is not None:
            one["record"] = finding.record
        elif finding.subjects:
            subjects = (f"{name[:12]}…" for name in finding.subjects)
            one["subject"] = " and ".join(subjects)
        listed.append(one)
    return listed


def lines(listed: Sequence[dict[str, Any]]) -> list[str]:
    """Put findings in lines for people."""
    text = []
    for one in listed[:LISTED]:
        where = one.get("record") or one.get("subject")
        unit = "record" if "record" in one else "subject"
        place = f"{unit} {where}" if where else "the mean over all its sets"
        text.append(f"    {one['adversary']}  {one['rule']}  {place}")
    if len(listed) > LISTED:
        text.append(f"    and {len(listed) - LISTED:,} more (--json has all)")
    return text


def open_numbers(found: Recall, done: Recalled) -> dict[str, Any]:
    """Tasks under way, for ``--json``."""
    return {
        "unsafe": found.unsafe,
        "unsent": len(found.unsent),
        "shown": len(found.shown),
        "outside": len(found.outside),
        "lost": len(found.lost),
        "lost_at": list(found.lost_at),
        "recalled": done.tasks,
        "beside": done.beside,
        "left": done.left,
    }


def open_words(found: Recall, done: Recalled, *, ahead: bool) -> str:
    """Say what becomes of tasks under way; ``ahead``: of a change not made yet."""
    taken = done.tasks - done.beside
    text = f"{count(found.unsafe, 'open task')} may not be finished"
    if not found.unsafe:
        return text
    text += f": {taken:,} {'will be' if ahead else 'were'} recalled"
    if done.beside:
        text += f" (with {count(done.beside, 'other')} of the same messages)"
    if done.left:
        stay = f"; {done.left:,} {'go' if done.left > 1 else 'goes'} on"
        text += stay
        if found.lost:
            text += f" ({', '.join(found.lost_at)} cannot take tasks back)"
    return text


def people(adversaries: int, feeds: int) -> str:
    """Count workers, and feeds apart where there are any."""
    workers = count(adversaries - feeds, "worker")
    return f"{workers} · {count(feeds, 'feed')}" if feeds else workers
