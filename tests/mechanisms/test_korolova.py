"""Korolova et al.: the exact law of select and fresh counts, clicks on lists, rows; steps and text."""

import math

import numpy as np
import pyarrow as pa
import pytest
from counts import bounded_rows
from hypothesis import given
from hypothesis import strategies as st
from laws import SURE, fresh_law, hockey_stick, largest_delta, mass, user_vectors
from tallies import tally_of

import murmurlog
import murmurlog.privacy.sampler
from murmurlog.auditing.verify import verify
from murmurlog.bundle.schema import BY_VALUE
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.invented.generate import invent, write
from murmurlog.mechanisms import Korolova, KorolovaLists, parse
from murmurlog.mechanisms.korolova import keep_published
from murmurlog.privacy import korolova_delta, korolova_optimum
from murmurlog.publishing.release import release

LN10 = math.log(10)


def other_counts(T):
    return sorted({0, 1, max(1, T - 2), T, SURE})


# --- the exact law --------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize(("epsilon", "delta", "d"), [(LN10, 1e-5, 1), (3.0, 1e-2, 2)])
def test_select_and_fresh_counts_keep_their_claim_and_use_it(epsilon, delta, d, counts, neighbours):
    m = Korolova.solve(epsilon=epsilon, delta=delta, d=d, neighbours=neighbours, counts=counts)
    claim = m.guarantee(epsilon=epsilon, neighbours=neighbours)
    assert claim.delta <= delta
    truth = largest_delta(
        lambda c, base: fresh_law(m.b, m.T, m.b_q, c, base),
        others=other_counts(m.T),
        holds=user_vectors(d, 2),
        epsilon=epsilon,
        neighbours=neighbours,
    )
    assert claim.delta / 2 < truth <= claim.delta


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("epsilon", "delta", "d"), [(4.0, 1e-3, 2), (6.0, 1e-2, 3)])
def test_rows_that_repeat_keep_their_claim(epsilon, delta, d, neighbours):
    m = Korolova.solve(
        epsilon=epsilon, delta=delta, d=d, neighbours=neighbours, count="rows", counts=False
    )
    assert d < m.T
    claim = m.guarantee(epsilon=epsilon, neighbours=neighbours)
    truth = largest_delta(
        lambda c, base: fresh_law(m.b, m.T, m.b_q, c, base),
        others=other_counts(m.T),
        holds=user_vectors(d, 3, repeats=True),
        epsilon=epsilon,
        neighbours=neighbours,
    )
    assert claim.delta / 2 < truth <= claim.delta


def test_a_claim_for_distinct_items_is_broken_by_a_user_who_repeats_one():
    d, b, T, epsilon = 3, 1.0, 12, 3.0
    truth = largest_delta(
        lambda c, base: fresh_law(b, T, None, c, base),
        others=other_counts(T),
        holds=user_vectors(d, 3, repeats=True),
        epsilon=epsilon,
        neighbours="add-remove",
    )
    assert truth > 2 * korolova_delta(d=d, b=b, T=T, count="users")
    assert truth <= korolova_delta(d=d, b=b, T=T, count="rows") * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_clicks_on_public_lists_cost_no_delta(neighbours):
    epsilon = 2.0
    m = KorolovaLists.solve(epsilon=epsilon, delta=1e-6, d=1, neighbours=neighbours)
    claim = m.guarantee(epsilon=epsilon, neighbours=neighbours)
    assert claim.delta < 1e-14

    def law_of(c, base):
        values = np.arange(base - int(20 * m.b_c) - 12, base + int(20 * m.b_c) + 13)
        return mass("geometric", m.b_c, values - c)

    at = {"others": (0, 1, 50), "holds": user_vectors(1, 2), "neighbours": neighbours}
    assert largest_delta(law_of, epsilon=epsilon, **at) < 1e-9
    assert largest_delta(law_of, epsilon=epsilon * 0.9, **at) > 1e-3


