"""Systems side by side: whose users a release is made from, what is scored on whom, what is said."""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from command import run
from scipy import stats

from murmurlog.bundle.models.derived_tables import add_derived_tables, weights
from murmurlog.bundle.read import Release, load
from murmurlog.bundle.schema import in_order
from murmurlog.errors import BundleError, UsageError
from murmurlog.evaluation import tasks
from murmurlog.evaluation.bundles import Bundle, load_bundle, reading_of
from murmurlog.evaluation.evaluate import evaluate, sweep
from murmurlog.evaluation.ground_truth import count_exactly, searches_of
from murmurlog.evaluation.parts import key_entropy
from murmurlog.evaluation.request import PlanContext
from murmurlog.evaluation.runner import Collector, average
from murmurlog.evaluation.scores import Figure, Result, Scores, compare, mean, merge, results
from murmurlog.evaluation.tasks import TASKS, Settings, Unfit
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.rows import RowReader
from murmurlog.logs.source import find
from murmurlog.mechanisms import parse
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.release import release

ANY = Settings(pattern="*")  # a plain log has no fears


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with an invented log of 500 users and a release of it."""
    folder = tmp_path_factory.mktemp("place")
    write(invent(rows=20_000, seed=4), folder / "log.parquet")
    release(
        str(folder / "log.parquet"), out=folder / "bundle", mechanism="threshold",
        tables=["query", "click"], epsilon=20, delta=1e-4, per_user=5,
    )  # fmt: skip
    return folder


@dataclass(frozen=True)
class RecordingTask:
    """A task that only records what it was shown."""

    name: str
    held_out: bool
    needs: frozenset = frozenset()
    seen: list = field(default_factory=list)

    def run(self, tables, truth, settings):
        if "click" not in tables:
            raise Unfit("needs a click table")
        self.seen.append((tables, truth))
        rows = Figure(measure="rows", value=float(tables["query"].num_rows), n=1)
        scores = Scores(measure="half", values=np.array([1.0, np.nan]), users=np.array([0, 1]))
        return [rows, scores]


@pytest.fixture
def recording_tasks(monkeypatch):
    recording = {name: RecordingTask(name, out) for name, out in (("whole", False), ("held", True))}
    monkeypatch.setattr(tasks, "TASKS", recording)
    return recording


def test_a_given_bundle_is_scored_as_it_is_and_its_recipe_runs_again_on_training_users(
    place, recording_tasks
):
    done = evaluate(
        str(place / "log.parquet"), bundles=[place / "bundle"], baselines=["raw"], folds=2
    )
    query = load(place / "bundle").tables["query"]
    whole = [tables for tables, _ in recording_tasks["whole"].seen]
    assert whole[1]["query"] is not None
    assert whole[1]["query"].equals(query)
    calls = recording_tasks["held"].seen
    assert len(calls) == 4  # raw and the bundle, in two folds
    for tables, truth in calls:
        users = truth.holders["query"].users
        asking = len(set(truth.searches["user"].to_pylist()))
        assert users + asking == 500
        assert not tables["query"].equals(query)
    assert done.internal
    assert done.as_json()["internal"] is True
    assert "run again" in done.how
    assert {system.name: system.kind for system in done.systems} == {
        "raw": "raw",
        "bundle": "bundle",
    }


@pytest.mark.slow
def test_a_seed_gives_the_same_tables_whatever_the_order_of_the_engine_s_rows(
    place, recording_tasks, monkeypatch
):
    """Threads of the engine decide in which order batches come, and rows in them."""
    read_batches = RowReader.read

    def backwards(self, batches, workspace, advance, *, type_rows):
        table = pa.Table.from_batches([type_rows(batch)[0] for batch in batches])
        turned.append(table.num_rows)
        rows = table.take(np.arange(table.num_rows)[::-1]).to_batches(700)
        return read_batches(self, rows, workspace, advance)

    turned, runs = [], []
    for way in (read_batches, backwards):
        monkeypatch.setattr(RowReader, "read", way)
        evaluate(
            str(place / "log.parquet"), folds=1, entropy=SeededEntropy(1),
            baselines=[
                "raw",
                *(f"{mechanism}:epsilon=80,delta=1e-4,per-user=5"
                  for mechanism in ("threshold", "zealous", "korolova", "rounds")),
            ],
        )  # fmt: skip
        runs.append([tables for tables, _ in recording_tasks["held"].seen])
        recording_tasks["held"].seen.clear()
    assert max(turned) > 100
    assert len(runs[0]) == 5
    assert min(tables["query"].num_rows for tables in runs[0]) > 5
    for before, after in zip(*runs, strict=True):
        for name, table in before.items():
            assert in_order(table).equals(in_order(after[name])), name


def test_with_a_separate_log_the_given_bundle_is_scored_itself(place, recording_tasks):
    done = evaluate(
        str(place / "log.parquet"), bundles=[place / "bundle"], baselines=[],
        test=str(place / "log.parquet"),
    )  # fmt: skip
    ((tables, truth),) = recording_tasks["held"].seen
    assert tables["query"].equals(load(place / "bundle").tables["query"])
    assert truth.searches.num_rows == 20_000
    assert "separate log" in done.how


def test_a_separate_log_may_be_of_a_later_time(place, tmp_path, recording_tasks):
    """A release's --until is about its own log."""
    log = str(place / "log.parquet")
    release(
        log, out=tmp_path / "early", mechanism="threshold", tables=["query", "click"],
        epsilon=20, delta=1e-4, until="2026-05-01",
    )  # fmt: skip
    lines = "7,2027-01-01 10:00:00,weather,a.com\n7,2027-01-02 10:00:00,news,\n"
    (tmp_path / "late.csv").write_text("user,time,query,url\n" + lines)
    evaluate(log, bundles=[tmp_path / "early"], baselines=[], test=str(tmp_path / "late.csv"))
    ((_, truth),) = recording_tasks["held"].seen
    assert truth.searches["query"].to_pylist() == ["weather", "news"]


