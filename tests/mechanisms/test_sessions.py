"""Sessions: cut, bounded, mined in the engine; their law; label paths over a finite domain."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import largest_delta, mass, user_vectors, worst_delta

import murmurlog
from murmurlog.counting.bound import TableBounded, bound
from murmurlog.counting.items import items
from murmurlog.counting.public_sets.labels import read_labels
from murmurlog.counting.subsequences import (
    items_for,
    sets,
    sets_of,
    subsequences,
)
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View, parse
from murmurlog.mechanisms.protocol import tally_view
from murmurlog.mechanisms.rounds.weights import hold
from murmurlog.mechanisms.sessions import Cut, LabelPaths, Sessions
from murmurlog.privacy.safelog import subsequences_a_session
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy

RELATIONS = ("add-remove", "replace")


def at(minute, query, user="a"):
    time = f"2026-01-01 {minute // 60:02}:{minute % 60:02}:00"
    return {"user": user, "time": time, "query": query, "url": ""}


def sessions_of(path, **more):
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        table = items(log, kind="session", **more).table
        rows = table.select("unit", "time", "queries").order_by(["unit", "time"]).to_pyarrow()
    return [(row["unit"], row["queries"]) for row in rows.to_pylist()]


# --- from rows to sessions ------------------------------------------------------------------------


def test_a_session_ends_with_a_pause_and_at_the_unit_s_border(write_tsv):
    asked = [at(0, "one"), at(20, "two"), at(51, "three"), at(60, "four"), at(80, "five")]
    late = [
        {"user": "b", "time": "2026-01-01 23:59:00", "query": "old year", "url": ""},
        {"user": "b", "time": "2026-01-02 00:01:00", "query": "new year", "url": ""},
    ]
    path = write_tsv(asked + late)
    assert sessions_of(path) == [
        ("a", ["one", "two"]),
        ("a", ["three", "four", "five"]),
        ("b", ["old year", "new year"]),
    ]
    assert sessions_of(path, gap=60 * 60) == [
        ("a", ["one", "two", "three", "four", "five"]),
        ("b", ["old year", "new year"]),
    ]
    by_day = sessions_of(path, unit="user-day")
    assert all("year" not in query for _, queries in by_day for query in queries)  # A6


def test_a_query_asked_again_at_once_is_one_query_and_alone_no_session(write_tsv):
    path = write_tsv([at(0, "x"), at(1, "x"), at(2, "y"), at(3, "x"), at(90, "z"), at(91, "z")])
    assert sessions_of(path) == [("a", ["x", "y", "x"])]


def test_a_query_asked_again_after_unpublished_ones_is_one_query(write_tsv):
    asked = ["x", "secret", "x", "y", "secret", "other", "y", "x"]
    rows = [at(i, query) for i, query in enumerate(asked)]
    alone = [at(i, query, "b") for i, query in enumerate(("x", "secret", "x"))]
    published = pa.table({"query": ["x", "y"]})
    path = write_tsv(rows + alone)
    assert sessions_of(path, known=published) == [("a", ["x", "y", "x"])]
    assert sessions_of(path, known=published, longest=2) == [("a", ["x", "y"])]


def test_a_session_is_cut_before_it_is_mined(write_tsv):
    path = write_tsv([at(i, f"q{i}") for i in range(9)])
    assert sessions_of(path, longest=3) == [("a", ["q0", "q1", "q2"])]


@pytest.mark.parametrize("way", ["first", "random"])
def test_a_unit_keeps_so_many_sessions(write_tsv, engine, way):
    rows = [at(200 * s + i, f"s{s} q{i}", user) for s in range(4) for i in (0, 1) for user in "ab"]
    log = read(find(str(write_tsv(rows))), engine=engine)
    kept = bound(items(log, kind="session"), per_user=2, way=way, entropy=SeededEntropy(3))
    rows = kept.table.to_pyarrow().to_pylist()
    assert sorted(row["unit"] for row in rows) == ["a", "a", "b", "b"]
    if way == "first":
        assert all(row["queries"][0][:2] in ("s0", "s1") for row in rows)


def make_bounded(engine, rows, **more):
    table = engine.keep(pa.table(rows))
    known = {"unit": "user", "way": "first", "count": "users", "engine": engine, "table": table}
    return TableBounded(**known, **more)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("uv"), st.lists(st.sampled_from("abc"), min_size=2, max_size=5)),
        min_size=1,
        max_size=6,
    )
)
@pytest.mark.parametrize("repeats", [False, True])
def test_mining_gives_every_subsequence_once_a_unit(repeats, rows):
    with connect() as engine:
        units, lists = zip(*rows, strict=True)
        made = make_bounded(
            engine,
            {"unit": list(units), "queries": list(lists)},
            kind="session",
            keys=("queries",),
            per_user=6,
        )
        found = subsequences(made, l_q=5, repeats=repeats).table.to_pyarrow().to_pylist()
    picks = {
        (unit, picked)
        for unit, queries in rows
        for n in range(2, len(queries) + 1)
        for picked in itertools.combinations(queries, n)
    }
    merged = {(unit, tuple(q for q, _ in itertools.groupby(picked))) for unit, picked in picks}
    wanted = picks if repeats else {(u, p) for u, p in merged if len(p) > 1}
    assert sorted((row["unit"], tuple(row["queries"])) for row in found) == sorted(wanted)


@pytest.mark.parametrize("consecutive", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_sets_are_those_of_the_unit_s_items_and_no_more_than_the_bound(engine, k, consecutive):
    placed = [("u", "d", 0), ("u", "a", 1), ("u", "c", 2), ("u", "b", 3), ("v", "a", 0)]
    units, queries, places = zip(*placed, strict=True)
    made = make_bounded(
        engine,
        {"unit": list(units), "query": list(queries), "place": list(places)},
        kind="query",
        keys=("query",),
        per_user=4,
    )
    mined = sets(made, k=k, consecutive=consecutive)
    found = {(r["unit"], tuple(r["items"])) for r in mined.table.to_pyarrow().to_pylist()}
    order = "dacb"
    runs = {order[i : i + n] for n in range(1, k + 1) for i in range(5 - n)}
    some = {"".join(c) for n in range(1, k + 1) for c in itertools.combinations(order, n)}
    assert found == {("u", tuple(sorted(s))) for s in (runs if consecutive else some)} | {
        ("v", ("a",))
    }
    assert mined.per_user == sets_of(4, k, consecutive=consecutive) == len(found) - 1


@pytest.mark.parametrize("consecutive", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_is_gathered_are_sets_of_at_most_the_size_within_the_bound(
    engine, write_tsv, size, consecutive
):
    """By `rounds` and by counts with a threshold: of a unit's first items, every set and no larger one."""
    order, per_user = "fbdace", 15
    log = read(
        find(str(write_tsv([at(n, query, "u") for n, query in enumerate(order)]))), engine=engine
    )
    view = View(kind="itemset", set_size=size, consecutive=consecutive)

    def sets_of_first(n):
        places = [p for k in range(1, size + 1) for p in itertools.combinations(range(n), k)]
        runs = [p for p in places if p[-1] - p[0] == len(p) - 1]
        choices = runs if consecutive else places
        return sorted(sorted(order[place] for place in chosen_places) for chosen_places in choices)

    by_size = [sets_of_first(n) for n in range(1, len(order) + 1)]
    (*_, largest) = [choices for choices in by_size if len(choices) <= per_user]
    held = hold(log, view, per_user=per_user, entropy=SeededEntropy(1))
    assert sorted(held.names.to_pyarrow()["items"].to_pylist()) == largest
    counted = tally_view(log, view, per_user=per_user, entropy=SeededEntropy(1))
    assert sorted(counted.table.to_pyarrow()["items"].to_pylist()) == largest
    assert len(largest) <= held.per_user <= per_user


