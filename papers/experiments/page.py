"""The outcomes as lines of text, and as one HTML page with the figures."""

from collections.abc import Sequence
from typing import Any

import murmurlog
from murmurlog.charts import charts, pages
from papers.experiments.experiment import (
    FACTOR,
    Chart,
    Outcome,
    known,
    number,
)

RULE = (
    f"The log is generated, so effects (directions, orders) decide; printed numbers are compared within a factor "
    f"of {FACTOR:g}, and numbers that grow with the log only where it has about as many users as the paper's."
)
EFFECTS = ("effect that the paper states", "verdict", "measured")
NUMBERS = ("number", "printed", "measured", "verdict", "why")


def log_text(outcome: Outcome) -> str:
    """The log of an experiment in one line."""
    spec = outcome.spec
    size = f"; the paper's had {spec.paper_users:,}" if spec.paper_users else ""
    small = (
        f"; smaller than the {spec.full_users:,} at which the effects are expected"
        if spec.users < spec.full_users
        else ""
    )
    return f"a generated log like {spec.like}, {spec.users:,} users, seed {spec.seed}{size}{small}"


def number_rows(outcome: Outcome) -> list[list[str]]:
    """The measured numbers beside the printed ones; a bound of the paper's own where there is one."""
    rows = outcome.measured.rows if outcome.measured else ()
    return [
        [
            row.name,
            number(row.printed),
            number(row.measured),
            outcome.row_verdict(row),
            outcome.row_reason(row),
        ]
        for row in rows
    ]


def effect_rows(outcome: Outcome) -> list[list[str]]:
    claims = outcome.measured.claims if outcome.measured else ()
    return [[claim.text, claim.verdict, claim.found] for claim in claims]


def summary_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """One line an experiment."""
    return [
        [each.experiment.name, each.verdict, each.summary, f"{each.seconds:.0f}"]
        for each in outcomes
    ]


def text_tables(outcome: Outcome) -> list[tuple[tuple[str, ...], list[list[str]]]]:
    """Effects and numbers, each with its heading, as far as there are any."""
    both = ((EFFECTS, effect_rows(outcome)), (NUMBERS, number_rows(outcome)))
    return [(heading, rows) for heading, rows in both if rows]


SUMMARY = ("experiment", "verdict", "of these agree", "seconds")


def draw(chart: Chart) -> str | None:
    """The chart as SVG; None if there is no line with a point."""
    drawn = {name: points for name, line in chart.series.items() if (points := known(line))}
    if not drawn:
        return None
    return charts.lines(
        drawn,
        title=chart.title,
        x_label=chart.x_label,
        percent=chart.percent,
        log=chart.log,
        frame=charts.COLUMN,
    )


def page(title: str, outcomes: Sequence[Outcome]) -> str:
    """The HTML page of a paper's experiments."""
    values = {
        "title": title,
        "version": murmurlog.__version__,
        "log": log_text(outcomes[0]),
        "rule": RULE,
        "summary_head": SUMMARY,
        "summary": summary_rows(outcomes),
        "effects_head": EFFECTS,
        "numbers_head": NUMBERS,
        "experiments": [_section(outcome) for outcome in outcomes],
    }
    return pages.render("papers.experiments", "experiments.html", values)


def _section(outcome: Outcome) -> dict[str, Any]:
    figures = outcome.measured.charts if outcome.measured else ()
    return {
        "outcome": outcome,
        "charts": [svg for svg in map(draw, figures) if svg is not None],
        "effects": effect_rows(outcome),
        "numbers": number_rows(outcome),
    }