def test_the_truth_has_the_sessions_of_the_bundle(tmp_path, recording_tasks):
    rows = "".join(
        f"{user},2006-01-01 10:{m:02},q{m},a.com\n" for user in range(30) for m in (0, 20)
    )
    log, out = tmp_path / "log.csv", tmp_path / "bundle"
    log.write_text("user,time,query,url\n" + rows)
    how = {
        "tables": ["query", "click", "pair"],
        "mechanism": "threshold(noise=geometric, d=5, scale=2.0, T=20)",
    }
    release(str(log), out=out, gap=600.0, **how)
    evaluate(str(log), bundles=[out], baselines=[], folds=1)
    assert {truth.tables["pair"].num_rows for _, truth in recording_tasks["whole"].seen} == {0}
    searches = [truth.searches for _, truth in recording_tasks["held"].seen]
    assert all(len(set(s["session"].to_pylist())) == s.num_rows for s in searches)
    release(str(log), out=tmp_path / "other", **how)
    with pytest.raises(UsageError, match=r"different sessions \(--gap\)"):
        evaluate(str(log), bundles=[out, tmp_path / "other"])


def test_a_table_without_counts_takes_none_from_the_others(place, tmp_path):
    out = tmp_path / "bundle"
    mechanism = {"query": "rounds", "click": "threshold"}
    release(
        str(place / "log.parquet"), out=out, tables=["query", "click"], mechanism=mechanism,
        count_share=0,
    )  # fmt: skip
    counts = {name: claim.count for name, claim in load(out).certificate.tables.items()}
    assert counts == {"query": None, "click": "users"}
    certificate = load(out).certificate
    assert not recipe_of(certificate).set_only
    text = "synthetic(d=9, scale=1.0, T=20, b_sizes=10.0)"
    log = replace(certificate.tables["query"], mechanism=text)
    assert not recipe_of(replace(certificate, tables={"log": log})).set_only


def test_where_nobody_is_held_out_there_are_no_questions(tmp_path):
    rows = "".join(f"u1,2006-01-01 10:{m:02},q{m % 7},a{m % 3}.com\n" for m in range(50))
    (tmp_path / "log.csv").write_text("user,time,query,url\n" + rows)
    done = evaluate(str(tmp_path / "log.csv"), baselines=["raw"], folds=1, settings=ANY)
    assert {r.n for r in done.results if r.task == "autocomplete"} == {0}
    assert {r.task for r in done.results} > {"suggestion", "session-search", "ad-hoc"}