def test_the_number_of_items_follows_from_the_bound_on_sets():
    assert items_for(10, 2) == 4  # 4 items, 6 pairs
    assert items_for(9, 2) == 3
    assert items_for(1, 3) == 1
    assert items_for(7, 2, consecutive=True) == 4  # 4 items, 3 runs of two
    with pytest.raises(UsageError, match="--set-size must lie between 1 and 12"):
        items_for(10, 0)


def test_baskets_are_released_and_verified(write_tsv, tmp_path):
    rows = [at(i, q, f"u{n}") for n in range(300) for i, q in enumerate(("bread", "milk", "beer"))]
    murmurlog.release(
        str(write_tsv(rows)), out=tmp_path / "out", tables=["itemset"], epsilon=8, delta=1e-6,
        per_user=6, set_size=2,
    )  # fmt: skip
    assert murmurlog.verify(tmp_path / "out").ok
    table = murmurlog.load(tmp_path / "out").tables["itemset"]
    assert ["bread", "milk"] in table["items"].to_pylist()
    assert sorted(map(len, table["items"].to_pylist())) == [1, 1, 1, 2, 2, 2]


# --- the mechanism --------------------------------------------------------------------------------


def test_one_unit_holds_at_most_delta_f_items():
    assert [subsequences_a_session(l_q) for l_q in (2, 3, 4)] == [1, 4, 11]
    assert Cut(l_s=2, l_q=3).d == 8
    assert Cut(l_s=2, l_q=3, subsequences="whole").d == 2


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("cut", [Cut(l_q=2), Cut(l_s=2, subsequences="whole")], ids=str)
def test_the_claim_covers_the_exact_law(cut, neighbours):
    """A unit of l_q = 2 has one pair of queries, or with whole sessions l_s items."""
    made = Sessions(cut=cut, scale=0.9, T=7)
    stated = made.guarantee(neighbours=neighbours)
    found = worst_delta(
        noise="geometric", scale=0.9, T=7, d=cut.d, epsilon=stated.epsilon, neighbours=neighbours
    )
    assert stated.delta / 2 < found <= stated.delta


