"""The trade-off between a strict policy, workers and utility as three small plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from policies.discovery import dependencies
from policies.planning.frontier import Frontier, Point

WIDTH, HEIGHT = 320, 208
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 308, 12, 164
_TICKS: Final = 4
_VISIBLE: Final = 0.5  # height of a gap between found and proven

Corner = tuple[float, float]


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where it is, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Panel:
    """One plot: shapes as paths of SVG.

    Attributes
    ----------
    title, summary : str
        Its heading, and what it shows in a sentence.
    line : str
        Joins the dots.
    dots : sequence of (float, float)
        What was found at each limit.
    band : str
        From there to what is proven, where the two differ.
    never : str
        Where no number of workers would do; empty if there is no such place.
    policy : float or None
        Height of the policy itself.
    policy_text : str
    x, y : list of Tick
    limit : str
        The limit itself, where it is of the same measure.
    """

    title: str
    summary: str
    line: str
    dots: Sequence[Corner]
    band: str
    never: str
    policy: float | None
    policy_text: str
    x: Sequence[Tick]
    y: Sequence[Tick]
    limit: str = ""


def percent(share: Fraction | float) -> str:
    """Write a share in percent, on one line."""
    return dependencies.percent(float(share)).replace(" ", "\u00a0")


def workers(point: Point) -> str:
    """Say how many workers are needed at a point."""
    needed = point.needed
    if needed.never:
        return "no number"
    if needed.enough is None:
        return f"{needed.least} or more"
    if needed.enough == needed.least:
        return str(needed.least)
    return f"{needed.least} to {needed.enough}"


def panels(found: Frontier) -> list[Panel]:
    """Draw a frontier."""
    return [_workers(found), _utility(found), _disclosure(found)]


def _workers(found: Frontier) -> Panel:
    points, own = found.points, found.policy
    most = [p.needed.enough or p.needed.least for p in (*points, own)]
    top, ticks = _scale(max(1, *most))
    able = [p for p in points if not p.needed.never]
    first = next((p for p in points if p.needed.never), None)
    return _panel(
        "Workers needed",
        f"From {workers(points[0])} at the loosest limit to {workers(points[-1])} at "
        f"the strictest; the policy takes {workers(own)}.",
        [(_x(p), p.needed.least / top) for p in able],
        [(p.needed.enough or top) / top for p in able],
        policy=None if own.needed.never else own.needed.least / top,
        policy_text=workers(own),
        y=ticks,
        never="" if first is None else _box(_edge(points, first)),
    )


def _utility(found: Frontier) -> Panel:
    points, own = found.points, found.policy
    solved = [p for p in points if p.utility is not None]
    said = "none" if own.utility is None else percent(own.utility)
    last = (solved or [own])[-1].utility
    return _panel(
        f"Utility with {found.adversaries} worker" + "s" * (found.adversaries != 1),
        f"The policy leaves {said} of the utility without limits; the strictest limit "
        f"{'none' if last is None else percent(last)}.",
        [(_x(p), float(p.utility or 0)) for p in solved],
        [float(p.bound or 0) for p in solved],
        policy=None if own.utility is None else float(own.utility),
        policy_text=said,
        y=[Tick(_y(i / 4), percent(i / 4)) for i in range(5)],
    )


def _disclosure(found: Frontier) -> Panel:
    solved, own = [p for p in found.points if p.f is not None], found.policy.f
    known = "" if own is None else f"{float(own):.2g}"
    return _panel(
        "Worst disclosure f",
        "The most that any worker learns of one sensitive set, never above the limit"
        + (f"; {known} under the policy." if known else "."),
        [(_x(p), float(p.f or 0)) for p in solved],
        [float(p.f or 0) for p in solved],
        policy=None if own is None else float(own),
        policy_text=known,
        y=[Tick(_y(i / 4), f"{i / 4:g}") for i in range(5)],
        limit=f"M{_LEFT} {_TOP}L{_RIGHT} {_BOTTOM}",
    )


def _panel(
    title: str,
    summary: str,
    found: Sequence[Corner],
    proven: Sequence[float],
    *,
    policy: float | None,
    policy_text: str,
    y: Sequence[Tick],
    never: str = "",
    limit: str = "",
) -> Panel:
    """Place what was found, as (x, share of the height), and what is proven."""
    dots = [(round(x, 1), _y(share)) for x, share in found]
    gaps = [
        f"M{x} {y}V{_y(bound)}"
        for (x, y), bound in zip(dots, proven, strict=True)
        if abs(_y(bound) - y) > _VISIBLE
    ]
    return Panel(
        title=title,
        summary=summary,
        line="M" + "L".join(f"{x} {y}" for x, y in dots) if dots else "",
        dots=dots,
        band="".join(gaps),
        never=never,
        policy=None if policy is None else _y(policy),
        policy_text=policy_text,
        x=_x_ticks(),
        y=y,
        limit=limit,
    )


def _x(point: Point) -> float:
    """Place of a limit: 1 on the left, 0 on the right."""
    return _LEFT + (_RIGHT - _LEFT) * (1 - float(point.limit or 0))


def _y(share: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * min(1.0, share), 1)


def _x_ticks() -> list[Tick]:
    return [
        Tick(_LEFT + (_RIGHT - _LEFT) * i / _TICKS, f"{1 - i / _TICKS:g}")
        for i in range(_TICKS + 1)
    ]


def _scale(highest: int) -> tuple[float, list[Tick]]:
    """Return a round end of an axis of whole numbers, and its ticks."""
    size = 10 ** max(0, len(str(ceil(highest / _TICKS))) - 1)
    step = next(n * size for n in (1, 2, 5, 10) if n * size * _TICKS >= highest)
    top = step * ceil(highest / step)
    return top, [Tick(_y(n / top), str(n)) for n in range(0, top + 1, step)]


def _edge(points: Sequence[Point], first: Point) -> float:
    at = points.index(first)
    return _LEFT if not at else _x(points[at - 1])


def _box(left: float) -> str:
    return f"M{left:.1f} {_TOP}H{_RIGHT}V{_BOTTOM}H{left:.1f}Z"
