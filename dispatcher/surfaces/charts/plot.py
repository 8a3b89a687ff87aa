"""Shapes of charts as SVG that a page includes: no script, no style in it, any width.

Places are shares of the plot's width and height and become percentages, so a chart
fills its page and its text keeps its size; what has to be a path lies in a box that is
stretched. Colours are classes of ``plot.css``, and each has a pattern or a mark of its
own. The chart libraries that draw on a server (pygal, matplotlib) write styles and
scripts into each drawing, which our Content-Security-Policy refuses, and scale the text
with the chart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Final

from markupsafe import Markup, escape

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

SERIES: Final = 6
"""Series that look different from one another."""
LABEL: Final = 24
"""Letters of a label in a drawing; the table has it whole."""
_YEAR: Final = 364 * DAY
_TICKS: Final = 4
_LEAST, _MOST = 1e-9, 1e100
_STEPS: Final = (
    *(MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR * n for n in (1, 2, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 28, 91, 182, 364, 728, 1820, 3640)),
)
_NOT_XML: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MARKS: Final = (
    "M-3.5 0A3.5 3.5 0 1 0 3.5 0A3.5 3.5 0 1 0-3.5 0Z",
    "M-3-3H3V3H-3Z",
    "M0-4L4 3H-4Z",
    "M0-4.5L4.5 0L0 4.5L-4.5 0Z",
    "M-4-3H4L0 4Z",
    "M-4-1.5H-1.5V-4H1.5V-1.5H4V1.5H1.5V4H-1.5V1.5H-4Z",
)

Corner = tuple[float, float]
"""A place: share of the width from the left, share of the height from below."""


@dataclass(frozen=True)
class AxisTick:
    """A mark on an axis: its place as a share, its text, and whether it may be left out."""

    at: float
    text: str
    minor: bool = False


def literal(text: str) -> str:
    """Return a text with a sign in place of each character that XML cannot have."""
    return _NOT_XML.sub("\ufffd", text)


def cut(text: str, most: int = LABEL) -> str:
    """Shorten a label."""
    clean = literal(text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def element(name: str, *content: str, **attributes: object) -> Markup:
    """Write an element: what is no markup is escaped, ``_`` is ``-``, None is left out."""
    given = Markup("").join(
        Markup(' {}="{}"').format(key.strip("_").replace("_", "-"), _value(value))
        for key, value in attributes.items()
        if value is not None
    )
    if not content:
        return Markup("<{}{}/>").format(name, given)
    inner = Markup("").join(
        part if isinstance(part, Markup) else escape(literal(part)) for part in content
    )
    return Markup("<{}{}>{}</{}>").format(name, given, inner, name)


def _value(value: object) -> object:
    return literal(value) if isinstance(value, str) else value


def length(share: float) -> str:
    """Write a share as a length of SVG, in percent."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def scale(highest: float, *, whole: bool = False) -> tuple[float, list[AxisTick]]:
    """Return a round end of an axis that begins at 0, and its ticks."""
    top = highest if _LEAST < highest < _MOST else 1.0
    size = 10.0 ** floor(log10(top / _TICKS))
    step = next(n * size for n in (1, 2, 5, 10) if n * size * _TICKS >= top * 0.9999)
    step = max(1.0, step) if whole else step
    steps = max(1, ceil(top / step - 1e-9))
    return steps * step, [
        AxisTick(i / steps, number(i * step)) for i in range(steps + 1)
    ]