def test_queries_and_listed_clicks_together_keep_the_sum():
    # One user with a query nobody else has and a click on its list: three draws, one claim.
    query = Korolova.solve(epsilon=3.0, delta=1e-4, d=1)
    click = KorolovaLists.solve(epsilon=1.0, delta=1e-4, d=1)
    total = query.guarantee().epsilon + click.guarantee().epsilon

    def law(c_q, c_u, base):
        outcomes = fresh_law(query.b, query.T, query.b_q, c_q, base)
        values = np.arange(base - 60, base + 61)
        clicks = mass("geometric", click.b_c, values - c_u)
        return np.concatenate([outcomes[:1], np.outer(outcomes[1:], clicks).ravel()])

    for base in (0, 1, query.T, SURE):
        with_unit, without = law(base + 1, base + 1, base), law(base, base, base)
        for P, Q in ((with_unit, without), (without, with_unit)):
            assert hockey_stick([P], [Q], total) <= query.guarantee().delta


def test_urls_bare_from_the_log_would_show_every_click():
    # What the paper's algorithm becomes if lists are made from the log: presence of a row is proof.
    query = Korolova.solve(epsilon=LN10, delta=1e-5, d=1)
    popular = 1 - fresh_law(query.b, query.T, None, SURE, SURE)[0]
    with_click, without = np.array([1 - popular, popular]), np.array([1.0, 0.0])
    assert hockey_stick([with_click], [without], 100.0) > 0.999


def test_the_printed_delta_is_never_below_the_exact_one_for_rows():
    for d in (1, 5, 20):
        b, K = korolova_optimum(d, LN10, 1e-5)
        assert korolova_delta(d=d, b=b, T=math.floor(K) + 1, count="rows") <= 1e-5 * 1.001


# --- releases -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("korolova") / "log.parquet"
    write(invent(rows=80_000, seed=6), path)
    return path


def test_the_query_click_graph_of_a_release(log, tmp_path):
    outcome = release(
        str(log),
        out=tmp_path / "b",
        mechanism="korolova",
        tables=["query", "click", "pair"],
        epsilon=12.0,
        delta=1e-4,
        per_user={"query": 3, "click": 3, "pair": 3},
    )
    assert verify(tmp_path / "b").ok
    loaded = murmurlog.load(tmp_path / "b")
    queries = set(loaded.tables["query"]["query"].to_pylist())
    assert outcome.rows["query"] > 5
    assert outcome.rows["click"] > 0
    assert set(loaded.tables["click"]["query"].to_pylist()) <= queries
    pairs = loaded.tables["pair"]
    assert set(pairs["query"].to_pylist()) | set(pairs["next_query"].to_pylist()) <= queries
    graph = loaded.graph()
    kinds = set(graph.nodes["kind"].to_pylist()), set(graph.edges["kind"].to_pylist())
    assert kinds[0] == {"query", "url"}
    assert "click" in kinds[1]
    assert graph.edges.num_rows == outcome.rows["click"] + outcome.rows["pair"]


def test_fresh_counts_are_unbiased_and_their_error_is_right(log, tmp_path):
    release(str(log), out=tmp_path / "b", mechanism="korolova", tables=["query"], per_user=1,
            epsilon=8.0, delta=1e-3)  # fmt: skip
    table = murmurlog.load(tmp_path / "b").tables["query"]
    assert len(set(table["users_stderr"].to_pylist())) == 1
    m = Korolova(d=1, b=3.0, T=10, b_q=3.0)
    tally = tally_of([10] * 20_000)
    users = m.release(tally, entropy=murmurlog.privacy.sampler.SystemEntropy())["users"].to_numpy()
    assert abs(users.mean() - 10) < 6 * 4.3 / math.sqrt(len(users))  # half passed; no bias


