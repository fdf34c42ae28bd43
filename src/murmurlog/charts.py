"""Charts as SVG, and a page that holds them: no script, nothing fetched, the same in, the same out.

Colours are close to those of Okabe and Ito, which colour-blind people can tell apart, darker or
lighter where the paper asks for it. Every line has its name at its end and a dash of its own, so
that a chart can be read in grey, too. Most charts are as wide as a phone; a page puts several side
by side where there is room.
"""

import html
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

INKS = 8  # colours there are; the next begin again
NEUTRAL = INKS  # and one that is none, for what the others are compared with
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 3", "6 2 1 2")
APART = 15  # pixels between the names of two lines
LETTER = 6.6  # pixels a letter of 12 pixels takes, about; wide ones take two
NONE_AT = 16  # pixels right of the axis: what has no place on it

LIGHT = """--ink: #1c1c1a; --quiet: #595955; --paper: #fffefb; --grid: #dedcd3; --faint: #a3a19a;
  --ink0: #0069a6; --ink1: #c85200; --ink2: #00805d; --ink3: #a8457f; --ink4: #8f6a00;
  --ink5: #2a84b8; --ink6: #6a5acd; --ink7: #7a4a2b; --ink8: #63625c;"""
DARK = """--ink: #ecebe6; --quiet: #aeada6; --paper: #171716; --grid: #3b3a37; --faint: #7d7b75;
  --ink0: #5db3e8; --ink1: #f28a3c; --ink2: #3cc49a; --ink3: #e39ac2; --ink4: #e6b93d;
  --ink5: #86cdf2; --ink6: #b0a5f5; --ink7: #cf9f7e; --ink8: #a5a39b;"""
FONTS = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", '
    '"Noto Sans Arabic", "Noto Sans Devanagari", "Noto Sans Symbols", sans-serif'
)
DRAWING = (
    """
svg text { font: 12px SANS; fill: var(--ink); }
svg .title { font-size: 14px; font-weight: 600; }
svg .quiet { fill: var(--quiet); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--quiet); stroke-width: 1; }
svg .rule { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 3 3; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .error { stroke: var(--ink); stroke-width: 1.2; opacity: 0.75; }
svg .hollow { fill: var(--paper); }
svg .pale { opacity: 0.32; }
svg .faint { stroke: var(--faint); } svg .dim { fill: var(--faint); }
""".replace("SANS", FONTS)
    + "\n".join(
        f"svg .line{n} {{ stroke: var(--ink{n}); }} svg .fill{n} {{ fill: var(--ink{n}); }}"
        for n in range(INKS + 1)
    )
)
COLOURS = (
    f":root {{ color-scheme: light dark; {LIGHT} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}\n"
)
STYLE = f"""
{COLOURS}
body {{ font: 16px/1.5 {FONTS}; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
svg {{ width: 100%; height: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.15rem 0.7rem; text-align: right; border-bottom: 1px solid var(--grid); }}
th:first-child, td:first-child {{ text-align: left; }}
{DRAWING}
"""


# --- where things are -----------------------------------------------------------------------------


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
        # Rounded, so that the last bit of a machine's logarithm never moves a point.
        return round((at - low) / (high - low), 9)


def linear(most: float, least: float = 0.0) -> Axis:
    """From 0, or a round number below it, to a round number that is at least `most`."""
    reach = max(most, -least)
    step = 10.0 ** math.floor(math.log10(reach)) if reach > 0 else 0.1
    step *= next((f for f in (0.2, 0.5, 1.0) if reach <= 6 * f * step), 2.0)
    first = -math.ceil(-least / step - 1e-9) if least < 0 else 0
    last = max(0 if first else 1, math.ceil(most / step - 1e-9))
    ticks = tuple(n * step for n in range(first, last + 1))
    return Axis(low=first * step, high=last * step, ticks=ticks)


