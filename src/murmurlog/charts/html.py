"""Building blocks of reports: one HTML file with its own style, no external resources, no script.

The colour scheme follows the reader's system; on a phone charts are stacked and tables scroll in
their own box. All text from a log or a certificate is escaped here.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Context

from murmurlog.charts.svg import COLOURS, DRAWING, FONTS
from murmurlog.privacy import Guarantee

SERIF = (
    '"Iowan Old Style", "Palatino Linotype", Palatino, "Source Serif 4", "Noto Serif", Georgia, '
    '"Noto Serif CJK SC", serif'
)
STYLE = """
COLOURS
:root { --rule: var(--ink); --card: #f7f5ee; --warn: #8c1d18; --warn-paper: #fbe9e7; }
@media (prefers-color-scheme: dark) {
  :root { --card: #21201e; --warn: #ffb4ab; --warn-paper: #3b1512; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; font: 16px/1.55 SANS; color: var(--ink); background: var(--paper); }
main, header, footer { max-width: 78rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 2.5rem); }
header { padding-top: 2.2rem; }
header p.kicker { margin: 0; font-size: 0.78rem; font-weight: 600; letter-spacing: 0.09em;
  text-transform: uppercase; color: var(--quiet); }
h1, h2, h3 { font-family: SERIF; line-height: 1.15; font-weight: 700; overflow-wrap: anywhere; }
h1 { font-size: clamp(1.9rem, 5vw, 3rem); margin: 0.3rem 0 0.6rem; letter-spacing: -0.01em; }
h2 { font-size: clamp(1.35rem, 3vw, 1.75rem); margin: 0 0 0.4rem; }
h3 { font: 600 1rem/1.3 SANS; margin: 1.4rem 0 0.3rem; }
p { margin: 0 0 0.8rem; max-width: 42rem; overflow-wrap: anywhere; }
p.lead { font: 1.15rem/1.5 SERIF; }
section { border-top: 2px solid var(--rule); padding: 0.9rem 0 0; margin: 2.6rem 0 0; }
small, .quiet { color: var(--quiet); }
.note { font-size: 0.88rem; color: var(--quiet); }
code { font: 0.88em ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace;
  overflow-wrap: anywhere; }
.banner { background: var(--warn-paper); color: var(--warn); border-left: 5px solid var(--warn);
  padding: 0.8rem 1rem; margin: 1.4rem 0; font-weight: 600; overflow-wrap: anywhere; }
.charts { display: grid; gap: 1.6rem 2.2rem; margin: 1.2rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); }
.charts > * { min-width: 0; max-width: 30rem; }
.columns { display: grid; gap: 0.4rem 3rem; margin: 1.2rem 0; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
.columns > * { min-width: 0; } .columns > div > :first-child { margin-top: 0; }
.tables { display: grid; gap: 0.4rem 2.6rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
.tables > * { min-width: 0; } .tables table { width: 100%; }
@media (min-width: 62rem) { .tables > .wide { grid-column: span 2; } }
.facts { list-style: none; margin: 0; padding: 0; max-width: none; }
.facts li { margin: 0; padding: 0.55rem 0; border-bottom: 1px solid var(--grid); }
.facts b { font: 700 1.9rem/1.1 SERIF; margin-right: 0.5rem; } .facts small { display: block; }
.facts + figure { margin-top: 1.4rem; }
figure { margin: 0; } figcaption { font-size: 0.85rem; color: var(--quiet); }
svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; max-width: 100%; margin: 0.6rem 0 1rem; }
.tall { max-height: 85vh; overflow-y: auto; }
.tall th { position: sticky; top: 0; background: var(--paper); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th { font-weight: 600; text-align: left; border-bottom: 1.5px solid var(--ink); }
th, td { padding: 0.28rem 1.1rem 0.28rem 0; vertical-align: top; }
td { border-bottom: 1px solid var(--grid); }
th.n, td.n { text-align: right; white-space: nowrap; }
td.key { min-width: 7rem; max-width: 26rem; overflow-wrap: anywhere; }
td.wide { min-width: 15rem; } td.n small { display: block; font-size: 0.8em; }
tr.dim td { color: var(--quiet); }
.label { border: 2px solid var(--ink); background: var(--card); max-width: 46rem;
  padding: 0.2rem 1.1rem 0.5rem; }
.label > p { font: 700 1.5rem/1.2 SERIF; margin: 0; padding: 0.5rem 0; max-width: none;
  border-bottom: 8px solid var(--ink); }
.label dl > div { display: grid; grid-template-columns: 9.5rem 1fr; gap: 0.1rem 1rem;
  padding: 0.45rem 0; border-bottom: 1px solid var(--grid); }
.label dl > div:last-child { border-bottom: 0; }
.label dl { margin: 0; }
.label dt { font-weight: 600; } .label dd { margin: 0; overflow-wrap: anywhere; }
.label dd b { font: 700 1.3rem/1.25 SERIF; display: block; }
details { margin: 0.5rem 0; } summary { cursor: pointer; font-weight: 600; padding: 0.25rem 0; }
ul { padding-left: 1.2rem; max-width: 42rem; } li { margin: 0.25rem 0; overflow-wrap: anywhere; }
footer { padding-top: 1rem; padding-bottom: 3rem; margin-top: 3rem; font-size: 0.85rem;
  color: var(--quiet); overflow-wrap: anywhere; }
a { color: inherit; }
@media (max-width: 34rem) {
  td.wide { min-width: 9rem; }
  .label dl > div { grid-template-columns: 1fr; }
  section { margin-top: 2rem; }
}
@media print { details > * { display: block; } section { break-inside: avoid; } }
"""
CSS = STYLE.replace("COLOURS", COLOURS).replace("SANS", FONTS).replace("SERIF", SERIF) + DRAWING
MOST_LETTERS = 160  # of a text in a cell
TALL = 40  # rows: longer tables scroll under their head


def printed(
    *,
    title: str,
    kicker: str,
    lead: str,
    parts: Iterable[str],
    foot: str = "",
    marks: Mapping[str, str] | None = None,
    style: str = "",
) -> str:
    """The whole file: title, sections, footer. `marks` become metadata for programs, `style` is CSS."""
    meta = "".join(
        f'<meta name="{escape(name)}" content="{escape(text)}">\n'
        for name, text in (marks or {}).items()
    )
    inside = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"{meta}"
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}{style}</style>\n</head>\n<body>\n"
        f'<header>\n<p class="kicker">{escape(kicker)}</p>\n<h1>{escape(title)}</h1>\n'
        f'<p class="lead">{escape(lead)}</p>\n</header>\n'
        f"<main>\n{inside}\n</main>\n<footer>{escape(foot)}</footer>\n</body>\n</html>\n"
    )


def escape(text: str) -> str:
    """The text escaped for any place in HTML."""
    return html.escape(text, quote=True)


def section(title: str, *parts: str, note: str = "") -> str:
    """A section of the page with a heading."""
    words = f"<p>{escape(note)}</p>\n" if note else ""
    return f"<section>\n<h2>{escape(title)}</h2>\n{words}" + "\n".join(parts) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def banner(text: str) -> str:
    """A warning across the page."""
    return f'<div class="banner" role="note">{escape(text)}</div>'


def figures(charts: Iterable[str]) -> str:
    """Charts side by side, as many as fit."""
    inside = "\n".join(f"<figure>{chart}</figure>" for chart in charts)
    return f'<div class="charts">\n{inside}\n</div>'


def captioned(chart: str, words: str) -> str:
    """One chart with a caption."""
    return f"<figure>{chart}<figcaption>{escape(words)}</figcaption></figure>"


def columns(*parts: str) -> str:
    """Parts side by side where they fit."""
    return '<div class="columns">\n' + "\n".join(f"<div>{p}</div>" for p in parts) + "\n</div>"


def tables(parts: Iterable[tuple[str, bool]]) -> str:
    """Small tables side by side; each with a flag whether it is wide."""
    inside = "\n".join(
        f'<div class="wide">{part}</div>' if wide else f"<div>{part}</div>" for part, wide in parts
    )
    return f'<div class="tables">\n{inside}\n</div>'


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def facts(rows: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers: the number, its meaning, and a remark."""
    inside = "\n".join(
        f"<li><b>{escape(large)}</b>{escape(words)}"
        + (f"<small>{escape(small)}</small>" if small else "")
        + "</li>"
        for large, words, small in rows
    )
    return f'<ul class="facts">\n{inside}\n</ul>'


def folded(summary: str, *parts: str, shown: bool = False) -> str:
    """A part that the reader can expand."""
    state = " open" if shown else ""
    return (
        f"<details{state}><summary>{escape(summary)}</summary>\n" + "\n".join(parts) + "</details>"
    )


def listed(texts: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>"


def grid(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    wide: Iterable[int] = (),
    dim: Iterable[int] = (),
    most: int = MOST_LETTERS,
) -> str:
    """A table in a scrolling box. The second line of a cell is set in small type.

    `numbers`: right-aligned columns; `wide`: columns with long texts; `dim`: grey rows; `most`:
    letters of a cell, after which its text is cut.
    """
    right, long, grey = set(numbers), set(wide), set(dim)
    kinds = ["n" if n in right else "key wide" if n in long else "key" for n in range(len(head))]
    top = "".join(f'<th class="{k}">{escape(c)}</th>' for k, c in zip(kinds, head, strict=True))
    body = []
    for n, row in enumerate(rows):
        cells = "".join(
            f'<td class="{kind}">{_cell(cell, kind, most)}</td>'
            for kind, cell in zip(kinds, row, strict=True)
        )
        body.append(f'<tr class="dim">{cells}</tr>' if n in grey else f"<tr>{cells}</tr>")
    box = "scroll tall" if len(body) > TALL else "scroll"
    return (
        f'<div class="{box}" tabindex="0"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n'
        + "\n".join(body)
        + "\n</tbody>\n</table></div>"
    )


def _cell(text: str, kind: str, most: int) -> str:
    shown = text if len(text) <= most else text[: most - 1] + "…"
    if kind == "n":
        first, _, second = shown.partition("\n")
        return escape(first) + (f"<small>{escape(second)}</small>" if second else "")
    # Texts of a log may be in any script; <bdi> isolates their direction.
    return f"<bdi>{escape(shown)}</bdi>"


# --- the label ------------------------------------------------------------------------------------


def label(title: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """A label like those on food: for each row a name, a value in large type, and an explanation."""
    inside = "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>"
        + (f"<b>{escape(large)}</b>" if large else "")
        + f"{escape(words)}</dd></div>"
        for name, large, words in rows
    )
    return f'<div class="label">\n<p>{escape(title)}</p>\n<dl>\n{inside}\n</dl>\n</div>'


def odds(guarantee: Guarantee) -> str:
    """e to the epsilon, rounded up: the largest factor by which one unit's presence changes odds."""
    if guarantee.epsilon >= 20:
        return f"e^{up(guarantee.epsilon, 6)}"
    factor = math.exp(guarantee.epsilon)
    digits = max(0, 2 - math.floor(math.log10(factor)))
    return f"{_ceiling(factor, digits):,.{digits}f}"


def several(unit: str) -> str:
    """The meaning for a user of a guarantee for a smaller unit."""
    return f"For a user with n {unit}s epsilon is n times as large, and delta more than n times."


def guess(guarantee: Guarantee) -> str:
    """The largest probability of a right guess between two equally likely neighbours, rounded up.

    (e^epsilon + delta)/(e^epsilon + 1), attained by the best test against (epsilon, delta)-DP.
    """
    grown = math.exp(min(guarantee.epsilon, 700.0))
    wrong = (1.0 - guarantee.plain_delta) / (grown + 1.0)
    digits = max(1, -math.floor(math.log10(wrong)) - 1) if wrong > 0 else 0
    if wrong <= 0 or digits > 8:
        return "100 %"
    return f"{_ceiling(100 * (1 - wrong), digits):.{digits}f} %"


def chance(delta: float) -> str:
    """A small probability as "1 in n", rounded up."""
    if delta <= 0:
        return "never"
    one_in = math.floor(1 / delta * (1 + 1e-9))
    if one_in >= 1000:
        keep = 10 ** (math.floor(math.log10(one_in)) - 1)
        one_in = one_in // keep * keep
    return f"1 in {one_in:,}"


def up(value: float, digits: int = 3) -> str:
    """A number rounded up to significant digits, so that a stated loss is never too small."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(rounded):.{digits}g}"


def _ceiling(value: float, digits: int) -> float:
    """A number rounded up to `digits` decimal places, ignoring floating-point errors."""
    scale = 10.0**digits
    return math.ceil(value * scale - 1e-9) / scale