def test_every_score_is_told_over_the_answered_and_over_all(place, recording_tasks):
    done = evaluate(str(place / "log.parquet"), baselines=["raw"], folds=1)
    values = {(r.task, r.measure): (r.value, r.n) for r in done.results}
    assert values["held", "half (covered)"] == (1.0, 1)
    assert values["held", "half (all)"] == (0.5, 2)
    assert values["held", "coverage"] == (0.5, 2)


def test_what_cannot_be_run_is_said(place, recording_tasks):
    recording_tasks["held"].__dict__["needs"] = frozenset({"labels"})
    done = evaluate(str(place / "log.parquet"), baselines=["raw", "k-query:20"], folds=1, repeats=2)
    assert {(s.system, s.task, s.why) for s in done.skipped} == {
        ("raw", "held", "the log has no planted truth (--labels)"),
        ("k-query:20", "held", "the log has no planted truth (--labels)"),
        ("k-query:20", "whole", "needs a click table"),
    }


def test_a_log_without_clicks_and_times_is_evaluated_on_the_rest(tmp_path, recording_tasks):
    rows = "".join(f"{user},weather\n{user},news\n" for user in range(20))
    (tmp_path / "log.csv").write_text("user,query\n" + rows)
    recording_tasks["whole"].__dict__["needs"] = frozenset({"url", "time"})
    done = evaluate(str(tmp_path / "log.csv"), baselines=["raw"], folds=1)
    assert [s.why for s in done.skipped if s.task == "whole"] == [
        "the log has no times and no clicked urls"
    ]


def test_two_systems_of_one_name_and_nothing_to_evaluate_are_refused(place):
    log = str(place / "log.parquet")
    with pytest.raises(UsageError, match="two systems are called bundle"):
        evaluate(log, bundles=[place / "bundle", place / "bundle"])
    with pytest.raises(UsageError, match="two systems are called k-query:20"):
        evaluate(log, baselines=["k-query:20", "k-query:20"])
    with pytest.raises(UsageError, match="nothing to evaluate"):
        evaluate(log, baselines=[])
    with pytest.raises(UsageError, match="--tasks has no tea"):
        evaluate(log, tasks=["tea"])
    with pytest.raises(UsageError, match="--folds must be from 1"):
        evaluate(log, folds=0)


def test_bundles_read_in_different_ways_are_not_compared(place, tmp_path):
    log = str(place / "log.parquet")
    release(log, out=tmp_path / "other", tables=["query", "click"], url="host")
    with pytest.raises(UsageError, match=r"different ways \(url\)"):
        evaluate(log, bundles=[place / "bundle", tmp_path / "other"])


def test_a_bundle_that_used_a_list_or_a_public_file_needs_it_again(place, tmp_path):
    log = str(place / "log.parquet")
    (tmp_path / "deny.txt").write_text("weather\n")
    release(log, out=tmp_path / "b", tables=["query"], deny=tmp_path / "deny.txt")
    with pytest.raises(UsageError, match="give --deny again"):
        evaluate(log, bundles=[tmp_path / "b"])
    (tmp_path / "pool.txt").write_text("weather\nnews\n")
    release(log, out=tmp_path / "p", tables=["query"], mechanism="pool", pool=tmp_path / "pool.txt")
    with pytest.raises(UsageError, match="give it again, as --bundle p:pool=FILE"):
        evaluate(log, bundles=[tmp_path / "p"])
    with pytest.raises(UsageError, match="bundle was not made with pool: leave it out"):
        evaluate(log, bundles=[f"{place / 'bundle'}:pool={tmp_path / 'pool.txt'}"])


def test_public_lists_and_maps_are_asked_for_again_too(place, tmp_path):
    log, lists = str(place / "log.parquet"), tmp_path / "lists.tsv"
    lists.write_text("query\turl\nweather\ta.com\n")
    release(
        log, out=tmp_path / "l", tables=["query", "click"], mechanism="korolova", result_lists=lists
    )
    with pytest.raises(UsageError, match="give it again, as --bundle l:result-lists=FILE"):
        evaluate(log, bundles=[tmp_path / "l"], baselines=[])
    paths = parse("label-paths(l_s=1, l_q=2, subsequences=all, b=1.0, L=2, T=5)")
    with pytest.raises(UsageError, match="give it again, as --bundle b:map=FILE"):
        recipe_of(certificate_of(place, session=paths))


