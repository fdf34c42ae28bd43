"""The trade-off between epsilon and what is published, as a table and as charts."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from murmurlog.charts import charts
from murmurlog.publishing.planning.forecast_source import ForecastLog

FILES = ("sweep.csv", "sweep.html")
COLUMNS = ("mechanism", "epsilon", "delta", "queries", "volume", "median_error")


def write_sweep(folder: Path, rows: Sequence[Mapping[str, Any]], log: ForecastLog) -> None:
    """Writes the table and the charts to a new folder that only its owner may read.

    With --raw they hold exact figures of the log, as reports of evaluations do.
    """
    folder.mkdir(mode=0o700)
    for name, text in zip(FILES, (_csv(rows, log), _page(rows, log)), strict=True):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text, encoding="utf-8")


def _csv(rows: Sequence[Mapping[str, Any]], log: ForecastLog) -> str:
    table = io.StringIO()
    writer = csv.DictWriter(table, (*COLUMNS, "from"), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "from": log.description} for row in rows)
    return table.getvalue()


def _page(rows: Sequence[Mapping[str, Any]], log: ForecastLog) -> str:
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["mechanism"], []).append(row)
    figures = [
        charts.lines(
            {n: [(row["epsilon"], row[column]) for row in line] for n, line in by_name.items()},
            title=title,
            x_label="epsilon",
            percent=percent,
        )
        for column, title, percent in (
            ("volume", "Share of the volume that is published", True),
            ("queries", "Items that are published", False),
        )
    ]
    cells = [
        [
            row["mechanism"],
            f"{row['epsilon']:g}",
            f"{row['queries']:,}",
            f"{row['volume']:.1%}",
            "" if row["median_error"] is None else f"{row['median_error']:.1%}",
        ]
        for row in rows
    ]
    words = [
        f"Forecast from {log.description}. Kind of item: {log.kind}. delta is {rows[0]['delta']:g} per "
        f"{log.unit}.",
        f"Volume: of all pairs of a {log.unit} and a {log.kind} of theirs, the share whose "
        f"{log.kind} is published. Each mechanism has the best of a few bounds. The error is that of "
        "the counts of the 100 most popular, in the median; a missing one counts as 100 %.",
    ]
    return charts.page(
        title="What is published at which epsilon",
        words=words,
        charts=figures,
        table=charts.rows_of(["mechanism", "epsilon", "items", "volume", "error"], cells),
    )
