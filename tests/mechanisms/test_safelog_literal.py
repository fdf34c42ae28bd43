"""A_Click as printed: its steps, and where they fail on the running code."""

import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command import run
from hypothesis import given
from hypothesis import strategies as st
from laws import hockey_stick, mass

import murmurlog
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.errors import Refused, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View, parse
from murmurlog.mechanisms.baselines.safelog_literal import SafelogLiteral
from murmurlog.privacy import survival, turning_point
from murmurlog.privacy.sampler import SystemEntropy
from murmurlog.publishing.release import release
from papers.formulas import click_printed_epsilon

MURMURLOG = Path(sys.executable).with_name("murmurlog")
QUIET = {"b": 0.01, "b_q": 0.01, "b_c": 0.01}  # noise that is 0 but for a chance of e^-100


def rows_of_query(query, users, url="", minute=0):
    time = f"2026-01-01 10:{minute:02}:00"
    return [{"user": user, "time": time, "query": query, "url": url} for user in users]


def user_names(n, name="u"):
    return [f"{name}{i}" for i in range(n)]


def count_queries(path, mechanism, pool=None):
    """The counts that the noise is added to, as {query: rows}."""
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        view = View(kind="query", options={} if pool is None else {"pool": pool})
        return {
            query: rows
            for tally in mechanism.gather(log, view, entropy=SystemEntropy())
            for shard in tally
            for query, rows in zip(
                tally.table(shard.keys)["query"].to_pylist(), shard.sums.tolist(), strict=True
            )
        }


def release_tables(path, mechanism, **options):
    """What Algorithm 1 publishes: {query: rows}, {(query, url): rows}."""
    with connect() as engine:
        log, entropy, done = read(find(str(path)), engine=engine), SystemEntropy(), {}
        for kind in ("query", "click"):
            view = View(kind=kind, published=dict(done), **options)
            gathered = mechanism.gather(log, view, entropy=entropy)
            done[kind] = mechanism.release(gathered, entropy=entropy)
    queries = {row["query"]: row["rows"] for row in done["query"].to_pylist()}
    clicks = {(row["query"], row["url"]): row["rows"] for row in done["click"].to_pylist()}
    return queries, clicks


# --- the steps ------------------------------------------------------------------------------------


def test_the_steps_of_the_algorithm_without_noise(write_tsv):
    rows = rows_of_query("maps", user_names(12), "a.example") + rows_of_query(
        "news", user_names(8), "b.example", minute=1
    )
    rows += rows_of_query("typo", user_names(4), minute=2)  # fewer than tau rows
    rows += rows_of_query(
        "maps", user_names(12), "c.example", minute=3
    )  # for eight, beyond q_f = c_f = 2
    path = write_tsv(rows)
    mechanism = SafelogLiteral(q_f=2, c_f=2, K=10, **QUIET)
    # Eight ask maps, then news. Four ask no news: their second row is maps again.
    assert count_queries(path, mechanism) == {"maps": 12 + 4, "news": 8}
    queries, clicks = release_tables(path, mechanism)
    assert queries == {"maps": 16}
    assert clicks == {("maps", "a.example"): 12, ("maps", "c.example"): 4}


def test_repeated_rows_of_one_person_count_as_in_the_thesis(write_tsv):
    path = write_tsv(rows_of_query("mine", ["u0"] * 7))
    assert count_queries(path, SafelogLiteral(q_f=3)) == {"mine": 3}


def test_queries_of_the_pool_count_zero_and_get_no_urls(write_tsv):
    path = write_tsv(rows_of_query("maps", user_names(50), "a.example"))
    pool = Listed(table=pa.table({"query": ["maps", *(f"fake {i}" for i in range(4000))]}))
    mechanism = SafelogLiteral(b=5.0, b_q=0.01, b_c=0.01, K=9)
    counts = count_queries(path, mechanism, pool)
    assert counts["maps"] == 50
    assert sum(counts.values()) == 50
    assert len(counts) == 4001
    queries, clicks = release_tables(path, mechanism, options={"pool": {"query": pool}})
    assert {query for query, _ in clicks} <= {"maps"}
    fakes, p = len(queries) - 1, survival(noise="geometric", scale=5.0, x=10)
    assert abs(fakes - 4000 * p) < 8 * math.sqrt(4000 * p)
    # The same measure sees a threshold, or a scale, that is half as large.
    for scale, T in ((5.0, 5), (2.5, 10)):
        wrong = survival(noise="geometric", scale=scale, x=T)
        assert abs(fakes - 4000 * wrong) > 8 * math.sqrt(4000 * wrong)
    assert {row for query, row in queries.items() if query != "maps"} == {0}