def test_a_bound_on_sessions_taken_for_one_on_subsequences_is_caught():
    """A session of three new queries can show four things; a claim for one is exceeded."""
    claimed = Sessions(cut=Cut(l_q=2), scale=0.9, T=7).guarantee()
    shown = sum(mass("geometric", 0.9, v - 1) for v in range(7, 60))

    def law_of(c, base):
        return [1 - c * shown, c * shown]

    mined = [(0, 0, 0, 0), (1, 1, 1, 1)]
    found = largest_delta(
        law_of, others=(0,), holds=mined, epsilon=claimed.epsilon, neighbours="add-remove"
    )
    assert found > 2 * claimed.delta


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_label_paths_are_pure(neighbours):
    """Every path there is gets a draw, so no output tells for sure: delta is that of the sampler."""
    made = LabelPaths(cut=Cut(l_q=2), b=1.2, L=2, T=3)
    stated = made.guarantee(neighbours=neighbours)
    assert stated.delta < 1e-20

    def law_of(c, base):
        shown = [mass("geometric", 1.2, v - c) for v in range(3, 60)]
        return [1 - sum(shown), *shown]

    exact = {"others": (0, 1, 5), "holds": user_vectors(1, 2), "neighbours": neighbours}
    assert largest_delta(law_of, epsilon=stated.epsilon, **exact) < 1e-12
    assert largest_delta(law_of, epsilon=stated.epsilon * 0.9, **exact) > 1e-3


def log_of_sessions(write_tsv, users=300):
    rows = [
        at(i, query, f"u{n}")
        for n in range(users)
        for i, query in enumerate(("weather", "weather berlin", "trains to berlin now"))
    ]
    return str(write_tsv(rows))