def test_rows_are_counted_with_repeats_from_the_first_d(tmp_path, write_tsv):
    rows = [
        {"user": f"u{i}", "time": f"2026-01-01 00:00:0{j}", "query": q}
        for i in range(200)
        for j, q in enumerate(("again", "again", "once", "too late"))
    ]
    path = write_tsv(rows)
    release(str(path), out=tmp_path / "b", mechanism="korolova", tables=["query"], count="rows",
            per_user=3, epsilon=20.0, delta=1e-4)  # fmt: skip
    assert verify(tmp_path / "b").ok
    table = murmurlog.load(tmp_path / "b").tables["query"].to_pylist()
    assert [row["query"] for row in table] == ["again", "once"]
    assert abs(table[0]["rows"] - 400) < 10
    assert abs(table[1]["rows"] - 200) < 10


def test_clicks_on_lists_are_all_there_and_no_others(tmp_path, write_tsv):
    rows = [
        {"user": f"u{i}", "time": "2026-01-01", "query": "Maps", "url": "http://a.example/"}
        for i in range(200)
    ]
    rows += [
        {"user": f"u{i}", "time": "2026-01-02", "query": "maps", "url": "http://bare.example"}
        for i in range(200)
    ]
    path = write_tsv(rows)
    lists = tmp_path / "lists.tsv"
    lists.write_text("MAPS\thttp://www.a.example\nmaps\tb.example\nunasked\tc.example\n")
    release(str(path), out=tmp_path / "b", mechanism="korolova", result_lists=lists, per_user=1,
            epsilon=8.0, delta=1e-4)  # fmt: skip
    assert verify(tmp_path / "b").ok
    loaded = murmurlog.load(tmp_path / "b")
    clicks = {(r["query"], r["url"]): r["users"] for r in loaded.tables["click"].to_pylist()}
    assert set(clicks) == {("maps", "a.example"), ("maps", "b.example")}
    assert abs(clicks["maps", "a.example"] - 200) < 20
    assert abs(clicks["maps", "b.example"]) < 20  # nobody clicked it, and it is listed all the same
    assert "A2" in loaded.certificate.guarantee.assumptions
    all_of_delta = Korolova.solve(epsilon=4.0, delta=1e-4, d=1)  # the lists need none
    assert loaded.certificate.tables["query"].mechanism == str(all_of_delta)


def test_lists_refuse_keys_that_come_from_the_log(log, tmp_path):
    with pytest.raises(Refused, match="keys of a public list, not of a log"):
        KorolovaLists(d=1, b_c=1.0).release(
            tally_of([5, 7]), entropy=murmurlog.privacy.sampler.SystemEntropy()
        )
    with pytest.raises(UsageError, match="chosen by --mechanism korolova --result-lists"):
        release(str(log), out=tmp_path / "b", mechanism="korolova-lists")
    assert list(tmp_path.iterdir()) == []


def test_pairs_are_subsequent_queries_of_one_session(tmp_path, write_tsv):
    rows = [
        {"user": "a", "time": "2026-01-01 10:00:00", "query": "one"},
        {"user": "a", "time": "2026-01-01 10:00:05", "query": "one"},
        {"user": "a", "time": "2026-01-01 10:01:00", "query": "two"},
        {"user": "a", "time": "2026-01-01 11:00:00", "query": "three"},
        {"user": "a", "time": "2026-01-01 23:59:00", "query": "four"},
        {"user": "a", "time": "2026-01-02 00:01:00", "query": "five"},
        {"user": "b", "time": "2026-01-02 00:01:30", "query": "six"},
    ]
    path = write_tsv(rows)
    pairs = bounded_rows(path, kind="pair", per_user=5)
    assert pairs == {("a", "one", "two"), ("a", "four", "five")}
    by_day = bounded_rows(path, kind="pair", per_user=5, unit="user-day")
    assert by_day == {("2026-01-01|a", "one", "two")}  # A6: a pair does not cross the unit's border