def recipe_of(certificate):
    """The recipe in a certificate of a bundle b, without public files."""
    release = Release(path=Path("b"), certificate=certificate)
    return Bundle(name="b", release=release, files={}).recipe(PlanContext(columns=()))


def certificate_of(place, **mechanisms):
    """A certificate that says that these mechanisms made these tables, whatever they can make."""
    honest = load(place / "bundle").certificate
    claim = honest.tables["query"]
    tables = {kind: replace(claim, mechanism=str(m)) for kind, m in mechanisms.items()}
    return replace(honest, tables=tables)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("session", "threshold(noise=geometric, d=1, scale=1.0, T=20)", "which it never does"),
        ("query", "left-out(d=5, sigma=40.0)", "which it never does"),
        ("left_out", "left-out(d=5, sigma=40.0)", "and no query table"),
        ("query", "zealous-keywords(d=1, b=1.0, fakes=10.0)", "and no keyword table"),
    ],
)
def test_a_recipe_that_no_release_has_is_refused(place, kind, text, message):
    with pytest.raises(BundleError, match=message):
        recipe_of(certificate_of(place, **{kind: parse(text)}))


def test_public_files_are_read_for_the_tables_and_urls_of_the_bundle(place, tmp_path):
    """The commands are as an owner gives them: nothing of the bundle is said again but the file."""
    pool, out = tmp_path / "pool.tsv", tmp_path / "b"
    pool.write_text("weather\texample.org/a\nweather\texample.org/b\nnews\texample.net\n")
    log = str(place / "log.parquet")
    release(
        log, out=out, tables=["query", "click"], mechanism="pool", pool=pool, url="host", epsilon=5
    )  # fmt: skip
    bundle = load_bundle(f"{out}:pool={pool}")
    where = PlanContext(columns=(), reading=reading_of(ReadOptions(), {"b": bundle.release}))
    pools = bundle.recipe(where).view.options["pool"]
    assert {name: listed[0].keys.size for name, listed in pools.items()} == {
        name: claim.parameters["pool_size"]
        for name, claim in bundle.release.certificate.tables.items()
    }


def test_a_recipe_makes_the_same_kind_of_release(place):
    """Seeded alike, the recipe draws what the release drew."""
    out = place / "seeded"
    release(
        str(place / "log.parquet"), out=out, mechanism="threshold", tables=["query", "click"],
        epsilon=20, delta=1e-4, per_user=5, entropy=SeededEntropy(3), set_only=True,
    )  # fmt: skip
    bundle = load(out)
    recipe = load_bundle(out).recipe(PlanContext(columns=()))
    done = reading_of(ReadOptions(), {"seeded": bundle})
    with connect() as engine:
        source = find(str(place / "log.parquet"))
        log = done.read(source, engine=engine, urls=True, entropy=SeededEntropy(3), say=print)
        tables = recipe.release(log, done, entropy=SeededEntropy(3))
    for name, table in bundle.tables.items():
        assert set(tables[name]["query"].to_pylist()) == set(table["query"].to_pylist())
        assert tables[name].column_names == table.column_names


