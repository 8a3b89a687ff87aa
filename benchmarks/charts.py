"""Line charts as SVG text: a few series over one axis, nothing to install."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 40, 52
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#000000")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "12 4", "")


@dataclass(frozen=True)
class Series:
    """One line: a name, its points by x, and the number of its colour."""

    name: str
    points: tuple[tuple[float, float], ...]
    tint: int = 0


def chart(
    title: str, x: str, y: str, series: list[Series], *, zero: bool = True
) -> str:
    """One chart as an SVG document.

    Parameters
    ----------
    title, x, y : str
    series : list of Series
    zero : bool
        Whether the y axis begins at 0.
    """
    xs = sorted({px for s in series for px, _ in s.points})
    ys = [py for s in series for _, py in s.points]
    low, high = (0.0 if zero else min(ys)), max([*ys, 1e-9])
    ticks = _ticks(low, high)
    low, high = ticks[0], ticks[-1]
    span = max(xs[-1] - xs[0], 1e-9)

    def at(px: float, py: float) -> tuple[float, float]:
        across = (px - xs[0]) / span * (WIDTH - LEFT - RIGHT)
        up = (py - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return LEFT + across, HEIGHT - BOTTOM - up

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for tick in ticks:
        _, ty = at(xs[0], tick)
        out.append(
            f'<path d="M{LEFT} {ty:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 8}" y="{ty + 4:.1f}" text-anchor="end">{tick:.4g}</text>'
        )
    shown = xs if len(xs) <= 8 else xs[::4]
    for px in shown:
        tx, _ = at(px, low)
        out.append(
            f'<text x="{tx:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{px:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x)}</text>'
    )
    half = (TOP + HEIGHT - BOTTOM) / 2
    out.append(
        f'<text transform="translate(16 {half})rotate(-90)" text-anchor="middle">{escape(y)}</text>'
    )
    for i, one in enumerate(series):
        colour, dash = COLOURS[one.tint % len(COLOURS)], DASHES[one.tint % len(DASHES)]
        places = [at(px, py) for px, py in sorted(one.points)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        out.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        if len(places) <= 8:
            out += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>'
                for a, b in places
            ]
        ly = TOP + 10 + 20 * i
        lx = WIDTH - RIGHT + 14
        out.append(
            f'<path d="M{lx} {ly}h22" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/><text x="{lx + 28}" y="{ly + 4}">{escape(one.name)}</text>'
        )
    return "\n".join([*out, "</svg>", ""])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that span the range, seven at most."""
    size = max(high - low, 1e-9)
    tens = 10.0 ** math.floor(math.log10(size / 6))
    step = next(m * tens for m in (1, 2, 2.5, 5, 10, 20) if size / (m * tens) <= 6)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [i * step for i in range(first, last + 1)]