def test_a_pool_of_other_keys_is_named(write_tsv):
    path = write_tsv(rows_of_query("maps", user_names(50), "a.example"))
    with pytest.raises(UsageError, match="the pool must hold queries, but holds query, url"):
        count_queries(
            path, SafelogLiteral(), Listed(table=pa.table({"query": ["a"], "url": ["b"]}))
        )


# --- where the claim fails ------------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 3])
def test_one_person_changes_the_counts_by_8_N_plus_1_through_the_filter(write_tsv, N):
    rows = rows_of_query("common", user_names(5))
    for i in range(N):
        holders = user_names(4, f"holder{i}-")
        rows += rows_of_query(f"rare {i}", holders) + rows_of_query("common", holders, minute=1)
    victim = [rows_of_query(f"rare {i}", ["victim"], minute=i)[0] for i in range(N)]
    mechanism = SafelogLiteral(q_f=1)
    without = count_queries(write_tsv(rows), mechanism)
    within = count_queries(write_tsv(rows + victim), mechanism)
    moved = sum(abs(within.get(q, 0) - without.get(q, 0)) for q in within | without)
    assert moved == 8 * N + 1
    assert moved > mechanism.q_f


def test_a_row_of_a_bare_url_is_there_exactly_if_the_victim_is(write_tsv):
    crowd = rows_of_query("maps", user_names(300), "a.example")
    victim = rows_of_query("maps", ["victim"], "victims-own.example")
    mechanism = SafelogLiteral()
    for _ in range(3):
        for rows, leaks in ((crowd, False), (crowd + victim, True)):
            _, clicks = release_tables(write_tsv(rows), mechanism)
            assert (("maps", "victims-own.example") in clicks) is leaks


def test_delta_of_a_bare_url_is_about_one_by_the_exact_law():
    mechanism, users = SafelogLiteral(), 300
    p = mechanism.pass_probability(users)
    # (no row, row); the row's noisy count adds outputs and cannot make them less distinguishable.
    within, without = np.array([1 - p, p]), np.array([1.0, 0.0])
    assert mechanism.parameters()["epsilon_thesis"] < 5.3
    for epsilon in (5.3, 100.0):
        assert hockey_stick([within], [without], epsilon) > 0.999


def test_a_query_outside_the_pool_needs_the_delta_that_the_thesis_leaves_out():
    # Where the filter is passed by repeats, one person alone can show: five rows of one query.
    mechanism = SafelogLiteral()
    p = mechanism.pass_probability(5)
    assert p == pytest.approx(float(mass("geometric", 10.0, np.arange(6, 2000)).sum()))
    within, without = np.array([1 - p, p]), np.array([1.0, 0.0])
    claimed = mechanism.parameters()["epsilon_thesis"]
    assert hockey_stick([within], [without], claimed) > 0.25


# --- releases -------------------------------------------------------------------------------------


@pytest.fixture
def log(write_tsv):
    rows = rows_of_query("maps", user_names(400), "a.example") + rows_of_query(
        "news", user_names(300), minute=1
    )
    return write_tsv(rows + rows_of_query("maps", ["u1"], "own.example", minute=2))


def test_without_the_owners_word_nothing_is_written_or_booked(log, tmp_path):
    before = sorted(tmp_path.iterdir())
    at = {"mechanism": "safelog-literal", "epsilon": 10.0, "out": tmp_path / "b"}
    with pytest.raises(Refused, match="safelog-literal has no privacy guarantee"):
        release(str(log), **at)
    with pytest.raises(Refused, match="no guarantee"):
        release(str(log), **at, accept_no_guarantee=True, ledger=tmp_path / "l", source_name="s")
    assert sorted(tmp_path.iterdir()) == before


