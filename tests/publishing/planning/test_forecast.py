"""Forecasts: simulations are the mechanism, targets are met."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import murmurlog
from murmurlog.charts import charts
from murmurlog.cli import main as entry
from murmurlog.cli.plan_goal import check_out
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Korolova, Rounds, Threshold, View
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.plan import Plan, plan
from murmurlog.publishing.planning import forecast
from murmurlog.publishing.planning.forecast import Simulation, explain
from murmurlog.publishing.planning.goals import (
    Candidate,
    Search,
    Target,
    Terms,
    candidates,
    release_flags,
)
from murmurlog.publishing.planning.stand_in_log import StandInLog, of_file, of_shape

BUDGET = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def stand_in():
    """A small log: 1,500 users, items by a power law over 1,000 ranks."""
    rng = np.random.default_rng(3)
    chance = 1 / (np.arange(1, 1001) + 3.0) ** 0.9
    sizes = np.minimum(np.ceil(rng.lognormal(2.0, 1.0, 1500)), 80).astype(np.int64)
    items = [rng.choice(1000, size=size, replace=False, p=chance / chance.sum()) for size in sizes]
    named, item = np.unique(np.concatenate(items), return_inverse=True)
    return StandInLog(
        unit=np.repeat(np.arange(1500), sizes),
        item=item,
        place=np.concatenate([np.arange(size) for size in sizes]),
        units=1500,
        size=len(named),
    )


@pytest.fixture(scope="module")
def simulation(stand_in):
    return Simulation(stand_in)


def simulated(simulation, mechanism, seed):
    """The published items and their counts, None where there are none."""
    shown, counts = simulation._run(mechanism, seed)
    counts = [None] * len(shown) if counts is None else counts.tolist()
    return dict(zip(shown.tolist(), counts, strict=True))


@pytest.mark.parametrize(
    "mechanism",
    [
        Rounds.solve(**BUDGET, d=20),
        Rounds.solve(**BUDGET, d=20, rounds=2, count_share=0.0),
        Threshold.solve(**BUDGET, d=10),
        Korolova.solve(**BUDGET, d=4),
    ],
    ids=str,
)
def test_a_simulation_is_the_release_of_a_log_that_says_the_same(simulation, small_log, mechanism):
    with connect() as engine:
        log = read(find("log.parquet"), engine=engine, entropy=SeededEntropy(0))
        gathered = mechanism.gather(log, View(kind="query", way="first"), entropy=SeededEntropy(5))
        table = mechanism.release(gathered, entropy=SeededEntropy(5))
    shown = map(int, table["query"].to_pylist())
    counts = table["users"] if "users" in table.column_names else pa.nulls(table.num_rows)
    released = dict(zip(shown, counts.to_pylist(), strict=True))
    assert len(released) > 5
    assert simulated(simulation, mechanism, 5) == released
    assert simulated(simulation, mechanism, 6) != released


@pytest.mark.parametrize(("pairs", "items"), [(100, 10), (10**9, 10**9)])
def test_partitions_and_shards_of_a_simulation_decide_nothing(
    simulation, stand_in, monkeypatch, pairs, items
):
    monkeypatch.setattr(forecast, "PAIRS_A_PARTITION", pairs)
    monkeypatch.setattr(forecast, "ITEMS_A_SHARD", items)
    other = Simulation(stand_in)
    assert other._every.count == (16 if pairs == 100 else 1)
    for mechanism in (Rounds.solve(**BUDGET, d=20), Threshold.solve(**BUDGET, d=10)):
        assert other.forecast(mechanism) == simulation.forecast(mechanism)


def test_a_simulation_by_counts_passes_what_the_threshold_says(simulation):
    mechanism = Threshold.solve(**BUDGET, d=10)
    users = simulation.stand_in.bounded(10).users()
    expected = sum(mechanism.pass_probability(int(n)) for n in users[users > 0])
    found = simulation.forecast(mechanism, repeats=4)
    assert abs(found.queries - expected) < 7 * np.sqrt(expected / 4)
    assert found.low[0] <= found.queries <= found.high[0]
    assert 0 < found.volume < 1
    assert simulation.forecast(mechanism, repeats=4) == found  # the same seed


def test_more_epsilon_publishes_more_in_a_forecast(simulation):
    found = [
        simulation.forecast(Rounds.solve(epsilon=e, delta=1e-6, d=20), repeats=2)
        for e in (0.5, 2.0, 8.0)
    ]
    assert found[0].queries < found[1].queries < found[2].queries
    assert found[0].volume < found[1].volume < found[2].volume
    assert found[0].median_error > found[2].median_error


def test_errors_are_of_the_most_popular_and_missing_ones_count_as_one(simulation):
    nothing = simulation.forecast(Threshold(noise="geometric", d=1, scale=1.0, T=10_000))
    assert (nothing.queries, nothing.volume, nothing.median_error) == (0, 0, 1.0)
    nearly = simulation.forecast(Threshold(noise="geometric", d=1000, scale=0.1, T=2))
    assert nearly.median_error < 0.01
    assert simulation.forecast(Korolova(d=4, b=2.0, T=20)).median_error is None


@pytest.mark.parametrize(
    "target", [Target(name="volume", amount=0.4), Target(name="queries", amount=60)]
)
def test_the_least_epsilon_meets_the_target_and_less_does_not(simulation, target):
    search = Search(simulation, Terms(delta=1e-6, per_user=20, options={"rounds": 3}))
    search.repeats = 1
    found = search.least(target)
    assert target.met(found.forecast)
    assert target.of(found.forecast) < 1.06 * target.amount
    less = simulation.forecast(found.candidate.plan(0.8 * found.epsilon, search.terms).mechanism)
    assert not target.met(less)
    assert found.plan.guarantee.epsilon == found.epsilon


def test_goals_choose_the_split(simulation):
    terms = Terms(delta=1e-6, mechanism="rounds", per_user=20)
    search = Search(simulation, terms)
    search.repeats = 2
    wide, precise = (search.at(4.0, goal=goal) for goal in ("coverage", "precision"))
    assert wide.forecast.queries > precise.forecast.queries
    assert precise.forecast.median_error < wide.forecast.median_error
    assert wide.candidate.options["count_share"] < precise.candidate.options["count_share"]


def test_settings_that_are_given_are_kept():
    asked = Terms(delta=1e-6, per_user=7, options={"rounds": 3, "count_share": 0.2})
    (only,) = candidates(asked)
    assert (only.per_user, only.options["rounds"], only.options["count_share"]) == (7, 3, 0.2)
    assert {each.per_user for each in candidates(Terms(delta=1e-6))} == {30, 100, 300}
    keys = candidates(Terms(delta=1e-6, set_only=True))
    assert {each.options["count_share"] for each in keys} == {0.0}


@pytest.mark.parametrize("mechanism", ["rounds", "threshold", "korolova"])
def test_one_mechanism_is_tried_the_one_that_is_named(mechanism):
    assert {each.mechanism for each in candidates(Terms(mechanism=mechanism))} == {mechanism}
    assert {each.mechanism for each in candidates(Terms())} == {"rounds"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: candidates(Terms(mechanism="threshold", options={"count_share": 0.2})),
            "--count-share is of rounds, not of threshold",
        ),
        (lambda: Target(name="speed", amount=1), "the target must be volume or queries"),
        (lambda: Target(name="volume", amount=1.5), "between 0 and 1"),
        (lambda: Target(name="queries", amount=0), "at least 1"),
        (lambda: candidates(Terms(delta=1e-6), "speed"), "coverage or precision"),
        (lambda: candidates(Terms(delta=1e-6, mechanism="hong")), "no forecast is available"),
        (lambda: candidates(Terms(delta=1e-6, set_only=True), "precision"), "about counts"),
        (lambda: of_shape("bing", users=10), "is not known"),
        (lambda: of_shape("plain", users=0), "at least 1"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_a_threshold_is_explained_in_a_sentence_and_numbers(simulation):
    made = plan(**BUDGET, mechanism="rounds", per_user=20)
    text = explain(made, simulation)
    weight = made.mechanism.needed_weight()
    assert f"asks for a weight of {weight:.3g}: {int(np.ceil(weight))} users with no other" in text
    even = int(re.search(r"held by about (\d+) users passed with even odds", text)[1])
    there = np.isin(np.arange(simulation.stand_in.size), simulation._run(made.mechanism, 0)[0])
    near = (simulation.users > 0.8 * even) & (simulation.users < 1.25 * even)
    assert 0.2 < there[near].mean() < 0.8
    assert explain(plan(**BUDGET, mechanism="threshold")).startswith("An item held by")


def test_the_flags_of_the_release_say_all_that_was_chosen():
    candidate = Candidate(
        mechanism="rounds", per_user=100, options={"rounds": 4, "count_share": 0.0}
    )
    terms = Terms(delta=1e-7, set_only=True, unit="user-day")
    choice = type("Choice", (), {"candidate": candidate, "epsilon": 0.5})()
    assert release_flags(choice, terms) == {
        "tables": ["query"],
        "mechanism": "rounds",
        "epsilon": 0.5,
        "delta": 1e-7,
        "per-user": 100,
        "rounds": 4,
        "unit": "user-day",
        "set-only": True,
    }


def test_a_log_as_a_stand_in_and_a_part_of_it(tmp_path):
    path = tmp_path / "log.tsv"
    rows = ["user\ttime\tquery", "a\t2026-01-02\tx", "a\t2026-01-01\ty", "a\t2026-01-03\tx"]
    path.write_text("\n".join([*rows, "b\t2026-01-01\tx", ""]))
    found = of_file(str(path))
    assert (found.units, found.size, found.pairs) == (2, 2, 3)
    # Units and items are numbered by their keys: a is the one with two items, and asked y first.
    (a,) = np.flatnonzero(np.bincount(found.unit) == 2)
    assert found.place[found.unit == a].tolist() == [0, 1]
    assert found.place[found.unit != a].tolist() == [0]
    assert found.item[found.unit == a][1] == found.item[found.unit != a][0]
    assert found.part(1).units == 1
    with pytest.raises(UsageError, match="needs a log with at least as many users"):
        found.part(3)


def test_charts_hold_every_line_and_no_script():
    drawn = charts.lines(
        {"a<b": [(0.1, 0.0), (1.0, 0.5)], "c": [(0.1, 0.1), (1.0, 0.5)]},
        title="t & u",
        x_label="epsilon",
        percent=True,
    )
    assert drawn.count("<polyline") == 2
    assert "a&lt;b" in drawn
    assert "t &amp; u" in drawn
    heights = [float(y) for y in re.findall(r'x="580" y="([\d.]+)"', drawn)]
    assert abs(heights[0] - heights[1]) >= charts.APART
    assert "script" not in drawn
    assert charts.linear(1030).high == 1200
    assert charts.linear(0.0).high > 0


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["murmurlog", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    printed = capsys.readouterr()
    return stopped.value.code, printed.out, printed.err


@pytest.fixture
def small_log(stand_in, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("murmurlog.publishing.planning.goals.FINAL_REPEATS", 2)
    days = np.datetime64("2026-01-01", "s") + stand_in.place.astype("timedelta64[s]")
    query = pa.array(stand_in.item).cast(pa.string())
    user = pa.array(stand_in.unit).cast(pa.string())
    pq.write_table(pa.table({"user": user, "time": days, "query": query}), "log.parquet")
    return tmp_path


def test_plan_writes_settings_that_release_takes_and_lists_what_is_unprotected(
    small_log, monkeypatch, capsys
):
    code, out, err = command(
        monkeypatch, capsys, "plan", "--raw", "log.parquet", "--target", "queries=40",
        "--mechanism", "rounds", "--per-user", 20, "--rounds", 2, "--out", "murmurlog.toml", "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert found["forecast"]["queries"] >= 40
    assert (found["target"], found["met"]) == ("queries=40", True)
    # What was given was not chosen by the log.
    things = [text.split(" ")[0] for text in found["unprotected"]]
    assert things == ["epsilon", "count-share"]
    assert "--unprotected" in found["release"]
    code, out, err = command(
        monkeypatch, capsys, "release", "log.parquet", "--out", "b", "--dry-run", "--json"
    )
    assert code == 0, err
    table = json.loads(out)["tables"]["query"]
    assert table["guarantee"]["epsilon"] == found["guarantee"]["epsilon"]
    assert table["mechanism"] == found["mechanism"]


def test_a_missed_target_exits_with_1_and_writes_the_best_that_can_be_had(
    small_log, monkeypatch, capsys
):
    code, out, err = command(
        monkeypatch, capsys, "plan", "--raw", "log.parquet", "--target", "volume=0.99",
        "--epsilon", 1, "--mechanism", "threshold", "--per-user", 5, "--out", "s.toml",
    )  # fmt: skip
    assert code == 1
    best = re.search(r"volume=0.99 is not reached: the best at epsilon 1 is about ([\d.]+) %", err)
    assert out.startswith("At epsilon 1 with 1,500 users about ")
    assert f"would be published, {best[1]} % of the volume." in out.splitlines()[0]
    written = Path("s.toml").read_text()
    assert "# missed: volume=0.99 is not reached" in written
    assert tomllib.loads(written)["release"]["epsilon"] == 1.0
    more = ("--out", "b", "--dry-run", "--json")
    code, out, err = command(
        monkeypatch, capsys, "--config", "s.toml", "release", "log.parquet", *more
    )
    assert code == 0, err
    assert json.loads(out)["tables"]["query"]["mechanism"].startswith("threshold")
    (line,) = [line for line in err.splitlines() if line.startswith("settings from s.toml")]
    assert line.endswith(": tables, mechanism, epsilon, delta, per-user")


def test_no_settings_ask_for_the_largest_epsilon_that_was_tried(small_log, monkeypatch, capsys):
    code, _, err = command(
        monkeypatch, capsys, "plan", "--raw", "log.parquet", "--target", "queries=1e9",
        "--mechanism", "threshold", "--per-user", 5, "--out", "s.toml",
    )  # fmt: skip
    assert code == 1
    assert "and the best at epsilon 20 is about" in err
    assert tomllib.loads(Path("s.toml").read_text())["release"]["epsilon"] == 1.0


@pytest.mark.slow
def test_a_number_of_users_alone_is_enough_for_a_forecast(small_log, monkeypatch, capsys):
    asked = ("--mechanism", "threshold", "--per-user", 3)
    code, out, err = command(monkeypatch, capsys, "plan", "--users", 300, "--epsilon", 8, *asked)
    assert code == 0, err
    assert out.startswith("At epsilon 8 with 300 users about ")
    made = murmurlog.plan(users=300, epsilon=8, mechanism="threshold", per_user=3)
    assert made.sentence == out.splitlines()[0]
    # What no forecast can vary is planned without one.
    assert isinstance(murmurlog.plan(users=300, mechanism="threshold", noise="geometric"), Plan)


@pytest.mark.parametrize("mechanism", ["rounds", "threshold"])
def test_the_sweep_is_a_table_of_one_mechanism(small_log, monkeypatch, capsys, mechanism):
    monkeypatch.setattr("murmurlog.publishing.planning.goals.EPSILONS", (1.0, 4.0))
    monkeypatch.setattr("murmurlog.publishing.planning.goals.ROUNDS_BOUNDS", (20,))
    asked = ("plan", "--raw", "log.parquet", "--mechanism", mechanism, "--sweep")
    code, out, err = command(monkeypatch, capsys, *asked, "--json")
    assert code == 0, err
    assert "exact figures of the log itself: keep them private" in err
    low, high = json.loads(out)["sweep"]
    assert (low["mechanism"], low["epsilon"], high["epsilon"]) == (mechanism, 1.0, 4.0)
    assert 0 < low["queries"] < high["queries"]
    code, out, err = command(monkeypatch, capsys, *asked)
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()] == ["epsilon", "1", "4", f"{mechanism},"]
    assert f"{high['volume']:.1%}" in out.splitlines()[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "volume=0.4"), "give --users N"),
        (("--target", "volume=2", "--users", 10), "between 0 and 1"),
        (("--target", "much", "--users", 10), "--target takes name=value"),
        (("--like", "aol"), "--like aol needs --users"),
        (("--like", "aol", "--raw", "log.parquet"), "give one"),
        (("--target", "queries=5", "--users", 10, "--set", "T=5"), "--set does not go"),
        (
            ("--target", "queries=5", "--users", 10, "--mechanism", "pool"),
            "no forecast is available",
        ),
        (("--sweep", "--users", 10, "--out", "x.toml"), "--sweep prints .*: leave --out out"),
        (("--sweep", "--users", 10, "--target", "queries=5"), "leave --target out"),
        (("--sweep", "--users", 10, "--epsilon", 2), "leave --epsilon out"),
        (("--target", "queries=5", "--users", 10, "--out", "log.parquet"), "exists"),
        (("--target", "queries=5", "--users", 10, "--out", "x.json"), "must end in .toml"),
        (("--out", "x.toml"), "--out is for a forecast"),
    ],
)
def test_plan_says_what_is_wrong_before_it_works(
    small_log, monkeypatch, capsys, arguments, message
):
    before = sorted(small_log.rglob("*"))
    code, _, err = command(monkeypatch, capsys, "plan", *arguments)
    assert code == 2, err
    assert re.search(message, err)
    assert sorted(small_log.rglob("*")) == before


def test_no_settings_are_written_into_a_bundle(tmp_path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "privacy.json").write_text("{}")
    with pytest.raises(UsageError, match="inside a bundle"):
        check_out(tmp_path / "bundle" / "plan.toml")