@pytest.mark.parametrize("way", ["all", "whole"])
def test_sessions_are_released_with_other_tables_in_one_account(write_tsv, tmp_path, way):
    done = murmurlog.release(
        log_of_sessions(write_tsv), out=tmp_path / "out", tables=["session", "query"],
        mechanism="sessions", epsilon=4, delta=1e-6, subsequences=way, queries_per_session=3,
    )  # fmt: skip
    assert done.rows == {"session": 4 if way == "all" else 1, "query": 3}
    assert done.guarantee.epsilon == pytest.approx(4)
    parts = [plan.guarantee.epsilon for plan in done.plans.values()]
    assert sum(parts) > 5  # in one account they cost 4 together
    report = murmurlog.verify(tmp_path / "out")
    assert report.ok, report
    lists = murmurlog.load(tmp_path / "out").tables["session"]["queries"].to_pylist()
    assert ["weather", "weather berlin", "trains to berlin now"] in lists


def test_the_thesis_s_own_figures_stand_beside_ours():
    said = Sessions(cut=Cut(l_q=3), scale=1.0, T=21).parameters()
    assert said["epsilon_thesis"] == pytest.approx(8)
    assert said["delta_thesis"] == pytest.approx(2.25070349439e-07)
    assert Sessions(cut=Cut(l_q=3), scale=1.0, T=21).guarantee().epsilon == pytest.approx(4)


def test_no_published_session_names_a_query_twice_in_a_row(write_tsv, tmp_path):
    """Everybody's own query between two common ones is dropped, and leaves no (x, x) behind."""
    rows = [
        at(i, query, f"u{n}")
        for n in range(300)
        for i, query in enumerate(("x", f"own {n}", "x", "y", "x"))
    ]
    murmurlog.release(
        str(write_tsv(rows)), out=tmp_path / "out", tables=["session", "query"], epsilon=8,
        mechanism="sessions", delta=1e-6, queries_per_session=4,
    )  # fmt: skip
    assert murmurlog.verify(tmp_path / "out").ok
    lists = murmurlog.load(tmp_path / "out").tables["session"]["queries"].to_pylist()
    assert sorted(lists) == [["x", "y"], ["x", "y", "x"], ["y", "x"]]


@pytest.mark.parametrize("name", ["length", "file", "words"])
def test_paths_of_labels_are_released_with_pure_epsilon(write_tsv, tmp_path, name):
    path = tmp_path / "map.tsv"
    path.write_text("weather\tWeather\nWEATHER berlin\tweather\nnews\tother\n", encoding="utf-8")
    given = {"length": "length", "file": path, "words": f"words:{path}"}
    done = murmurlog.release(
        log_of_sessions(write_tsv), out=tmp_path / "out", tables=["session"], epsilon=4,
        mechanism="sessions", map=given[name], fakes=1,
    )  # fmt: skip
    assert done.guarantee.delta < 1e-15
    assert murmurlog.verify(tmp_path / "out").ok
    lists = murmurlog.load(tmp_path / "out").tables["session"]["queries"].to_pylist()
    wanted = {
        "length": ["1 word", "2 words", "4 words"],
        "file": ["weather", "weather", "other"],
        "words": ["weather", "weather", "weather"],  # berlin is a word of a listed query
    }
    assert wanted[name] in lists


def test_labels_are_public_names_and_every_query_has_one(write_tsv, engine):
    log = read(find(log_of_sessions(write_tsv, users=1)), engine=engine)
    labels = read_labels("length")
    shown = labels.label(log.table, engine).label.to_pyarrow().to_pylist()
    assert sorted(shown) == ["1 word", "2 words", "4 words"]
    assert set(shown) <= set(labels.names)


LABELLED = (
    "cheap flights\ttravel\nflights to rome\ttravel\nhotel rome\ttravel\n"
    "heart attack\thealth\nheart pain\thealth\nrome total war\tgames\n"
)