# --- what cannot be asked -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mechanism": "threshold", "count": "rows"}, UsageError, "--count is for korolova"),
        ({"mechanism": "threshold", "split": {"select": 1}}, UsageError, "--split is for korolova"),
        ({"noise": "gaussian"}, UsageError, "geometric noise only"),
        ({"count": "sessions"}, UsageError, "count must be users or rows"),
        ({"count": "rows", "bound": "random"}, UsageError, "needs --bound first"),
        ({"split": {"select": 0.5, "query": 0.5}}, UsageError, "must name select and every table"),
        ({"result_lists": "none.tsv"}, InputError, "no file of result lists"),
        ({"tables": ["query"], "result_lists": "none.tsv"}, UsageError, "needs the tables query"),
        ({"tables": ["itemset"], "count": "rows"}, UsageError, "held by users, not by rows"),
        (
            {
                "tables": ["itemset"],
                "mechanism": "korolova(d=1, b=1.0, T=40, count=rows)",
                "epsilon": None,
            },
            UsageError,
            "held by users, not by rows",
        ),
    ],
)
def test_bad_choices_are_named_and_nothing_is_left(log, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        release(str(log), out=tmp_path / "b", **({"mechanism": "korolova"} | options))
    assert list(tmp_path.iterdir()) == []


def test_bad_lists_name_the_line(tmp_path, log):
    lists = tmp_path / "lists.tsv"
    lists.write_text("maps\ta.example\nno tab here\n")
    with pytest.raises(InputError, match=r"lists.tsv, line 2: result lists are lines of"):
        release(str(log), out=tmp_path / "b", mechanism="korolova", result_lists=lists)


@given(
    d=st.integers(1, 200),
    b=st.floats(0.01, 1e4),
    T=st.integers(201, 10**6),
    b_q=st.none() | st.floats(0.01, 1e4),
    count=st.sampled_from(["users", "rows"]),
)
def test_text_is_the_name(d, b, T, b_q, count):
    m = Korolova(d=d, b=b, T=T, b_q=b_q, count=count)
    assert parse(str(m)) == m
    lists = KorolovaLists(d=d, b_c=b)
    assert parse(str(lists)) == lists


@given(
    epsilon=st.floats(1e-3, 20),
    d=st.integers(1, 500),
    select=st.floats(0.01, 0.99),
    neighbours=st.sampled_from(["add-remove", "replace"]),
)
def test_a_solved_mechanism_never_costs_more_than_was_asked(epsilon, d, select, neighbours):
    solved = (
        Korolova.solve(epsilon=epsilon, delta=1e-6, d=d, neighbours=neighbours, select=select),
        KorolovaLists.solve(epsilon=epsilon, delta=1e-6, d=d, neighbours=neighbours),
    )
    for mechanism in solved:
        assert mechanism.guarantee(neighbours=neighbours).epsilon <= epsilon
        assert mechanism.guarantee(epsilon=epsilon, neighbours=neighbours).delta <= 1e-6


def test_letters_of_the_paper():
    m = parse("korolova(d=20, b=17.4, K=240.9, b_q=17.4)")
    assert m == Korolova(d=20, b=17.4, T=241, b_q=17.4)
    assert m.guarantee().epsilon == pytest.approx(40 / 17.4)
    assert m.guarantee(neighbours="replace").epsilon == pytest.approx(80 / 17.4)
    with pytest.raises(Refused, match=r"costs epsilon 2.29885\d* per user, more than 1"):
        m.guarantee(epsilon=1.0)
    with pytest.raises(UsageError, match="needs T > d"):
        Korolova(d=20, b=1.0, T=20, count="rows")


def test_a_row_names_a_query_that_is_published_under_its_own_value():
    tables = {
        "query": pa.table({"query": ["a", "b", "b"], BY_VALUE: ["DE", "DE", "FR"]}),
        "pair": pa.table(
            {"query": ["a", "a", "b"], "next_query": ["b"] * 3, BY_VALUE: ["DE", "FR", "FR"]}
        ),
    }
    rows = keep_published(tables)["pair"].select(["query", BY_VALUE]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a", "DE"), ("b", "FR")]