def decades(least: float, most: float) -> Axis:
    """A logarithmic axis from a power of ten to a power of ten."""
    first = math.floor(math.log10(least) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(most) - 1e-9))
    ticks = tuple(10.0**n for n in range(first, last + 1))
    return Axis(low=ticks[0], high=ticks[-1], ticks=ticks, log=True)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The size of a chart and the room around its plot."""

    width: int
    height: float
    left: int
    right: int
    top: int
    bottom: int

    @property
    def end(self) -> int:
        """Where the plot ends on the right."""
        return self.width - self.right

    @property
    def foot(self) -> float:
        """Where it ends below."""
        return self.height - self.bottom

    def x(self, axis: Axis, value: float) -> float:
        return round(self.left + axis.share(value) * (self.end - self.left), 1)

    def y(self, axis: Axis, value: float) -> float:
        return round(self.foot - axis.share(value) * (self.foot - self.top), 1)


WIDE = Frame(width=720, height=380, left=70, right=150, top=40, bottom=48)
COLUMN = Frame(width=400, height=260, left=46, right=112, top=34, bottom=44)
SQUARE = Frame(width=400, height=276, left=50, right=24, top=34, bottom=44)


# --- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value without a line; `x` is None where it has no place on the axis."""

    x: float | None
    y: float
    ink: int
    low: float | None = None
    high: float | None = None


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x_label: str,
    percent: bool,
    log: bool = True,
    dots: Mapping[str, Dot] | None = None,
    inks: Mapping[str, int] | None = None,
    none: str = "none",
    frame: Frame = WIDE,
) -> str:
    """An SVG of one line for each name, and of dots, over a logarithmic or linear x axis.

    Dots without an x stand beside the plot, over the word `none`.
    """
    dots, inks = dots or {}, inks or {}
    points = [point for line in series.values() for point in line]
    xs = [x for x, _ in points] + [dot.x for dot in dots.values() if dot.x is not None]
    ys = [y for _, y in points]
    ys += [y for d in dots.values() for y in (d.y, d.low, d.high) if y is not None]
    if not ys:
        raise ValueError("there is nothing to draw")
    x_axis = _places(xs or [1.0], log=log)
    y_axis = linear(max(ys), min(ys))
    parts = [*_title(title, frame), *_rungs(y_axis, frame, percent=percent)]
    parts += _feet(x_axis, frame, x_label)
    names = {name: frame.y(y_axis, line[-1][1]) for name, line in series.items()}
    names |= {name: frame.y(y_axis, dot.y) for name, dot in dots.items()}
    if any(dot.x is None for dot in dots.values()):
        parts.append(_text(frame.end + NONE_AT, frame.foot + 18, none, "quiet middle"))
    for n, (name, line) in enumerate(series.items()):
        ink = _ink(inks.get(name, n))
        path = " ".join(f"{frame.x(x_axis, x)},{frame.y(y_axis, y)}" for x, y in line)
        parts.append(
            f'<polyline class="line{ink}" points="{path}" '
            f'stroke-dasharray="{DASHES[ink % len(DASHES)]}"/>'
        )
        parts += [
            f'<circle class="fill{ink}" cx="{frame.x(x_axis, x)}" cy="{frame.y(y_axis, y)}" r="3"/>'
            for x, y in line
        ]
    for dot in dots.values():
        x = frame.end + NONE_AT if dot.x is None else frame.x(x_axis, dot.x)
        parts += _upright(x, dot.low, dot.high, y_axis, frame)
        parts.append(
            f'<circle class="line{_ink(dot.ink)} hollow" cx="{x}" cy="{frame.y(y_axis, dot.y)}" '
            f'r="4.5" stroke-width="2"/>'
        )
    at = frame.end + (NONE_AT + 12 if any(dot.x is None for dot in dots.values()) else 10)
    ends = _spread(list(names.values()), frame.foot)
    for n, (name, end) in enumerate(zip(names, ends, strict=True)):
        shown = clipped(name, frame.width - at)
        ink = _ink(dots[name].ink if name in dots else inks.get(name, n))
        parts.append(_text(at, end + 4, shown, "" if frame is WIDE else f"fill{ink}"))
    return _svg(parts, title, frame)


