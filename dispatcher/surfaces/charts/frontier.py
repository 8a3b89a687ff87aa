"""The trade-off between a strict policy, workers and utility as three small charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from markupsafe import Markup

from dispatcher.core.plurals import count
from dispatcher.surfaces.charts.plot import (
    AxisTick,
    Chart,
    Corner,
    Plot,
    element,
    scale,
)
from policies.discovery import dependencies
from policies.planning.frontier import Frontier, Point

WIDTH, HEIGHT = 352, 248
_PLACE: Final = {"x": 62, "y": 40, "width": 262, "height": 152}
_TICKS: Final = 4
_VISIBLE: Final = 0.003
"""Height of a gap between found and proven."""
_HIGH: Final = 0.88
"""Height above which the policy's words stand below its line."""


def percent(part: Fraction | float) -> str:
    """Write a share in percent, on one line."""
    return dependencies.percent(float(part)).replace(" ", "\u00a0")


def workers(point: Point) -> str:
    """Say how many workers are needed at a point."""
    needed = point.needed
    if needed.never:
        return "no number"
    if needed.enough is None:
        return f"{needed.least} or more"
    if needed.enough == needed.least:
        return str(needed.least)
    return f"at least {needed.least}, {needed.enough} suffice"


@dataclass(frozen=True)
class Panel:
    """One chart of the frontier: what was found at each limit, and what is proven.

    Attributes
    ----------
    key, title, summary : str
    found : sequence of (float, float)
        What was found at each limit.
    proven : sequence of float
        Height of what is proven there.
    y : sequence of AxisTick
    policy : float or None
        Height of the policy itself.
    policy_text : str
    never : float or None
        From where on no number of workers would do.
    is_limit : bool
        Whether the limit is of the same measure.
    """

    key: str
    title: str
    summary: str
    found: Sequence[Corner]
    proven: Sequence[float]
    y: Sequence[AxisTick]
    policy: float | None
    policy_text: str
    never: float | None = None
    is_limit: bool = False

    def plot(self) -> Plot:
        """Draw it."""
        plot = Plot(self.key, self.title, self.summary, kind="captioned")
        ticks = [AxisTick(i / _TICKS, f"{1 - i / _TICKS:g}") for i in range(_TICKS + 1)]
        plot.axes(self.y, ticks)
        plot.text(0.5, 0, "limit on f: loose to strict", dy=38, anchor="middle")
        if self.never is not None:
            plot.box(self.never, 1, 0, 1, "never")
            plot.text(1, 1, "no number", dx=-6, dy=16, anchor="end")
        for (x, y), bound in zip(self.found, self.proven, strict=True):
            if abs(bound - y) > _VISIBLE:
                plot.line([(x, y), (x, bound)], "gap-band")
        if self.is_limit:
            plot.line([(0, 1), (1, 0)], "bound")
            plot.text(0.94, 0.17, "limit", anchor="end")
        if self.policy is not None:
            plot.line([(0, self.policy), (1, self.policy)], "policy")
        plot.line(self.found, "line s0 faint")
        for point in self.found:
            plot.mark(point, 0)
        if self.policy is not None:
            dy = -6 if self.policy < _HIGH else 16
            text, kind = f"policy: {self.policy_text}", "policy-text"
            plot.text(1, self.policy, text, dx=-2, dy=dy, anchor="end", kind=kind)
        return plot


def frontier(found: Frontier, who: str = "worker") -> list[Chart]:
    """Draw a frontier; the numbers are one table for all, beside the charts."""
    return [
        Chart(one.key, one.title, one.summary, one.plot().svg(), (), ())
        for one in panels(found, who)
    ]


def frontier_parts(found: Frontier) -> list[Markup]:
    """Draw a frontier for a drawing that stands alone: titled parts, below each other."""
    return [
        element(
            "svg",
            element("text", one.title, class_="title", x=16, y=28),
            one.plot().svg(**_PLACE),
            y=8 + HEIGHT * row,
            width=WIDTH,
            height=HEIGHT,
        )
        for row, one in enumerate(panels(found))
    ]


def panels(found: Frontier, who: str = "worker") -> list[Panel]:
    """Return the charts of a frontier: workers, utility, and the worst disclosure.

    `who` is the word for those who are shown fields.
    """
    return [_workers(found, who), _utility(found, who), _disclosure(found, who)]


def _workers(found: Frontier, who: str) -> Panel:
    points, own = found.points, found.policy
    most = [p.needed.enough or p.needed.least for p in (*points, own)]
    top, ticks = scale(max(1, *most), whole=True)
    able = [p for p in points if not p.needed.never]
    first = next((p for p in points if p.needed.never), None)
    return Panel(
        "frontier-workers",
        f"{who.capitalize()}s needed",
        f"From {workers(points[0])} at the loosest limit to {workers(points[-1])} at "
        f"the strictest; the policy takes {workers(own)}.",
        [(_x(p), p.needed.least / top) for p in able],
        [min(1.0, (p.needed.enough or top) / top) for p in able],
        ticks,
        None if own.needed.never else own.needed.least / top,
        workers(own),
        never=None if first is None else _edge(points, first),
    )


def _utility(found: Frontier, who: str) -> Panel:
    points, own = found.points, found.policy
    solved = [p for p in points if p.utility is not None]
    said = "none" if own.utility is None else percent(own.utility)
    last = (solved or [own])[-1].utility
    return Panel(
        "frontier-utility",
        f"Utility with {count(found.adversaries, who)}",
        f"The policy leaves {said} of the utility without limits; the strictest limit "
        f"{'none' if last is None else percent(last)}.",
        [(_x(p), float(p.utility or 0)) for p in solved],
        [float(p.bound or 0) for p in solved],
        [AxisTick(i / 4, percent(i / 4)) for i in range(5)],
        None if own.utility is None else float(own.utility),
        said,
    )


def _disclosure(found: Frontier, who: str) -> Panel:
    solved, own = [p for p in found.points if p.f is not None], found.policy.f
    known = "" if own is None else f"{float(own):.2g}"
    return Panel(
        "frontier-disclosure",
        "Worst disclosure f",
        f"The most that any {who} learns of one sensitive set, never above the limit"
        + (f"; {known} under the policy." if known else "."),
        [(_x(p), float(p.f or 0)) for p in solved],
        [float(p.f or 0) for p in solved],
        [AxisTick(i / 4, f"{i / 4:g}") for i in range(5)],
        None if own is None else float(own),
        known,
        is_limit=True,
    )


def _x(point: Point) -> float:
    """Place of a limit: 1 on the left, 0 on the right."""
    return 1 - float(point.limit or 0)


def _edge(points: Sequence[Point], first: Point) -> float:
    at = points.index(first)
    return 0.0 if not at else _x(points[at - 1])
