"""The forecast of a series: the model of later periods, the releases, and the command."""

import json

import numpy as np
import pytest
from command import run

import murmurlog
from murmurlog.errors import UsageError
from murmurlog.logs.invented.generate import invent, write
from murmurlog.privacy import limits_of
from murmurlog.publishing.plan import Part, plan_tables
from murmurlog.publishing.planning import later_periods
from murmurlog.publishing.planning.forecast import Simulation
from murmurlog.publishing.planning.forecast_source import ForecastSource
from murmurlog.publishing.planning.later_periods import REPEATED, draw_periods
from murmurlog.publishing.planning.series_forecast import ROADS, forecast_series
from murmurlog.publishing.planning.stand_in_log import of_shape

CAP = {"epsilon": 6.0, "delta": 1e-5}


@pytest.fixture(scope="module")
def first():
    return of_shape("plain", users=3000, seed=1)


@pytest.fixture(scope="module")
def periods(first):
    return list(draw_periods(first, 6, seed=2))


def test_the_first_period_is_the_known_one_and_later_ones_are_as_large(first, periods):
    assert len(periods) == 6
    assert (periods[0][0] is first.unit, periods[0][1] is first.item) == (True, True)
    shown = len(np.unique(first.unit))
    for unit, item in periods[1:]:
        assert 0.93 < len(np.unique(unit)) / shown < 1.07
        assert 0.9 < len(unit) / first.pairs < 1.1
        assert len(np.unique(unit * (int(item.max()) + 1) + item)) == len(unit)
        assert (np.diff(unit) >= 0).all()
    assert len(np.unique(np.concatenate([unit for unit, _ in periods]))) > 1.15 * shown


def test_popular_items_stay_as_popular_but_for_chance_and_drift(first, monkeypatch):
    monkeypatch.setattr(later_periods, "DRIFT", 0.0)
    counts = first.users()
    for low, high in ((20, 10_000), (6, 12)):
        chosen = np.flatnonzero((counts >= low) & (counts < high))
        expected = (counts[chosen] ** 2 / (counts[chosen] + 1)).sum()
        later = [
            np.isin(item, chosen).sum() for _, item in list(draw_periods(first, 3, seed=4))[1:]
        ]
        assert 0.9 < np.mean(later) / expected < 1.1


def test_popularity_drifts(first, periods, monkeypatch):
    top = np.argsort(-first.users())[:50]
    monkeypatch.setattr(later_periods, "DRIFT", 0.0)
    still = list(draw_periods(first, 6, seed=2))

    def moved(pairs):
        found = [np.bincount(item, minlength=first.size)[top] for _, item in (pairs[1], pairs[-1])]
        return np.std(np.log(found[1]) - np.log(found[0]))

    assert moved(periods) > 1.5 * moved(still)


def test_units_repeat_some_of_their_items_and_own_items_have_one_unit(first, periods):
    (unit, item), (later_unit, later_item) = periods[0], periods[1]
    size = int(max(item.max(), later_item.max())) + 1
    known = np.isin(later_unit, unit)
    again = np.isin(later_unit * size + later_item, unit * size + item)[known].mean()
    assert REPEATED - 0.05 < again < REPEATED + 0.15  # popular ones are drawn again by chance
    assert not np.isin(later_unit * size + later_item, unit * size + item)[~known].any()
    new = later_item[later_item >= first.size]
    assert np.bincount(new - first.size).max() == 1


def test_a_period_too_large_for_memory_is_refused(first, monkeypatch):
    monkeypatch.setattr(later_periods, "MOST_PAIRS", 3 * first.pairs)
    assert len(list(draw_periods(first, 3))) == 3
    with pytest.raises(UsageError, match="4 periods of .* pairs of unit and item are too large"):
        next(draw_periods(first, 4))


@pytest.mark.slow
def test_one_release_of_the_whole_cap_is_the_simulation_of_one_release():
    source = ForecastSource(like="plain", users=2000)
    found = forecast_series(source, of_cap=1.0, **CAP)
    part = Part.of(limits_of(**CAP), 1.0, delta=CAP["delta"])
    plans, _ = plan_tables(["query"], mechanism="rounds", part=part)
    simulation = Simulation(source.load().stand_in)
    runs = simulation.forecast(plans["query"].mechanism, repeats=3)
    for road in ROADS:
        (only,) = found.roads[road]
        assert only.distinct == only.counts == runs.queries
        assert only.median_error == pytest.approx(runs.median_error)
        assert 0 < only.reliable <= only.counts