def _places(xs: Sequence[float], *, log: bool) -> Axis:
    places = sorted(set(xs))
    if not log:
        return linear(places[-1])
    low, high = places[0], places[-1]
    if low == high:
        low, high = low / 2, high * 2
    return Axis(low=low, high=high, ticks=tuple(places), log=True)


def _spread(heights: Sequence[float], foot: float) -> list[float]:
    """The heights moved apart where names would overlap, in the same order."""
    order = sorted(range(len(heights)), key=lambda n: heights[n])
    moved = [heights[n] for n in order]
    for place in range(1, len(moved)):
        moved[place] = max(moved[place], moved[place - 1] + APART)
    # Those that went below the plot go up again, and push the ones above them.
    floor = float(foot)
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], floor)
        floor = moved[place] - APART
    found = [0.0] * len(heights)
    for n, height in zip(order, moved, strict=True):
        found[n] = round(height, 1)
    return found


# --- ranks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of a rank-frequency picture; `shown` ones are in colour, the others grey."""

    rank: float
    count: float
    shown: bool = True
    low: float | None = None
    high: float | None = None


def ranks(
    marks: Sequence[Mark],
    *,
    title: str,
    x_label: str,
    ink: int = 0,
    within: tuple[float, float] | None = None,
    rule: tuple[float, str] | None = None,
    curve: bool = False,
    frame: Frame = SQUARE,
) -> str:
    """Counts over their rank, both logarithmic. `within`: the last rank and the highest count, for
    pictures that are to be compared; `rule`: a height with words; `curve`: a thin line through all.
    """
    if not marks:
        raise ValueError("there is nothing to draw")
    last, most = within or (max(m.rank for m in marks), max(m.count for m in marks))
    x_axis, y_axis = decades(1, max(10.0, last)), decades(1, max(10.0, most))
    parts = [*_title(title, frame), *_rungs(y_axis, frame, percent=False)]
    parts += _feet(x_axis, frame, x_label)
    if rule is not None and 1 <= rule[0] <= y_axis.high:
        y = frame.y(y_axis, rule[0])
        parts.append(f'<line class="rule" x1="{frame.left}" x2="{frame.end}" y1="{y}" y2="{y}"/>')
        parts.append(_text(frame.end, y - 5, rule[1], "quiet end"))
    placed = [(m, frame.x(x_axis, m.rank), frame.y(y_axis, max(1.0, m.count))) for m in marks]
    if curve:
        path = " ".join(f"{x},{y}" for _, x, y in placed)
        parts.append(f'<polyline class="faint" points="{path}" stroke-width="1"/>')
    for mark, x, _ in placed:
        if mark.low is not None and mark.high is not None:
            low, high = (frame.y(y_axis, max(1.0, v)) for v in (mark.low, mark.high))
            shade = f"line{_ink(ink)}" if mark.shown else "faint"
            parts.append(
                f'<line class="{shade} pale" x1="{x}" x2="{x}" y1="{low}" y2="{high}" '
                f'stroke-width="3"/>'
            )
    # Grey ones first: what is shown lies on top.
    for mark, x, y in sorted(placed, key=lambda each: each[0].shown):
        shade, r = (f"fill{_ink(ink)}", 2.6) if mark.shown else ("dim", 2)
        parts.append(f'<circle class="{shade}" cx="{x}" cy="{y}" r="{r}"/>')
    return _svg(parts, title, frame)


# --- bars -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A value with its interval, by name. `pale` ones are drawn lighter and thinner."""

    name: str
    value: float
    ink: int
    low: float | None = None
    high: float | None = None
    pale: bool = False


BARS = Frame(width=400, height=0, left=128, right=58, top=34, bottom=30)  # as high as it needs
THICK, THIN, GAP = 13, 7, 9