def test_exact_tables_and_searches_by_hand(tmp_path):
    (tmp_path / "log.csv").write_text(
        "user,time,query,url\n"
        "a,2026-01-01 10:00:00,red shoes,x.com\n"
        "a,2026-01-01 10:00:00,red shoes,y.com\n"
        "a,2026-01-01 10:05:00,shoes,\n"
        "a,2026-01-01 12:00:00,shoes,x.com\n"
        "b,2026-01-01 10:00:00,shoes,x.com\n"
    )
    with connect() as engine:
        log = read(find(str(tmp_path / "log.csv")), engine=engine, entropy=key_entropy())
        tables, holders = count_exactly(log)
        searches = searches_of(log)
    assert tables["query"].to_pylist() == [
        {"query": "shoes", "users": 2, "rows": 3},
        {"query": "red shoes", "users": 1, "rows": 2},
    ]
    assert tables["keyword"].to_pylist() == [
        {"keyword": "shoes", "users": 2, "rows": 5},
        {"keyword": "red", "users": 1, "rows": 2},
    ]
    assert tables["pair"].to_pylist() == [
        {"query": "red shoes", "next_query": "shoes", "users": 1, "rows": 1}
    ]
    assert tables["session"].to_pylist() == [
        {"queries": ["red shoes", "shoes"], "users": 1, "rows": 1}
    ]
    assert tables["click"].num_rows == 3
    assert holders["query"].users == 2
    assert sorted(holders["query"].item.tolist()) == [0, 0, 1]
    # Users come in the order of their keys: a is the one with four searches.
    rows = searches.to_pylist()
    (four,) = (user for user in (0, 1) if searches["user"].to_pylist().count(user) == 4)
    first = {user: min(r["session"] for r in rows if r["user"] == user) for user in (0, 1)}
    assert first[0] == 0
    assert [
        (r["session"] - first[four], r["query"], r["url"]) for r in rows if r["user"] == four
    ] == [
        (0, "red shoes", "x.com"),
        (0, "red shoes", "y.com"),
        (0, "shoes", None),
        (1, "shoes", "x.com"),
    ]
    assert [(r["query"], r["url"]) for r in rows if r["user"] != four] == [("shoes", "x.com")]
    assert sorted({r["session"] for r in rows}) == [0, 1, 2]
    assert [r["user"] for r in rows] == sorted(r["user"] for r in rows)


def test_tables_that_follow_from_published_ones():
    log = pa.table(
        {
            "user": ["1", "1", "2"],
            "query": ["a b", "a", "a"],
            "url": ["x", None, "x"],
            "count": [3, 1, 1],
        }
    )
    tables = add_derived_tables({"log": log})
    assert tables["query"].to_pylist() == [{"query": "a", "users": 2}, {"query": "a b", "users": 1}]
    assert tables["click"].num_rows == 2
    assert tables["keyword"].to_pylist() == [
        {"keyword": "a", "users": 3},
        {"keyword": "b", "users": 1},
    ]
    sessions = pa.table({"queries": [["a", "b", "a"], ["a", "b"]], "users": [5, 2]})
    assert add_derived_tables({"session": sessions})["pair"].to_pylist() == [
        {"query": "a", "next_query": "b", "users": 7},
        {"query": "b", "next_query": "a", "users": 5},
    ]
    assert weights(pa.table({"query": ["a", "b"], "users": [-3, 2]})).tolist() == [0.0, 2.0]
    assert weights(pa.table({"query": ["a"]})).tolist() == [1.0]


def test_a_mean_has_an_interval_over_users_not_over_questions():
    """One user who asked everything leaves nothing to resample."""
    values = np.array([0.0, 1.0] * 50)
    alone = mean("m", values, np.zeros(100, np.int64))
    assert (alone.value, alone.low, alone.high, alone.n) == (0.5, 0.5, 0.5, 100)
    apart = mean("m", values, np.arange(100))
    assert apart.low is not None
    assert apart.high is not None
    assert 0.35 < apart.low < 0.45 < 0.55 < apart.high < 0.65  # 0.5 +- 1.96 * 0.05
    assert math.isnan(mean("m", np.array([]), np.array([], np.int64)).value)


def test_folds_are_put_together_and_their_users_kept_apart():
    first = Scores(measure="m", values=np.array([1.0, np.nan]), users=np.array([0, 1]))
    (both,) = merge([[first], [first]])
    assert isinstance(both, Scores)
    assert both.users.tolist() == [0, 1, 2, 3]
    (figure,) = merge(
        [[Figure(measure="f", value=1.0, n=1)], [Figure(measure="f", value=0.0, n=3)]]
    )
    assert figure == Figure(measure="f", value=0.25, n=4)


def test_repeats_are_averaged_and_their_spread_is_in_the_interval():
    def line(value):
        return Result(
            system="s", task="t", measure="m", value=value, low=value - 0.1, high=value + 0.1, n=9
        )

    (average_line,) = average([[line(0.2)], [line(0.6)]])
    spread = math.hypot(0.1, 1.96 * math.sqrt(0.08))
    assert average_line.value == pytest.approx(0.4)
    assert average_line.high == pytest.approx(0.4 + spread)