def test_the_command_line_refuses_with_3_and_verify_with_1(log, tmp_path):
    in_place = partial(run, cwd=tmp_path)
    before = sorted(tmp_path.iterdir())
    at = ("release", log, "--mechanism", "safelog-literal", "--epsilon", 10, "--out", "b")
    done = in_place(*at, "--ledger", "l.db", "--source", "shop")
    assert done.returncode == 3
    assert "safelog-literal has no privacy guarantee" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
    done = in_place(*at, "--accept-no-guarantee", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["guarantee"]["notion"] == "none"
    assert result["tables"]["click"]["rows"] == 2  # own.example, clicked by one person, is there
    assert in_place("verify", "b").returncode == 1


def test_a_release_says_what_the_thesis_claims_and_that_nothing_is_proved(log, tmp_path):
    outcome = release(str(log), mechanism="safelog-literal", epsilon=10.0, per_user=2,
                      out=tmp_path / "b", accept_no_guarantee=True)  # fmt: skip
    assert outcome.guarantee.notion == "none"
    claims = murmurlog.load(tmp_path / "b").certificate.tables
    assert claims["query"].mechanism == claims["click"].mechanism
    parameters = claims["query"].parameters
    assert parameters["epsilon_thesis"] == pytest.approx(10.0)
    assert parameters["epsilon_thesis_query"] == pytest.approx(5.0)
    assert parameters["epsilon_thesis_click"] == pytest.approx(5.0)
    assert claims["query"].count == "rows"
    report = murmurlog.verify(tmp_path / "b")
    assert [check.name for check in report.checks if not check.ok] == ["guarantee"]


def test_clicks_need_the_queries_that_were_selected(log, tmp_path):
    options = {"mechanism": "safelog-literal", "out": tmp_path / "b", "accept_no_guarantee": True}
    with pytest.raises(UsageError, match="name query beside click"):
        release(str(log), tables=["click"], **options)
    assert not (tmp_path / "b").exists()
    assert release(str(log), tables=["click", "query"], **options).rows["click"] > 0


# --- parameters -----------------------------------------------------------------------------------


def test_the_text_with_its_defaults():
    text = "safelog-literal(q_f=10, c_f=10, b=10, b_q=10, b_c=10, K=10)"
    assert str(SafelogLiteral()) == text
    assert parse("safelog-literal") == parse(text) == SafelogLiteral()
    assert parse("safelog-literal(d=3, K=50)") == SafelogLiteral(q_f=3, c_f=3, K=50.0)


@given(
    q_f=st.integers(1, 500),
    c_f=st.integers(1, 500),
    b=st.floats(0.01, 1e6),
    b_q=st.floats(0.01, 1e6),
    K=st.floats(1, 1e6),
)
def test_text_is_the_name(q_f, c_f, b, b_q, K):
    mechanism = SafelogLiteral(q_f=q_f, c_f=c_f, b=b, b_q=b_q, K=K)
    assert parse(str(mechanism)) == mechanism
    parameters = mechanism.parameters()
    assert json.loads(json.dumps(parameters)) == parameters


@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 2), (5.0, 20), (0.1, 1)])
def test_solving_inverts_the_formula_of_the_thesis(epsilon, d):
    whole = SafelogLiteral.solve(epsilon=epsilon, delta=1e-6, d=d)
    assert whole.b == whole.b_q == whole.b_c == pytest.approx(3 * d / epsilon)
    assert pytest.approx(max(1.0, turning_point(whole.b))) == whole.K
    assert whole.parameters()["epsilon_thesis"] == pytest.approx(epsilon)
    part = SafelogLiteral.solve(epsilon=epsilon, delta=1e-6, d=d, of="query")
    assert part.parameters()["epsilon_thesis_query"] == pytest.approx(epsilon)
    assert part.parameters()["epsilon_thesis_click"] == pytest.approx(epsilon)
    parameters = {name: getattr(part, name) for name in ("q_f", "c_f", "b", "b_q", "b_c", "K")}
    printed = click_printed_epsilon(**parameters)
    assert part.parameters()["epsilon_thesis"] == pytest.approx(printed)


def test_the_claim_below_the_turning_point_is_theorem_1():
    parameters = {"q_f": 20, "c_f": 5, "b": 10.0, "b_q": 7.0, "b_c": 3.0, "K": 4.0}
    claim = SafelogLiteral(**parameters).parameters()["epsilon_thesis"]
    assert claim == pytest.approx(click_printed_epsilon(**parameters))
    assert claim > 20 / 10 + 20 / 7 + 5 / 3


def test_passes_is_the_least_count_that_is_selected():
    mechanism = SafelogLiteral(b=2.0, K=20.5)
    for p in (0.5, 0.95, 0.99):
        n = mechanism.passes(p)
        assert mechanism.pass_probability(n) >= p > mechanism.pass_probability(n - 1)
    assert SafelogLiteral(K=1.0).passes(0.5) == 5  # the filter
    assert mechanism.guarantee(epsilon=1.0).notion == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("safelog-literal(q_f=0)", "the bound must lie between 1 and 100000 items a unit, not 0"),
        ("safelog-literal(c_f=1.5)", "c_f must be a whole number"),
        ("safelog-literal(c_f=inf)", "c_f must be a whole number, not inf"),
        ("safelog-literal(b=0)", "b, a scale of noise, must lie between"),
        ("safelog-literal(b_c=inf)", "b_c, a scale of noise, must lie between"),
        ("safelog-literal(K=0.5)", "threshold K must lie between 1 and"),
        ("safelog-literal(tau=3)", "has no parameter tau"),
    ],
)
def test_bad_letters_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)


def test_bad_budgets_are_named():
    for bad, message in (({"epsilon": 0.0}, "epsilon"), ({"d": 0}, "d must be at least 1"),
                         ({"noise": "gaussian"}, "geometric noise only")):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            SafelogLiteral.solve(**({"epsilon": 1.0, "delta": 1e-6, "d": 1} | bad))