def test_words_of_listed_queries_label_others(tmp_path, write_tsv, engine):
    (tmp_path / "labelled.tsv").write_text(LABELLED)
    labels = read_labels(f"words:{tmp_path / 'labelled.tsv'}")
    assert labels.names == ("games", "health", "other", "travel")
    wanted = {
        "cheap flights": "travel",  # listed
        "Hotel  Paris": "travel",
        "pain in the heart": "health",
        "rome hotel flights": "travel",
        "total war walkthrough": "games",
        "zebra": "other",  # no word is known
    }
    rows = [{"user": f"u{n}", "query": query} for n, query in enumerate(wanted)]
    log = read(find(str(write_tsv(rows, columns=("user", "query")))), engine=engine)
    shown = labels.label(log.table, engine).select("query", "label").to_pyarrow().to_pylist()
    assert {row["query"]: row["label"] for row in shown} == {
        " ".join(query.lower().split()): label for query, label in wanted.items()
    }
    assert len(shown) == len(wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tx\n", "1 labels: a classifier"),
        ("".join(f"q{n}\tl{n}\n" for n in range(101)), "101 labels"),
    ],
)
def test_a_classifier_needs_several_labels_and_not_too_many(tmp_path, text, message):
    (tmp_path / "map.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels(f"words:{tmp_path / 'map.tsv'}")


def test_label_paths_refuse_a_tally_of_queries(write_tsv, engine):
    """Fails closed: what is not a path of the public labels must not be noised as one."""
    log = read(find(log_of_sessions(write_tsv, users=3)), engine=engine)
    made = LabelPaths(cut=Cut(), b=1.0, L=5, T=3)
    queries = Sessions(cut=Cut(), scale=1.0, T=3).gather(
        log, View(kind="session"), entropy=SystemEntropy()
    )
    with pytest.raises(murmurlog.errors.Refused, match="public pool"):
        made.release(queries, entropy=SystemEntropy())


@pytest.mark.parametrize(
    "made",
    [
        Sessions(cut=Cut(), scale=2.5, T=40),
        Sessions(cut=Cut(l_s=2, l_q=4, subsequences="whole"), noise="gaussian", scale=9.0, T=33),
        LabelPaths(cut=Cut(l_s=3), b=4.0, L=7, T=12),
    ],
    ids=str,
)
def test_its_text_is_its_name(made):
    assert parse(str(made)) == made


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"queries_per_session": 0}, UsageError, "--queries-per-session must lie between 2 and 12"),
        ({"queries_per_session": 40}, UsageError, "--queries-per-session must lie between 2"),
        ({"sessions_per_user": 0}, UsageError, "--sessions-per-user must be at least 1"),
        ({"subsequences": "some"}, UsageError, "--subsequences must be all or whole"),
        ({"map": "nowhere.tsv"}, InputError, "no file 'nowhere.tsv'"),
        ({"fakes": 3.0}, UsageError, "--fakes goes with --map"),
        ({"gap": 0}, UsageError, "--gap must be longer than 0 seconds"),
        ({"mechanism": "threshold"}, UsageError, "threshold makes no session table"),
        ({"mechanism": "threshold", "map": "length"}, UsageError, "--map is for sessions"),
        ({"mechanism": "label-paths"}, UsageError, "chosen by --mechanism sessions --map"),
    ],
)
def test_bad_choices_are_named_and_nothing_is_left(write_tsv, tmp_path, options, error, message):
    ledger = tmp_path / "ledger.db"
    asked = {
        "tables": ["session"],
        "mechanism": "sessions",
        "ledger": ledger,
        "source_name": "s",
        "new_source": True,
    }
    with pytest.raises(error, match=message):
        murmurlog.release(log_of_sessions(write_tsv, 3), out=tmp_path / "out", **(asked | options))
    assert not (tmp_path / "out").exists()
    assert not ledger.exists()


def test_a_log_without_times_has_no_sessions(write_tsv, tmp_path):
    path = write_tsv([{"user": "a", "query": "x"}], columns=("user", "query"))
    with pytest.raises(InputError, match="no session table: it has no time column"):
        murmurlog.release(str(path), out=tmp_path / "out", tables=["session"], mechanism="sessions")
    assert not (tmp_path / "out").exists()


def test_a_bad_map_names_its_line(tmp_path):
    path = tmp_path / "map.tsv"
    for text, message in (
        ("a\tx\nb\n", "line 2: a map has lines of"),
        ("a\tx\nA\ty\n", "line 2: 'a' has two labels"),
        ("\n", "maps no query"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_labels(str(path))
    path.write_bytes(b"\xff\xfe\tx\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_labels(str(path))