def number(value: float) -> str:
    """Write a number of an axis in few letters: 1,500, 25k, 0.5."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):,.4g}{unit}"
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def time_ticks(since: int, until: int) -> list[AxisTick]:
    """Return ticks at round moments (UTC) between two, as shares of the time between."""
    span = max(1, until - since)
    step = next((s for s in _STEPS if span / s <= 2 * _TICKS), _STEPS[-1])
    found = []
    for at in range(since + -since % step, until + 1, step):
        when = datetime.fromtimestamp(at // SECOND, UTC)
        midnight = at % DAY == 0
        text = f"{when.day} {when:%b}" if midnight else f"{when:%H:%M}"
        text = f"{when:%b %Y}" if step >= _YEAR else text
        found.append(AxisTick((at - since) / span, text, minor=bool(at // step % 2)))
    return found


class Plot:
    """A drawing with axes that shapes are added to, from the back to the front.

    Parameters
    ----------
    key : str
        Name of the drawing, unique on its page.
    title, summary : str
        What a screen reader says of it.
    kind : str
        Classes besides ``plot``.
    height : int or None
        Pixels; None: as the style sheet has it.
    """

    def __init__(
        self,
        key: str,
        title: str,
        summary: str,
        *,
        kind: str = "",
        height: int | None = None,
    ) -> None:
        self._key = key
        self._title, self._summary = title, summary
        self._kind, self._height = kind, height
        self._shapes: list[Markup] = []
        self._patterns: set[int] = set()

    def add(self, shape: Markup) -> None:
        """Add a shape of one's own."""
        self._shapes.append(shape)

    def axes(self, y: Iterable[AxisTick], x: Iterable[AxisTick]) -> None:
        """Draw lines at the ticks of the height, and the text of all."""
        for tick in y:
            at = length(1 - tick.at)
            self.add(element("line", class_="grid", x2="100%", y1=at, y2=at))
            self.text(0, tick.at, tick.text, dx=-8, dy=4, anchor="end")
        for tick in x:
            kind = "tick minor" if tick.minor else "tick"
            self.text(tick.at, 0, tick.text, dy=18, anchor="middle", kind=kind)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        dx: float = 0,
        dy: float = 0,
        anchor: str = "start",
        kind: str = "tick",
    ) -> None:
        """Write a text at a place."""
        given = {"dx": dx or None, "dy": dy or None}
        at = {"x": length(x), "y": length(1 - y)}
        self.add(element("text", text, class_=kind, text_anchor=anchor, **at, **given))

    def fill(self, series: int) -> str:
        """Return the fill of a series, and see to its pattern."""
        self._patterns.add(series % SERIES)
        return f"url(#{self._key}-{series % SERIES})"

    def box(
        self, left: float, right: float, low: float, high: float, fill: str
    ) -> None:
        """Fill a rectangle; ``fill`` is one of :meth:`fill`, or a class."""
        painted = {"fill": fill} if fill.startswith("url(") else {"class": fill}
        self.add(
            element(
                "rect",
                x=length(left),
                y=length(1 - high),
                width=length(right - left),
                height=length(high - low),
                **painted,
            )
        )

    def line(self, points: Sequence[Corner], kind: str) -> None:
        """Join points."""
        self.path("M" + "L".join(_place(p) for p in points) if points else "", kind)

    def area(self, points: Sequence[Corner], kind: str) -> None:
        """Fill a polygon."""
        self.path("M" + "L".join(_place(p) for p in points) + "Z", kind)

    def path(self, d: str, kind: str) -> None:
        """Draw a path in thousandths of the width and height, stretched to the plot."""
        drawn = element("path", class_=kind, d=d, vector_effect="non-scaling-stroke")
        box = {
            "viewBox": "0 0 1000 1000",
            "preserveAspectRatio": "none",
            "role": "none",
        }
        self.add(element("svg", drawn, width="100%", height="100%", **box))

    def mark(self, point: Corner, series: int) -> None:
        """Draw the mark of a series at a point."""
        self.add(
            element(
                "svg",
                element(
                    "path", class_=f"mark s{series % SERIES}", d=_MARKS[series % SERIES]
                ),
                x=length(point[0]),
                y=length(1 - point[1]),
                class_="over",
                role="none",
            )
        )

    def svg(self, **place: float) -> Markup:
        """Return the drawing, or the part at a place of one that stands alone."""
        shapes = [*([self._defs()] if self._patterns else []), *self._shapes]
        if place:
            return element("svg", *shapes, class_="over", **place)
        ids = {"title": f"{self._key}-title", "desc": f"{self._key}-desc"}
        return element(
            "svg",
            element("title", self._title, id=ids["title"]),
            element("desc", self._summary, id=ids["desc"]),
            *shapes,
            xmlns="http://www.w3.org/2000/svg",
            class_=f"plot {self._kind}".strip(),
            role="img",
            aria_labelledby=ids["title"],
            aria_describedby=ids["desc"],
            focusable="false",
            height=self._height,
        )

    def _defs(self) -> Markup:
        return element(
            "defs", *(pattern(f"{self._key}-{n}", n) for n in sorted(self._patterns))
        )


