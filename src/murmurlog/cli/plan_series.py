"""What `plan` prints about a series of releases under one cap."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from murmurlog.cli.output import aligned, progress, show, show_json, tell

if TYPE_CHECKING:
    from murmurlog.publishing.planning.series_forecast import SeriesForecast

ROADS = {"month": "keys from the rows of the period", "all": "keys from all rows so far"}
COLUMNS = ("distinct", "counts", "reliable", "error")


def plan_series(
    source: Mapping[str, Any],
    series: Mapping[str, Any],
    *,
    terms: Mapping[str, Any],
    others: Mapping[str, Any],
    options: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Forecasts a series and prints it period by period."""
    from murmurlog.publishing.planning.planner import plan_releases

    with progress() as say:
        found = plan_releases(source, **series, **terms, others=others, options=options, say=say)
    if found.log.note:
        tell(found.log.note)
    if found.log.exact:
        tell("it is a forecast from the log itself, which nothing protects: for your eyes only")
    if as_json:
        show_json(found.as_json())
    else:
        _show(found)


def _show(found: "SeriesForecast") -> None:
    from murmurlog.publishing.planning.series_forecast import MODEL

    last = {road: rows[-1] for road, rows in found.roads.items()}
    releases = "release" if found.releases == 1 else "releases"
    show(
        f"{found.releases} {releases} of {found.part:.3g} of a cap of epsilon {found.epsilon:g}, delta "
        f"{found.delta:.3g} would publish about {last['month'].distinct:,.0f} keys from the rows of each period, or "
        f"{last['all'].distinct:,.0f} from all rows so far."
    )
    lines = [["release", "counts' share", *(2 * COLUMNS)]]
    for month, every in zip(*(found.roads[road] for road in ROADS), strict=True):
        numbers = (
            text
            for each in (month, every)
            for text in (
                f"{each.distinct:,.0f}",
                f"{each.counts:,.0f}",
                f"{each.reliable:,.0f}",
                f"{100 * each.median_error:.1f} %",
            )
        )
        lines.append([str(month.release), f"{month.count_share:g}", *numbers])
    table = aligned(lines)
    first, second = table.index(COLUMNS[0]), table.splitlines()[0].rindex(COLUMNS[0])
    show((" " * first + ROADS["month"]).ljust(second) + ROADS["all"])
    show(table)
    show(
        "distinct: keys published so far; counts: rows of the release; reliable: those with a small error; error: "
        "the median of the 100 most popular items of the period, 100 % for a missing one."
    )
    show("Releases know the keys of earlier ones (--after ledger). " + found.mechanism)
    show(f"from: {found.log.description}; model: {MODEL}")
