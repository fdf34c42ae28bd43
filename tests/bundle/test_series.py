"""Several releases as one series: order, periods, tidy tables, sums with right errors."""

import csv
import json
import math
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from certificates import make_certificate, make_table
from command import run

import murmurlog
from murmurlog.bundle.read import Release, Tables
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, with_intervals
from murmurlog.bundle.series import Period, load_series, read_period
from murmurlog.bundle.write import publish
from murmurlog.errors import BundleError, UsageError

SIGMA = 3.0 * math.sqrt(16)  # of the noise of one count


def make_release(number, rows, *, common=0.0, month=None):
    """A release whose table counts users in the log, from (query, users, stderr)."""
    columns = dict(zip(("query", "users", "users_stderr"), zip(*rows, strict=True), strict=True))
    users, error = (np.array(columns[n], float) for n in ("users", "users_stderr"))
    table = pa.table(
        {
            "query": pa.array(columns["query"]),
            "users": pa.array(users.astype(np.int64)),
            "users_low": pa.array(np.floor(np.maximum(0, users - 1.96 * error)).astype(np.int64)),
            "users_high": pa.array(np.ceil(users + 1.96 * error).astype(np.int64)),
            "users_stderr": pa.array(error),
            "reliable": pa.array(4 * error <= users),
        }
    )
    claim = make_certificate({"query": table}).tables["query"]
    claim = replace(
        claim,
        parameters={"noise": "gaussian", "scale": 9.0, "count_scale": 3.0},
        counting={"meaning": IN_LOG, "d2": 16, "common_error": common, "histogram": [3]},
    )
    certificate = make_certificate({"query": table}, release_id=f"{number:032x}")
    text = dict(certificate.text)
    if month:
        text |= {"since": f"2026-{month:02}-01", "until": f"2026-{month + 1:02}-01"}
    release = Release(f"b{number}", replace(certificate, tables={"query": claim}, text=text))
    release.__dict__["tables"] = Tables({"query": table})
    return release


@pytest.fixture
def folder(tmp_path):
    """Three bundles of thresholds; the second was published before the first."""
    (tmp_path / "all").mkdir()
    for number, (day, rows) in enumerate(
        [
            ("2026-02-28", [("weather", 90, 4.0), ("maps", 60, 4.0)]),
            ("2026-01-31", [("weather", 100, 3.0)]),
            ("2026-03-31", [("weather", 80, 12.0), ("news", 50, 12.0)]),
        ],
        1,
    ):
        table = with_intervals(make_table("query", *rows))
        certificate = make_certificate({"query": table}, published=day, release_id=f"{number:032x}")
        claim = replace(certificate.tables["query"], counting={"meaning": AT_LEAST})
        publish(
            tmp_path / "all" / f"b{number}",
            tables={"query": table},
            certificate=replace(certificate, tables={"query": claim}),
        )
    return tmp_path / "all"


def test_a_folder_is_read_in_the_order_of_publication_and_a_list_as_given(folder):
    series = murmurlog.load_series(folder)
    assert [r.path.name for r in series.releases] == ["b2", "b1", "b3"]
    assert series.periods == (Period(),) * 3
    from_list = load_series([folder / "b3", folder / "b1"])
    assert [r.path.name for r in from_list.releases] == ["b3", "b1"]
    table = series.table()
    assert table.column_names == [
        *("number", "release", "period_start", "period_end", "query"),
        *("users", "users_low", "users_high", "users_stderr", "reliable"),
    ]
    assert table["number"].to_pylist() == [1, 2, 2, 3, 3]
    assert table["users"].to_pylist() == [100, 90, 60, 80, 50]
    assert table["users_high"].null_count == 5


