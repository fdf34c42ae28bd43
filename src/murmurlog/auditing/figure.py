"""A figure of an audit: the measured intervals of epsilon beside the claims."""

import html
import math
from collections.abc import Sequence

from murmurlog.auditing.measurement import Measurement

WIDTH, LINE, LEFT, RIGHT, TOP = 900, 22, 430, 60, 30
GOOD, BAD = "#2f6f9f", "#b3261e"


def draw_intervals(measurements: Sequence[Measurement], *, title: str) -> str:
    """An SVG: a line for each interval, a tick for each claim; red where a claim is refuted."""
    widest = max((max(m.claim, m.least, m.near or 0.0) for m in measurements), default=1.0)
    top = 1.15 * widest or 1.0

    def x(value: float) -> float:
        return round(LEFT + min(value, top) / top * (WIDTH - LEFT - RIGHT), 1)

    parts = []
    for number, m in enumerate(measurements):
        y = TOP + LINE * number + LINE / 2
        ink = BAD if m.violates else GOOD
        end = m.most if m.most is not None else m.least
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{html.escape(_label(m))}</text>'
        )
        parts.append(
            f'<line x1="{x(m.least)}" x2="{x(end)}" y1="{y}" y2="{y}" stroke="{ink}" '
            'stroke-width="2"/>'
        )
        parts.append(
            f'<line x1="{x(m.least)}" x2="{x(m.least)}" y1="{y - 6}" y2="{y + 6}" '
            f'stroke="{ink}" stroke-width="3"/>'
        )
        if m.near is not None:
            parts.append(f'<circle cx="{x(m.near)}" cy="{y}" r="3" fill="{ink}"/>')
        parts.append(
            f'<line x1="{x(m.claim)}" x2="{x(m.claim)}" y1="{y - 9}" y2="{y + 9}" '
            f'stroke="currentColor" stroke-width="1.5" stroke-dasharray="3 2"/>'
        )
    foot = TOP + LINE * len(measurements) + 18
    for tick in _ticks(top):
        parts.append(f'<text x="{x(tick)}" y="{foot}" text-anchor="middle">{tick:g}</text>')
    label = html.escape(title, quote=True)
    inside = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {foot + 12}" role="img" aria-label="{label}">\n{inside}\n</svg>'
    )


def _label(m: Measurement) -> str:
    """What fits beside the figure of the name of an attack: its end, which says most."""
    text = f"{m.setting}: {m.pair}, {m.method}"
    return text if len(text) <= 70 else f"…{text[-69:]}"


def _ticks(top: float) -> list[float]:
    step = 10 ** math.floor(math.log10(top))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if top / s <= 8)
    return [round(n * step, 10) for n in range(int(top / step) + 1)]