def _place(point: Corner) -> str:
    return f"{1000 * point[0]:.1f} {1000 * (1 - point[1]):.1f}"


def pattern(name: str, series: int) -> Markup:
    """Return the pattern of a series: its colour, and lines that differ in each."""
    gaps = (
        "",
        "M-2 8L8-2M4 12L12 4",
        "M2 2h2v2h-2zM6 6h2v2h-2z",
        "M0 2H8",
        "M2 0V8",
        "M0 0L8 8M8 0L0 8",
    )[series]
    lines = element("path", class_="gap dots" if series == 2 else "gap", d=gaps)
    return element(
        "pattern",
        element("rect", class_=f"s{series}", width=8, height=8),
        *([lines] if gaps else []),
        id=name,
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    )


def swatch(key: str, series: int, *, marked: bool = False) -> Markup:
    """Return what the legend shows of a series of a drawing."""
    size = {"width": 14, "height": 14, "aria_hidden": "true", "class_": "swatch"}
    if marked:
        centred = {"viewBox": "-7 -7 14 14"}
        drawn = element("path", class_=f"mark s{series}", d=_MARKS[series])
        return element("svg", drawn, **size, **centred)
    drawn = element("rect", width=14, height=14, rx=3, fill=f"url(#{key}-{series})")
    return element("svg", drawn, **size)


@dataclass(frozen=True)
class Chart:
    """A chart as a page includes it (``{{ chart }}``): drawing, words, and table.

    Attributes
    ----------
    key, title, summary : str
    drawing : Markup
        Empty where there is nothing to draw: then the summary says why.
    columns : sequence of str
        Heads of the table; the first is that of the rows.
    rows : sequence of sequence of str
    legend : sequence of (Markup, str)
        What stands for each series.
    words : int
        Columns of text before those of numbers.
    """

    key: str
    title: str
    summary: str
    drawing: Markup
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    legend: Sequence[tuple[Markup, str]] = ()
    words: int = 1

    def __html__(self) -> str:
        """Return the figure with its table."""
        heading = element("strong", self.title)
        parts = [element("figcaption", heading, " ", element("span", self.summary))]
        if self.drawing:
            parts.append(element("div", self.drawing, class_="drawing"))
        if self.legend:
            named = (
                element("li", shape, " ", element("bdi", name))
                for shape, name in self.legend
            )
            parts.append(element("ul", *named, class_="legend"))
        if self.rows:
            parts.append(
                element(
                    "details",
                    element("summary", "Show as table"),
                    element(
                        "div",
                        self.table(),
                        class_="scroll",
                        tabindex=0,
                        role="region",
                        aria_label=f"{self.title}, as a table",
                    ),
                    class_="twin",
                )
            )
        return element("figure", *parts, class_="chart", id=f"chart-{self.key}")

    def table(self) -> Markup:
        """Return the table alone."""
        kinds = [None if i < self.words else "n" for i in range(len(self.columns))]
        head = (
            element("th", name, scope="col", class_=kind)
            for name, kind in zip(self.columns, kinds, strict=True)
        )
        body = (
            element(
                "tr",
                element("th", row[0], scope="row"),
                *(
                    element("td", cell, class_=kind)
                    for cell, kind in zip(row[1:], kinds[1:], strict=True)
                ),
            )
            for row in self.rows
        )
        return element(
            "table",
            element("thead", element("tr", *head)),
            element("tbody", *body),
        )