def test_stated_periods_order_a_series_and_others_can_be_given():
    releases = [make_release(n, [("a", 100, 20.0)], month=m) for n, m in ((1, 3), (2, 1), (3, 2))]
    series = load_series(releases)
    assert [period.start.month for period in series.periods] == [1, 2, 3]
    assert series.periods[0].end == datetime(2026, 2, 1)
    series = load_series(releases[:2], periods=["2025-12", ("2026-01-01", None)])
    assert series.periods[0] == Period(datetime(2025, 12, 1), datetime(2026, 1, 1))
    assert series.table()["period_end"].to_pylist() == [datetime(2026, 1, 1), None]
    assert read_period("2026-02-28").end == datetime(2026, 3, 1)
    counted_from = replace(
        releases[0].certificate, text={**releases[0].certificate.text, "count_from": "2026-03-15"}
    )
    assert load_series([Release("x", counted_from)]).periods[0].start == datetime(2026, 3, 15)
    earlier = {**releases[1].certificate.text, "since": None}  # January, without a start
    open_start = Release("x", replace(releases[1].certificate, text=earlier))
    assert load_series([releases[0], open_start]).periods[0] == Period(None, datetime(2026, 2, 1))
    for wrong in ("2026", "2026-13", "March", ("2026-02-01", "2026-01-01")):
        with pytest.raises(UsageError, match="period|date"):
            read_period(wrong)
    with pytest.raises(UsageError, match="3 bundles have 1 periods"):
        load_series(releases, periods=["2026-01"])


def test_noise_adds_in_quadrature_and_errors_of_the_model_add_as_they_are():
    error = math.hypot(SIGMA, 5.0)  # 5: of the model, not of noise
    releases = [
        make_release(
            n,
            [("a", 1000, math.hypot(error, 20.0)), ("b", 500, math.hypot(error, 10.0))],
            common=0.02,
        )
        for n in (1, 2, 3, 4)
    ]
    series = load_series(releases)
    a, b = series.sums("query").to_pylist()
    assert (a["query"], a["users"], a["releases"]) == ("a", 4000, 4)
    assert a["users_stderr"] == pytest.approx(math.sqrt(4 * SIGMA**2 + 20**2 + 80**2))
    assert b["users_stderr"] == pytest.approx(math.sqrt(4 * SIGMA**2 + 20**2 + 40**2))
    assert a["users_low"] <= 4000 - 1.96 * a["users_stderr"]
    assert a["users_high"] >= 4000 + 1.96 * a["users_stderr"]
    # The keys' own errors are independent of each other, the common one is shared.
    both = series.total("query")
    assert both.stderr == pytest.approx(math.sqrt(8 * SIGMA**2 + 2 * 20**2 + 120**2))
    assert (both.value, both.rows, both.meaning) == (6000, 8, IN_LOG)
    assert series.total("query", "a").stderr == pytest.approx(a["users_stderr"])
    assert series.sums("query", "b").num_rows == 1


@pytest.mark.slow
def test_a_sum_over_months_holds_the_truth_as_often_as_it_says_where_the_model_is_wrong_alike():
    """Every month the model is off by the same factor: adding all errors in quadrature would fail."""
    rng = np.random.default_rng(1)
    hits, naive, draws = 0, 0, 400
    for _ in range(draws):
        shared = 1 + 0.05 * rng.standard_normal()
        rows = [2000 * shared + SIGMA * rng.standard_normal() for _ in range(12)]
        error = [math.hypot(SIGMA, 0.05 * x) for x in rows]
        releases = [
            make_release(n, [("a", round(x), e)], common=0.05)
            for n, (x, e) in enumerate(zip(rows, error, strict=True))
        ]
        (row,) = load_series(releases).sums().to_pylist()
        hits += row["users_low"] <= 24_000 <= row["users_high"]
        naive += abs(sum(rows) - 24_000) <= 1.96 * math.hypot(*error)
    assert hits / draws > 0.92
    assert naive / draws < 0.6


def test_sums_of_bounded_counts_have_no_upper_end_and_add_noise_alone(folder):
    sums = {row["query"]: row for row in murmurlog.load_series(folder).sums().to_pylist()}
    assert sums["weather"]["users"] == 270
    assert sums["weather"]["users_stderr"] == pytest.approx(13.0)
    assert sums["weather"]["users_high"] is None
    assert (sums["maps"]["releases"], sums["weather"]["releases"]) == (1, 3)
    total = murmurlog.load_series(folder).total("query", ["weather"])
    assert math.isinf(total.high)
    assert total.meaning == AT_LEAST