def bars(rows: Sequence[Bar], *, title: str, percent: bool, frame: Frame = BARS) -> str:
    """Horizontal bars. Rows of the same name one after another share a place and the name."""
    if not rows:
        raise ValueError("there is nothing to draw")
    ends = [v for b in rows for v in (b.value, b.low, b.high) if v is not None]
    axis = linear(max(0.0, *ends), min(0.0, *ends))
    parts, y = list[str](), float(frame.top)
    for n, bar in enumerate(rows):
        new = n == 0 or rows[n - 1].name != bar.name
        y += GAP if new and n else 2 if n else 0
        tall = THIN if bar.pale else THICK
        zero, end = frame.x(axis, 0.0), frame.x(axis, bar.value)
        pale = " pale" if bar.pale else ""
        parts.append(
            f'<rect class="fill{_ink(bar.ink)}{pale}" x="{min(zero, end)}" y="{y}" '
            f'width="{abs(end - zero):.1f}" height="{tall}"/>'
        )
        if bar.low is not None and bar.high is not None:
            parts += _level(y + tall / 2, bar.low, bar.high, axis, frame)
        if new:
            shown = clipped(bar.name, frame.left - 10)
            parts.append(_text(frame.left - 8, y + tall / 2 + 4, shown, "end"))
        figure = number(bar.value, percent=percent)
        parts.append(
            _text(frame.width, y + tall / 2 + 4, figure, "end quiet" if bar.pale else "end")
        )
        y += tall
    return _lying(parts, axis, y, title, percent=percent, frame=frame)


def waterfall(
    steps: Sequence[tuple[str, float]], *, title: str, total: tuple[str, float] | None = None
) -> str:
    """Each step from where the one before ended; then their sum, then what they come to."""
    if not steps:
        raise ValueError("there is nothing to draw")
    frame, whole = BARS, math.fsum(value for _, value in steps)
    axis = linear(max(whole, total[1] if total else 0.0))
    rows, at = list[tuple[str, float, float, str]](), 0.0
    for name, value in steps:
        rows.append((name, at, at + value, "fill5"))
        at += value
    if len(steps) > 1:
        rows.append(("sum", 0.0, whole, "dim"))
    if total is not None:
        rows.append((total[0], 0.0, total[1], "fill0"))
    parts, y, before = list[str](), float(frame.top), 0.0
    for n, (name, low, high, shade) in enumerate(rows):
        left, right = frame.x(axis, low), frame.x(axis, high)
        parts.append(
            f'<rect class="{shade}" x="{left}" y="{y}" width="{max(1.0, right - left):.1f}" '
            f'height="{THICK}"/>'
        )
        if n and shade == "fill5":
            parts.append(
                f'<line class="axis" x1="{before}" x2="{before}" y1="{y - GAP - 1}" y2="{y}"/>'
            )
        parts.append(_text(frame.left - 8, y + 11, clipped(name, frame.left - 10), "end"))
        parts.append(_text(frame.width, y + 11, f"{high - low:.3g}", "end"))
        before = right
        y += THICK + GAP
    return _lying(parts, axis, y - GAP, title, percent=False, frame=frame)


def _lying(
    parts: list[str], axis: Axis, foot: float, title: str, *, percent: bool, frame: Frame
) -> str:
    """Bars with their title and grid; the chart is as high as they need."""
    grid, spare = list[str](), math.inf
    for tick in axis.ticks:
        x = frame.x(axis, tick)
        kind = "axis" if tick == 0 else "grid"
        grid.append(
            f'<line class="{kind}" x1="{x}" x2="{x}" y1="{frame.top - 5}" y2="{foot + 5}"/>'
        )
        if spare >= 34:
            grid.append(_text(x, foot + 19, _tick(tick, axis, percent), "quiet middle"))
            spare = 0.0
        spare += (frame.end - frame.left) / max(1, len(axis.ticks) - 1)
    sized = replace(frame, height=foot + frame.bottom)
    return _svg([*_title(title, sized, at=0), *grid, *parts], title, sized)


