"""Line charts as SVG, and a page that holds them: one file, no script, nothing fetched.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; every line has its name
at its end and a dash of its own, so that the chart can be read in grey, too.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 48
INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 4")
APART = 15  # pixels between the names of two lines

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --grid: #dddddd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #161616; --grid: #3a3a3a; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
svg .title { font-size: 15px; font-weight: 600; }
svg .grid { stroke: var(--grid); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.7rem; text-align: right; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; }
"""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of values and the ticks in it; `log` for a logarithmic one."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        low, high, at = (self.low, self.high, value)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(at, self.low))
        return (at - low) / (high - low)


def linear(most: float) -> Axis:
    """From 0 to a round number that is at least `most`."""
    step = 10.0 ** math.floor(math.log10(most)) if most > 0 else 0.1
    step *= next((f for f in (0.2, 0.5, 1.0) if most <= 6 * f * step), 2.0)
    count = max(1, math.ceil(most / step - 1e-9))
    return Axis(low=0.0, high=count * step, ticks=tuple(n * step for n in range(count + 1)))


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], *, title: str, x_label: str, percent: bool
) -> str:
    """An SVG of one line for each name, over a logarithmic x axis."""
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("there is nothing to draw")
    places = sorted({x for x, _ in points})
    x_axis = Axis(low=places[0], high=places[-1], ticks=tuple(places), log=True)
    y_axis = linear(max(y for _, y in points))
    parts = [f'<text class="title" x="{LEFT}" y="20">{html.escape(title)}</text>']
    for tick in y_axis.ticks:
        y = _y(y_axis, tick)
        text = f"{tick:.0%}" if percent else f"{tick:,.0f}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for tick in x_axis.ticks:
        x = _x(x_axis, tick)
        parts.append(
            f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(x_label)}</text>'
    )
    ends = _spread([_y(y_axis, line[-1][1]) for line in series.values()])
    for (name, line), end, n in zip(series.items(), ends, range(len(series)), strict=True):
        ink, dash = INKS[n % len(INKS)], DASHES[n % len(DASHES)]
        path = " ".join(f"{_x(x_axis, x)},{_y(y_axis, y)}" for x, y in line)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts += [
            f'<circle cx="{_x(x_axis, x)}" cy="{_y(y_axis, y)}" r="3" fill="{ink}"/>'
            for x, y in line
        ]
        at = WIDTH - RIGHT + 10
        parts.append(f'<text x="{at}" y="{end + 4:.1f}">{html.escape(name)}</text>')
    label = html.escape(title, quote=True)
    inside = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n{inside}\n</svg>'


def _x(axis: Axis, value: float) -> float:
    return round(LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    return round(HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM), 1)


def _spread(heights: Sequence[float]) -> list[float]:
    """The heights moved apart where names would overlap, in the same order."""
    order = sorted(range(len(heights)), key=lambda n: heights[n])
    moved = [heights[n] for n in order]
    for place in range(1, len(moved)):
        moved[place] = max(moved[place], moved[place - 1] + APART)
    over = max(0.0, moved[-1] - (HEIGHT - BOTTOM)) if moved else 0.0
    found = [0.0] * len(heights)
    for n, height in zip(order, moved, strict=True):
        found[n] = height - over
    return found


def page(*, title: str, words: Sequence[str], charts: Sequence[str], table: str = "") -> str:
    """An HTML page with paragraphs, then charts, then a table."""
    paragraphs = "\n".join(f"<p>{html.escape(text)}</p>" for text in words)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{paragraphs}\n" + "\n".join(charts) + f"\n{table}\n"
        "</body>\n</html>\n"
    )


def rows_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table."""
    cells = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
    cells += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>\n" + "\n".join(f"<tr>{row}</tr>" for row in cells) + "\n</table>"
