"""A figure of an audit: the measured intervals of epsilon beside the claims."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, LINE, LEFT, RIGHT, TOP = 900, 22, 430, 60, 30
GOOD, BAD = "#2f6f9f", "#b3261e"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One attack: a lower bound on epsilon, a point estimate and the upper end of the interval."""

    label: str
    claim: float
    least: float
    near: float | None
    most: float | None

    @property
    def broken(self) -> bool:
        return self.least > self.claim


def intervals(bars: Sequence[Bar], *, title: str) -> str:
    """An SVG: a line for each interval, a tick for each claim; red where a claim is refuted."""
    widest = max((max(bar.claim, bar.least, bar.near or 0.0) for bar in bars), default=1.0)
    top = 1.15 * widest or 1.0

    def x(value: float) -> float:
        return round(LEFT + min(value, top) / top * (WIDTH - LEFT - RIGHT), 1)

    parts = []
    for number, bar in enumerate(bars):
        y = TOP + LINE * number + LINE / 2
        ink = BAD if bar.broken else GOOD
        end = bar.most if bar.most is not None else bar.least
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{html.escape(bar.label)}</text>'
        )
        parts.append(
            f'<line x1="{x(bar.least)}" x2="{x(end)}" y1="{y}" y2="{y}" stroke="{ink}" '
            'stroke-width="2"/>'
        )
        parts.append(
            f'<line x1="{x(bar.least)}" x2="{x(bar.least)}" y1="{y - 6}" y2="{y + 6}" '
            f'stroke="{ink}" stroke-width="3"/>'
        )
        if bar.near is not None:
            parts.append(f'<circle cx="{x(bar.near)}" cy="{y}" r="3" fill="{ink}"/>')
        parts.append(
            f'<line x1="{x(bar.claim)}" x2="{x(bar.claim)}" y1="{y - 9}" y2="{y + 9}" '
            f'stroke="currentColor" stroke-width="1.5" stroke-dasharray="3 2"/>'
        )
    foot = TOP + LINE * len(bars) + 18
    for tick in _ticks(top):
        parts.append(f'<text x="{x(tick)}" y="{foot}" text-anchor="middle">{tick:g}</text>')
    label = html.escape(title, quote=True)
    inside = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {foot + 12}" role="img" aria-label="{label}">\n{inside}\n</svg>'
    )


def _ticks(top: float) -> list[float]:
    step = 10 ** math.floor(math.log10(top))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if top / s <= 8)
    return [round(n * step, 10) for n in range(int(top / step) + 1)]