def _level(y: float, low: float, high: float, axis: Axis, frame: Frame) -> list[str]:
    """An interval across a bar."""
    a, b = frame.x(axis, low), frame.x(axis, high)
    return [
        f'<line class="error" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>',
        *(f'<line class="error" x1="{x}" x2="{x}" y1="{y - 3}" y2="{y + 3}"/>' for x in (a, b)),
    ]


def _upright(
    x: float, low: float | None, high: float | None, axis: Axis, frame: Frame
) -> list[str]:
    """An interval above and below a dot."""
    if low is None or high is None:
        return []
    a, b = frame.y(axis, low), frame.y(axis, high)
    return [f'<line class="error" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>']


# --- what all of them have ------------------------------------------------------------------------


def _ink(n: int) -> int:
    return n if n == NEUTRAL else n % INKS


def _title(title: str, frame: Frame, at: int | None = None) -> list[str]:
    if not title:
        return []
    shown = clipped(title, round(0.85 * (frame.width - (frame.left if at is None else at))))
    return [_text(frame.left if at is None else at, 18, shown, "title")]


def _rungs(axis: Axis, frame: Frame, *, percent: bool) -> list[str]:
    """The grid of a vertical axis."""
    parts = []
    for tick in axis.ticks:
        y = frame.y(axis, tick)
        kind = "axis" if tick == axis.low else "grid"
        parts.append(f'<line class="{kind}" x1="{frame.left}" x2="{frame.end}" y1="{y}" y2="{y}"/>')
        parts.append(_text(frame.left - 8, y + 4, _tick(tick, axis, percent), "quiet end"))
    return parts


def _feet(axis: Axis, frame: Frame, label: str) -> list[str]:
    """The ticks of a horizontal axis, those that have room, and what it is."""
    parts, before = list[str](), -math.inf
    for tick in axis.ticks:
        x, text = frame.x(axis, tick), _tick(tick, axis, False)
        if x - before >= 8 + LETTER * len(text):
            parts.append(_text(x, frame.foot + 18, text, "quiet middle"))
            before = x
    middle = (frame.left + frame.end) / 2
    parts.append(_text(middle, frame.height - 6, label, "quiet middle"))
    return parts


def _tick(value: float, axis: Axis, percent: bool) -> str:
    if percent:
        fine = max(abs(axis.low), abs(axis.high)) < 0.05
        return f"{value:.1%}" if fine else f"{value:.0%}"
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:g} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def number(value: float, *, percent: bool = False) -> str:
    """A value in few characters."""
    if math.isnan(value):
        return "–"
    if percent:
        return f"{value:.1%}" if abs(value) >= 0.0005 or value == 0 else f"{value:.2%}"
    if value == 0 or 0.001 <= abs(value) < 10:
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def clipped(text: str, room: float) -> str:
    """As much of a text as fits into so many pixels."""
    if sum(map(_width, text)) <= room:
        return text
    kept, taken = "", _width("…")
    for letter in text:
        taken += _width(letter)
        if taken > room:
            break
        kept += letter
    return kept.rstrip() + "…"


def _width(letter: str) -> float:
    return 2 * LETTER if unicodedata.east_asian_width(letter) in "WF" else LETTER


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text{shown} x="{x}" y="{y:.1f}">{html.escape(text)}</text>'


def _svg(parts: Sequence[str], title: str, frame: Frame) -> str:
    label, inside = html.escape(title, quote=True), "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{label}">\n'
        f"{inside}\n</svg>"
    )


def alone(svg: str) -> str:
    """The chart as a file of its own, with its colours and letters."""
    style = f"<style>{COLOURS}\nsvg {{ background: var(--paper); }}\n{DRAWING}</style>"
    head, _, rest = svg.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">\n{style}{rest}\n'


# --- a page ---------------------------------------------------------------------------------------


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