def test_releases_that_do_not_belong_together_are_refused(folder):
    with pytest.raises(UsageError, match="are the same release"):
        load_series([folder / "b1", folder / "b1"])
    first, other = make_release(1, [("a", 100, 20.0)]), make_release(2, [("a", 100, 20.0)])
    days = replace(other.certificate.guarantee, unit="user-day")
    with pytest.raises(UsageError, match="differ in their unit of privacy"):
        load_series([first, Release("x", replace(other.certificate, guarantee=days))])
    canonical = replace(other.certificate, text={**other.certificate.text, "keys": "canonical 1"})
    with pytest.raises(UsageError, match="differ in their --keys"):
        load_series([first, Release("x", canonical)])
    with pytest.raises(UsageError, match="no release has a table 'click': they have query"):
        load_series([first, other]).table("click")
    with pytest.raises(UsageError, match="needs at least one bundle"):
        load_series([])
    with pytest.raises(BundleError, match="is one bundle: name the folder that holds"):
        load_series(folder / "b1")
    with pytest.raises(UsageError, match="is no folder of bundles"):
        load_series(folder / "nothing")


def test_periods_that_overlap_are_not_added_up():
    a, b = make_release(1, [("a", 100, 20.0)]), make_release(2, [("a", 100, 20.0)])
    series = load_series([a, b], periods=[("2026-01-01", "2026-03-01"), "2026-02"])
    assert series.table().num_rows == 2
    for add in (series.sums, series.total):
        with pytest.raises(UsageError, match="overlap.* A sum would count rows twice"):
            add()
    so_far = load_series([a, b], periods=[(None, "2026-02-01"), (None, "2026-03-01")])
    with pytest.raises(UsageError, match="overlap"):
        so_far.sums()
    assert load_series([a, b], periods=[(None, "2026-02-01"), "2026-02"]).sums().num_rows == 1


def test_keys_without_counts_are_in_the_table_and_not_in_sums(tmp_path):
    table = pa.table({"query": ["a", "b"]})
    certificate = make_certificate({"query": table})
    bare = Release("bare", certificate)
    bare.__dict__["tables"] = Tables({"query": table})
    series = load_series([bare, make_release(2, [("a", 100, 20.0)])])
    assert series.table()["users"].to_pylist() == [None, None, 100]
    assert series.sums()["releases"].to_pylist() == [1]
    with pytest.raises(UsageError, match="has no counts"):
        load_series([bare]).sums()


def test_an_export_of_a_series_is_one_file_for_each_table(folder, tmp_path):
    names = [folder / f"b{n}" for n in (2, 1, 3)]
    done = run("export", *names, "--to", "csv", "--out", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == {"query.csv": 5}
    assert "Not every release states its period" in done.stderr
    with (tmp_path / "out" / "query.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["query"] for row in rows] == ["weather", "weather", "maps", "weather", "news"]
    assert rows[0]["period_start"] == rows[0]["users_high"] == ""
    text = " ".join((tmp_path / "out" / "README.txt").read_text().split())
    assert "All releases together, for a user in the logs of all of them: epsilon 7.5" in text
    assert "no number of distinct users" in text
    murmurlog.export(names, to="parquet", out=tmp_path / "parquet")
    read = pq.read_table(tmp_path / "parquet" / "query.parquet")
    assert read.equals(load_series(names).table())
    assert "epsilon" in json.loads(read.schema.metadata[b"privacy"])[0]
    for arguments, words in (
        ((*names, "--to", "tsv", "--out", "x"), "--to tsv is for one bundle, and 3 are given"),
        ((*names, "--to", "csv", "--out", names[0] / "x"), "is inside the bundle"),
        ((names[0], "--to", "word", "--out", "x"), "must be one of csv, tsv, trec, hf"),
    ):
        failed = run("export", *arguments, cwd=tmp_path)
        assert failed.returncode == 2
        assert words in failed.stderr


def test_a_series_under_one_cap_states_the_cap():
    from murmurlog.bundle.series_export import combined_cost

    booked = {"source": "web", "rule": "filter", "cap": {"epsilon": 3.0, "delta": 1e-5}}
    releases = [make_release(n, [("a", 100, 20.0)]) for n in (1, 2)]
    capped = [Release(r.path, replace(r.certificate, booked=booked)) for r in releases]
    assert "within epsilon 3, delta 1e-05 per user" in combined_cost(load_series(capped))
    assert "epsilon 5, delta" in combined_cost(load_series([capped[0], releases[1]]))