def test_tests_are_of_what_the_lines_say_where_releases_are_repeated():
    collector, users = Collector(), np.arange(50)
    collector.add("t", "raw", 0, [Scores(measure="m", values=np.full(50, 0.5), users=users)])
    for repeat, value in enumerate((0.9, 0.1, 0.1)):
        values = np.where(users < 10, np.nan, value)  # misses are 0
        collector.add("t", "s", repeat, [Scores(measure="m", values=values, users=users)])
    lines, (test,) = collector.lines(["raw", "s"])
    means = {line.system: line.value for line in lines if line.measure == "m (all)"}
    assert test.difference == pytest.approx(means["s"] - means["raw"])
    assert test.difference < 0


def test_the_paired_test_is_that_of_scipy_by_hand():
    a = Scores(measure="m", values=np.array([1.0, 0.0, np.nan]), users=np.arange(3))
    b = Scores(measure="m", values=np.array([1.0, 1.0, 1.0]), users=np.arange(3))
    (comparison,) = compare("s", "raw", "t", [a], [b])
    # Differences 0, -1, -1: mean -2/3, standard error 1/3, t = -2 with 2 degrees of freedom.
    assert comparison.difference == pytest.approx(-2 / 3)
    assert comparison.p == pytest.approx(0.18350, abs=1e-5)
    # Three questions of one user and one of another are two users' worth of evidence, not four.
    many = np.array([0, 0, 0, 1])
    c = Scores(measure="m", values=np.array([0.5, 0.6, 0.4, 0.2]), users=many)
    d = Scores(measure="m", values=np.ones(4), users=many)
    (clustered,) = compare("s", "raw", "t", [c], [d])
    assert clustered.p is not None
    apart = stats.ttest_rel(c.values, d.values).pvalue
    assert clustered.p > 3 * apart
    (same,) = compare("s", "raw", "t", [b], [b])
    assert same.p is None
    nothing = Scores(measure="m", values=np.full(3, np.nan), users=np.arange(3))
    (worse,) = compare("s", "raw", "t", [nothing], [b])
    assert (worse.difference, worse.p) == (-1.0, 0.0)  # surely different, not "no difference"


def test_a_sweep_varies_one_parameter(place, monkeypatch):
    monkeypatch.setattr(tasks, "TASKS", {"whole": RecordingTask("whole", False)})
    log = str(place / "log.parquet")
    done = sweep(
        log, mechanisms=["threshold:tables=[query,click],delta=1e-4,per-user=5"],
        vary=("epsilon", [5, 20]), tasks=["whole"], baselines=["users-30"],
    )  # fmt: skip
    rows = [p for p in done.points if p.result.measure == "rows"]
    line = "threshold:tables=[query,click],delta=1e-4,per-user=5"
    assert [(p.at, p.result.system) for p in rows] == [(5, line), (20, line)]
    assert rows[0].result.value < rows[1].result.value
    assert {s.name for s in done.systems} == {
        f"{line},epsilon=5",
        f"{line},epsilon=20",
        "users-30",
    }


def test_results_tell_coverage_once_and_every_score_twice():
    a = Scores(measure="a", values=np.array([1.0, np.nan]), users=np.arange(2))
    b = Scores(measure="b", values=np.array([1.0, 1.0]), users=np.arange(2))
    lines = results("s", "t", [Figure(measure="f", value=1.0, n=1), a, b])
    assert [(line.measure, line.n) for line in lines] == [
        ("f", 1),
        ("coverage", 2),
        ("a (covered)", 1),
        ("a (all)", 2),
        ("b (covered)", 2),
        ("b (all)", 2),
    ]