@pytest.fixture(scope="module")
def year():
    return forecast_series(
        ForecastSource(like="plain", users=1500), of_cap=1 / 6, count_shares=(0.3, 0.7), **CAP
    )


def test_a_year_gains_keys_and_more_from_all_rows_so_far(year):
    month, every = (year.roads[road] for road in ROADS)
    assert year.releases == len(every) == 6
    assert [each.count_share for each in month] == [0.3, *[0.7] * 5]
    assert month[0] == every[0]
    for rows in (month, every):
        distinct = [each.distinct for each in rows]
        assert distinct == sorted(distinct)
        assert all(each.counts == each.distinct for each in rows)  # known keys have a row
    assert every[-1].distinct > 1.3 * month[-1].distinct
    assert month[-1].median_error < month[0].median_error  # counts get more of the budget


@pytest.mark.slow
def test_without_earlier_keys_every_release_counts_its_own_only():
    alone = forecast_series(
        ForecastSource(like="plain", users=1500), releases=4, known_free=False, **CAP
    )
    last = alone.roads["month"][-1]
    assert last.counts < last.distinct
    assert alone.part == 1 / 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"of_cap": 0.5, "releases": 3}, "do not fit into one cap: at most 2 do"),
        ({"releases": 0}, "--releases must be at least 1"),
        ({"of_cap": 1e-6}, "must lie between 1 and 400"),
        ({"releases": 2, "count_shares": (0.3, 1.0)}, "--counts-share must lie between 0 and 1"),
        ({"releases": 1, "count_shares": (0.3, 0.3)}, "lists 2 shares for 1 releases"),
    ],
    ids=str,
)
def test_parts_that_do_not_fit_are_refused_before_a_log_is_read(given, said):
    with pytest.raises(UsageError, match=said):
        forecast_series(ForecastSource(public="no such file"), **given)


@pytest.mark.slow
def test_plan_is_the_same_in_python_and_on_the_command_line(tmp_path):
    write(invent(rows=20_000, seed=2), tmp_path / "log.parquet")
    given = {"epsilon": 6.0, "delta": 1e-5, "raw": str(tmp_path / "log.parquet")}
    found = murmurlog.plan(of_cap=0.5, counts_share=(0.4,), **given)
    flags = ("--of-cap", "1/2", "--counts-share", "0.4", "--epsilon", "6", "--delta", "1e-5")
    done = run("plan", *flags, "--raw", "log.parquet", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["forecast"] == found.as_json()["forecast"]
    assert (data["releases"], data["protected"]) == (2, False)
    assert data["cap"] == {"epsilon": 6.0, "delta": 1e-5}
    assert "for your eyes only" in done.stderr
    shown = run("plan", *flags, "--raw", "log.parquet", cwd=tmp_path).stdout
    assert "2 releases of 0.5 of a cap of epsilon 6, delta 1e-05 would publish about" in shown
    assert "model: the log is one period" in shown
    row = data["forecast"]["month"][1]
    assert any(
        line.split()[:5] == ["2", "0.4", *(str(row[n]) for n in ("distinct", "counts", "reliable"))]
        for line in shown.splitlines()
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--of-cap", "1/12"), "a forecast needs a log that is not secret"),
        (("--counts-share", "0.3"), "give --of-cap or --releases, too"),
        (("--releases", "2", "--target", "volume=0.1"), "--target does not go with the forecast"),
        (("--releases", "2", "--out", "x.toml"), "--out does not go with the forecast"),
        (("--releases", "2", "--set-only"), "--set-only does not go with the forecast"),
        (("--releases", "2", "--mechanism", "threshold"), "a series is forecast for rounds"),
        (("--releases", "2", "--pool", "x"), "--pool does not go with the forecast"),
        (
            ("--releases", "2", "--count-share", "0.3", "--counts-share", "0.3"),
            "say the same: give one",
        ),
        (("--of-cap", "2"), "is no part of a whole"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_what_does_not_go_with_a_series_is_refused(flags, said, tmp_path):
    done = run("plan", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
