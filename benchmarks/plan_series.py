"""Whether plan --of-cap forecasts a series that the commands then publish.

    python benchmarks/plan_series.py [--rows 600000] [--periods 4] [--like plain] [--seed 5]

A log is generated and cut into periods by time. `plan` sees the first period only. Then a source gets a
cap, and every period is released with its part of it: keys from the rows of the period, or from all rows
so far, and in both cases keys of earlier releases are known (--after ledger). Printed are, for every
release, what was forecast and what was published: keys so far, reliable counts, and the median error of
the 100 most popular queries of the period.
"""

import argparse
import statistics
import tempfile
from datetime import timedelta
from pathlib import Path

import duckdb

from murmurlog.logs.invented.generate import invent, write
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.planning.forecast_source import ForecastSource
from murmurlog.publishing.planning.series_forecast import ROADS, forecast_series
from murmurlog.publishing.release import release

CAP = {"epsilon": 3.0, "delta": 1e-5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--periods", type=int, default=4)
    parser.add_argument("--like", default="plain")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        like = None if options.like == "plain" else options.like
        write(invent(rows=options.rows, seed=options.seed, like=like), root / "log.parquet")
        first, last = duckdb.sql(
            f"select min(time), max(time) from '{root}/log.parquet'"
        ).fetchone()
        step = (last - first) / options.periods + timedelta(seconds=1)
        starts = [first + n * step for n in range(options.periods)]
        for n, start in enumerate(starts):
            duckdb.sql(
                f"copy (select * from '{root}/log.parquet' where time >= '{start}' and time < '{start + step}') "
                f"to '{root}/period{n:03}.parquet'"
            )
        forecast = forecast_series(
            ForecastSource(public=str(root / "period000.parquet")), releases=options.periods, **CAP
        )
        print("| keys from | release | distinct: forecast, published | reliable | error | ratio |")
        print("|---|---|---|---|---|---|")
        for road in ROADS:
            published = run(root, road, starts)
            for planned, made in zip(forecast.roads[road], published, strict=True):
                print(
                    f"| {road} | {planned.release} | {planned.distinct:.0f}, {made[0]} | "
                    f"{planned.reliable:.0f}, {made[1]} | {planned.median_error:.3f}, {made[2]:.3f} | "
                    f"{made[0] / planned.distinct:.2f} |"
                )


def run(root: Path, road: str, starts: list) -> list[tuple[int, int, float]]:
    """Keys so far, reliable counts and the median error of every release of a road."""
    ledger = root / f"{road}.db"
    Ledger(ledger).cap("web", pure=0.0, **CAP)
    keys: set[str] = set()
    found = []
    for n, start in enumerate(starts):
        more = {} if n == 0 else {"after": ["ledger"]}
        logs = root / f"{road}{n}"
        logs.mkdir()
        for m in range(n + 1) if road == "all" else (n,):
            (logs / f"{m:03}.parquet").symlink_to(root / f"period{m:03}.parquet")
        if road == "all":
            more |= {"select_from": "all", "count_from": start.isoformat()}
        release(
            str(logs), out=root / f"{road}-bundle{n}", tables=["query"], of_cap=1 / len(starts),
            ledger=ledger, source_name="web", **more,
        )  # fmt: skip
        rows = duckdb.sql(f"from '{root}/{road}-bundle{n}/data/query.parquet'").fetchall()
        counts = {row[0]: row[1] for row in rows}
        keys |= counts.keys()
        true = duckdb.sql(
            f"select query, count(distinct \"user\") as n from '{root}/period{n:03}.parquet' "
            "group by 1 order by n desc, query limit 100"
        ).fetchall()
        errors = [abs(counts[q] - n) / n if q in counts else 1.0 for q, n in true]
        found.append((len(keys), sum(row[-1] for row in rows), statistics.median(errors)))
    return found


if __name__ == "__main__":
    main()
