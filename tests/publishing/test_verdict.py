"""The verdict on a release: what it says, that it sees nothing but the bundle, and that it is right."""

import inspect
from functools import cache
from statistics import mean

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from certificates import make_certificate, make_table

from murmurlog.bundle.popularity import STAND_IN
from murmurlog.bundle.read import load
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.plan import plan_tables
from murmurlog.publishing.planning.forecast import Simulation
from murmurlog.publishing.planning.stand_in_log import of_shape
from murmurlog.publishing.release import release
from murmurlog.publishing.verdict import judge

QUERIES = [f"query {n}" for n in range(12)]


def log_of(path, *, last="rare", users=400):
    """Users who ask a few queries in order, and after these one more, which the bound drops."""
    rows = [
        {"user": f"u{u}", "time": f"2026-01-{n + 1:02d}", "query": query}
        for u in range(users)
        for n, query in enumerate([*QUERIES[: 3 + u % 10], *([f"{last} {u}"] * (u % 10 == 9))])
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def release_log(log, out, **more):
    more = {"tables": ["query"], "mechanism": "threshold", "per_user": 12, **more}
    return release(log, out=out, entropy=SeededEntropy(1), **more)


def test_logs_with_equal_published_tables_have_equal_verdicts(tmp_path):
    one = release_log(log_of(tmp_path / "1.parquet"), tmp_path / "1")
    two = release_log(log_of(tmp_path / "2.parquet", last="another"), tmp_path / "2")
    assert one.tables["query"].equals(two.tables["query"])
    assert one.verdict is not None
    assert one.verdict == two.verdict
    assert one.as_json()["verdict"] == two.as_json()["verdict"]


def test_a_verdict_is_a_function_of_the_bundle_alone(tmp_path):
    assert list(inspect.signature(judge).parameters) == ["certificate", "tables"]
    made = release_log(log_of(tmp_path / "1.parquet"), tmp_path / "1")
    bundle = load(tmp_path / "1")
    assert made.verdict == judge(bundle.certificate, bundle.tables)


def test_a_dry_run_has_no_verdict(tmp_path):
    made = release_log(log_of(tmp_path / "1.parquet"), tmp_path / "1", dry_run=True)
    assert made.verdict is None
    assert made.as_json()["verdict"] is None


ROUNDS = {name: str(plan.mechanism) for name, plan in plan_tables(["query", "click"])[0].items()}


def test_it_says_in_eight_lines_what_is_reliable_why_it_is_small_and_what_helps():
    rows = [[f"q{n}", round(2000 / (n + 1)), 10.0] for n in range(20)]
    tables = {
        "query": make_table("query", *rows),
        "click": make_table("click", ["a", "b", 50, 30.0]),
    }
    said = judge(make_certificate(tables, ROUNDS, epsilon=0.7), tables).lines()
    assert len(said) == 8
    assert said[0] == "query: 20 rows, 20 reliable; click: 1 row, 0 reliable"
    assert said[1].startswith(
        "share of the searches: no private number of it was released; --tables"
    )
    assert said[2] == "An item needs about 45 to 443 users, fewer if they have few other items."
    assert said[3] == "forecast of query rows, from its published counts:"
    assert said[4].endswith("(helps most)")
    changes = sorted(line.split(":")[0] for line in said[4:])
    assert changes == [
        "- --pool with public keys that list 60 % of these rows",
        "- epsilon 2.8 instead of 1.4",
        "- query alone instead of two tables",
        "- twice as many users",
    ]


def test_twice_the_users_of_a_power_law_give_twice_the_rows():
    rows = [[f"q{n}", round(100_000 / (n + 1)), 10.0] for n in range(1000)]
    tables = {"query": make_table("query", *rows)}
    levers = judge(make_certificate(tables), tables).levers
    (more,) = [lever for lever in levers if lever.change == "twice as many users"]
    assert more.rows == pytest.approx(2000, rel=0.05)


def test_the_share_of_the_searches_is_said_where_it_was_measured(tmp_path):
    log = log_of(tmp_path / "1.parquet", users=3000)
    more = {"tables": ["query", "left_out"], "mechanism": None, "per_user": None, "epsilon": 8.0}
    made = release_log(log, tmp_path / "1", **more)
    verdict = made.verdict
    assert verdict.volume == 1 - made.notes["left_out"]["searches left out, %"] / 100
    assert "left_out" not in verdict.rows
    assert f"share of the searches: about {100 * verdict.volume:.0f} %" in verdict.lines()


@pytest.mark.parametrize("users", [None, 900])
def test_an_empty_release_is_forecast_from_a_stated_shape(users):
    tables = {name: make_table(name) for name in ("query", "click")}
    certificate = make_certificate(tables, ROUNDS, epsilon=0.7, declared_users=users)
    verdict = judge(certificate, tables)
    said = verdict.lines()
    assert said[0] == "query: nothing was published; click: nothing was published"
    declared = "" if users is None else " and 900 declared users"
    assert f"at most, from the shape of a generated log{declared} (too few" in said[3]
    best = verdict.levers[0].rows
    assert best > 0
    few = judge(make_certificate(tables, ROUNDS, epsilon=0.7, declared_users=100), tables)
    assert not few.levers  # nothing that 100 users hold can pass
    assert few.lines()[3] == "no change that was tried would publish more query rows"


def test_what_has_no_guarantee_or_no_forecast_says_so():
    tables = {"query": make_table("query", ["a", 50, 2.0])}
    nothing = judge(make_certificate(tables, {"query": "k-query:20"}), tables)
    assert (nothing.needed, nothing.levers) == ({}, ())
    log = pa.table({"user": ["u"], "query": ["a"], "url": ["b"], "count": [1]})
    mechanism = {"log": "synthetic(d=1, scale=1.0, T=20, b_sizes=10.0)"}
    unknown = judge(make_certificate({"log": log}, mechanism), {"log": log})
    assert unknown.levers == ()
    assert unknown.lines()[-1] == "no forecast is available for synthetic"


# --- the forecasts are right ----------------------------------------------------------------------


@cache
def simulation(like, users):
    return Simulation(of_shape(like, users=users))


@pytest.mark.slow
@pytest.mark.parametrize(("like", "users"), [("plain", 900), ("aol", 4000)])
def test_forecasts_are_near_those_of_a_simulation(like, users):
    """The verdicts on simulated releases, against simulated releases with other settings.

    Verdicts are averaged: one release of ten rows says little about other settings.
    """
    made, total = plan_tables(["query", "click"])
    levers = []
    for seed in range(6):
        shown, counts = simulation(like, users)._run(made["query"].mechanism, seed)
        table = make_table(
            "query", *([str(n), int(c), 5.0] for n, c in zip(shown, counts, strict=True))
        )
        tables = {"query": table, "click": make_table("click")}
        certificate = make_certificate(tables, ROUNDS, epsilon=0.7, guarantee=total)
        found = judge(certificate, tables).levers
        levers.append({lever.change: lever.rows for lever in found})
    for change, names, epsilon in (
        ("query alone instead of two tables", ["query"], 1.0),
        ("epsilon 2 instead of 1", ["query", "click"], 2.0),
    ):
        mechanism = plan_tables(names, epsilon=epsilon)[0]["query"].mechanism
        expected = simulation(like, users).forecast(mechanism, repeats=8).queries
        forecast = mean(each[change] for each in levers)
        assert expected / 2 < forecast < expected * 2, change


def test_the_stated_shape_is_that_of_a_generated_log():
    found = sorted(simulation("plain", 900).users, reverse=True)
    for rank in (1, 10, 100):
        assert found[rank - 1] / 900 == pytest.approx(STAND_IN[rank], rel=0.3)