def test_a_mean_over_no_question_is_no_number_in_every_form(place, tmp_path):
    nothing = Scores(measure="a", values=np.array([np.nan]), users=np.array([0]))
    single = Scores(measure="a", values=np.array([0.5]), users=np.array([0]))
    coverage, covered, every = results("s", "t", [nothing])
    assert (covered.measure, covered.n, every.value, coverage.value) == ("a (covered)", 0, 0, 0)
    assert math.isnan(covered.value)
    assert covered.as_json()["value"] is None
    # Of several folds or releases, those that answered something decide.
    folds = [results("s", "t", [figure]) for figure in (nothing, single)]
    assert average(folds)[1].value == 0.5
    assert math.isnan(average([folds[0], folds[0]])[1].value)
    figures = [mean("b", np.array(values), np.arange(len(values))) for values in ([], [0.5])]
    (merged,) = merge([[figure] for figure in figures])
    assert (merged.value, merged.n) == (0.5, 1)
    done = run(
        "evaluate", place / "log.parquet", "--folds", 1, "--tasks", "suggestion",
        "--baselines", "raw,threshold(d=1, scale=9, T=100000):tables=[query,pair]",
        "--out", tmp_path / "report.html",
    )  # fmt: skip
    (row,) = [line.split() for line in done.stdout.splitlines() if "P@5 (covered)" in line]
    assert row[-1] == "-"
    (line,) = [
        line.split(",")
        for line in (tmp_path / "report.csv").read_text().splitlines()
        if line.startswith('"threshold') and ",P@5 (covered)," in line
    ]
    assert line[-5:-3] == ["", ""]
    stated = json.loads((tmp_path / "report.json").read_text())["results"]
    assert {r["value"] for r in stated if r["measure"] == "P@5 (covered)" and not r["n"]} == {None}


def test_every_task_runs_on_a_log_that_has_what_it_needs(tmp_path):
    log = invent(rows=6_000, seed=5, like="aol")
    write(log, tmp_path / "log.parquet")
    options = {"labels": log.labels, "folds": 1}
    done = evaluate(str(tmp_path / "log.parquet"), baselines=["raw", "users-30"], **options)
    skipped = {(s.system, s.task): s.why for s in done.skipped}
    scored = {result.task for result in done.results if result.system == "raw"}
    assert scored == set(TASKS)
    lacking = ("substitution", "spelling", "related-queries")
    assert set(skipped) == {("users-30", task) for task in lacking}
    assert done.top_list[0][1] == 1
    raw = {r.measure: r.value for r in done.results if (r.system, r.task) == ("raw", "statistics")}
    assert raw["query distinct kept"] == raw["click volume kept (rows)"] == 1.0


def test_sets_have_a_task_of_their_own(tmp_path):
    log = invent(rows=6_000, seed=5, like="aol")
    write(log, tmp_path / "log.parquet")
    source = str(tmp_path / "log.parquet")
    request = "rounds:tables=itemset,epsilon=10,delta=0.01"
    done = evaluate(source, baselines=["raw", request], tasks=["related-queries"], folds=1)
    assert not done.skipped
    cover = {r.system: r.value for r in done.results if r.measure == "coverage"}
    assert set(cover) == {"raw", request}
    assert cover["raw"] > 0


def test_tasks_that_need_clicks_or_times_say_so_and_the_rest_run(tmp_path):
    log = invent(rows=3_000, seed=5)
    csv.write_csv(log.table.select(["user", "query"]), tmp_path / "log.csv")
    done = evaluate(str(tmp_path / "log.csv"), baselines=["raw"], folds=1, settings=ANY)
    assert {s.task: s.why for s in done.skipped} == {
        "ad-hoc": "the log has no clicked urls",
        "suggestion": "the log has no times",
        "session-search": "the log has no times and no clicked urls",
        "substitution": "the log has no times",
        "keyword-generation": "the log has no clicked urls",
        "index-caching": "needs clicks in the log, or --doc-freq for the lengths of posting lists",
        "spelling": "the log has no planted truth (--labels) and no times",
        "sites": "the log has no planted truth (--labels) and no clicked urls",
        "query-classification": "the log has no planted truth (--labels) and no clicked urls",
    }
    assert {result.task for result in done.results} == {
        "statistics",
        "top-list",
        "autocomplete",
        "related-queries",
    }


def test_without_a_bundle_the_rows_may_be_chosen(tmp_path):
    days = "".join(f"{user},2026-01-0{1 + user % 2},q\n" for user in range(20))
    (tmp_path / "log.csv").write_text("user,time,query\n" + days)
    done = evaluate(str(tmp_path / "log.csv"), tasks=["statistics"], since="2026-01-02")
    assert done.log == {"rows": 10, "users": 10}
