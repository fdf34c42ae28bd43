"""Sessions: cut, bounded, mined; their law; label paths over a finite domain."""

import itertools
from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from counts import counts_of, held_by_units, users_of
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import largest_delta, mass, user_vectors, worst_delta
from tallies import tally_of

import murmurlog
from murmurlog.counting.bound import Bound, BoundedItems, find_and_bound
from murmurlog.counting.items import ItemFinder, ListNames, PublicNames
from murmurlog.counting.public_sets.labels import read_labels
from murmurlog.counting.public_sets.sets import Sequences
from murmurlog.counting.subsequences import Sets, Subsequences, items_for, sets_of
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import KeyList, TextKeys, number_keys
from murmurlog.mechanisms import View, parse
from murmurlog.mechanisms.pool import OnDomain
from murmurlog.mechanisms.protocol import tally_view
from murmurlog.mechanisms.rounds.select import candidates_of
from murmurlog.mechanisms.sessions import Cut, LabelPaths, Sessions
from murmurlog.privacy.safelog import subsequences_a_session
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy

RELATIONS = ("add-remove", "replace")


def at(minute, query, user="a"):
    time = f"2026-01-01 {minute // 60:02}:{minute % 60:02}:00"
    return {"user": user, "time": time, "query": query, "url": ""}


def sessions_of(path, *, unit="user", published=None, gap=30 * 60, **more):
    """(user, queries) of every session, by user and time."""
    with connect() as engine:
        log = read(find(str(path)), engine=engine, unit=unit, entropy=SeededEntropy(1))
        if published is not None:
            keys = log.text_keys.texts(pa.array(published))
            more["published"] = log.partitions.share(KeyList.of(keys))
        finder = ItemFinder(kind="session", gap=gap * 10**6, **more)
        return [
            row[:2] for row in held_by_units(log, log.partitions.derive(finder), users_of(path))
        ]


# --- from rows to sessions ------------------------------------------------------------------------


def test_a_session_ends_with_a_pause_and_at_the_unit_s_border(write_tsv):
    searches = [at(0, "one"), at(20, "two"), at(51, "three"), at(60, "four"), at(80, "five")]
    late = [
        {"user": "b", "time": "2026-01-01 23:59:00", "query": "old year", "url": ""},
        {"user": "b", "time": "2026-01-02 00:01:00", "query": "new year", "url": ""},
    ]
    path = write_tsv(searches + late)
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
    queries = ["x", "secret", "x", "y", "secret", "other", "y", "x"]
    rows = [at(i, query) for i, query in enumerate(queries)]
    alone = [at(i, query, "b") for i, query in enumerate(("x", "secret", "x"))]
    path = write_tsv(rows + alone)
    assert sessions_of(path, published=["x", "y"]) == [("a", ["x", "y", "x"])]
    assert sessions_of(path, published=["x", "y"], longest=2) == [("a", ["x", "y"])]


def test_a_session_is_cut_before_it_is_mined(write_tsv):
    path = write_tsv([at(i, f"q{i}") for i in range(9)])
    assert sessions_of(path, longest=3) == [("a", ["q0", "q1", "q2"])]


@pytest.mark.parametrize("way", ["first", "random"])
def test_a_unit_keeps_so_many_sessions(write_tsv, engine, way):
    rows = [at(200 * s + i, f"s{s} q{i}", user) for s in range(4) for i in (0, 1) for user in "ab"]
    log = read(find(str(write_tsv(rows))), engine=engine)
    bound = Bound.of(2, way, timed=True, entropy=SeededEntropy(3))
    bounded = log.partitions.derive(
        partial(find_and_bound, find=ItemFinder(kind="session"), bound=bound)
    )
    sessions = held_by_units(log, bounded, ["a", "b"])
    assert sorted(unit for unit, _ in sessions) == ["a", "a", "b", "b"]
    if way == "first":
        assert all(queries[0][:2] in ("s0", "s1") for _, queries in sessions)


def given_sessions(rows, text_keys):
    """Bounded sessions of one partition: a unit and its lists, in order of units."""
    units = sorted({unit for unit, _ in rows})
    rows = sorted(rows, key=lambda row: units.index(row[0]))
    texts = pa.array(sorted({query for _, queries in rows for query in queries}))
    members = np.array([texts.to_pylist().index(q) for _, queries in rows for q in queries])
    length = np.array([len(queries) for _, queries in rows])
    member_keys = text_keys.texts(texts)[members]
    item, row = number_keys(text_keys.lists(member_keys, length))
    names = ListNames(members=PublicNames(texts, members), keys=member_keys, length=length).at(row)
    return units, BoundedItems(
        unit=np.array([units.index(unit) for unit, _ in rows]), item=item,
        keys=text_keys.lists(names.keys, names.length), names=(names,), texts=None,
        text_keys=text_keys, units=len(units),
    )  # fmt: skip


def lists_of(units, bounded):
    """(unit, list) of every row."""
    (column,) = bounded.columns(bounded.item)
    lists = [tuple(value) for value in column.to_pylist()]
    return [(units[unit], value) for unit, value in zip(bounded.unit, lists, strict=True)]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("uv"), st.lists(st.sampled_from("abc"), min_size=2, max_size=5)),
        min_size=1,
        max_size=6,
    )
)
@pytest.mark.parametrize("repeats", [False, True])
def test_mining_gives_every_subsequence_once_a_unit(repeats, rows):
    text_keys = TextKeys()
    units, sessions = given_sessions(rows, text_keys)
    mined = Subsequences(repeats=repeats)(sessions)
    picks = {
        (unit, picked)
        for unit, queries in rows
        for n in range(2, len(queries) + 1)
        for picked in itertools.combinations(queries, n)
    }
    merged = {(unit, tuple(q for q, _ in itertools.groupby(picked))) for unit, picked in picks}
    wanted = picks if repeats else {(u, p) for u, p in merged if len(p) > 1}
    assert sorted(lists_of(units, mined)) == sorted(wanted)
    lists = pa.array([list(p) for _, p in lists_of(units, mined)], pa.list_(pa.string()))
    assert np.array_equal(text_keys.columns([lists]), mined.keys[mined.item])
    most = Counter(unit for unit, _ in rows)
    counts = Counter(unit for unit, _ in wanted)
    assert all(counts[unit] <= most[unit] * subsequences_a_session(5) for unit in most)


@pytest.mark.parametrize("consecutive", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_sets_are_those_of_the_unit_s_items_and_no_more_than_the_bound(k, consecutive):
    order, text_keys = "dacb", TextKeys()
    texts = pa.array(sorted(order))
    keys = text_keys.texts(texts)
    by_key = np.lexsort((keys[:, 1], keys[:, 0]))  # of each code the place of its text
    code = {texts[place].as_py(): n for n, place in enumerate(by_key.tolist())}
    items = BoundedItems(
        unit=np.array([0, 0, 0, 0, 1]), item=np.array([code[q] for q in "dacba"]),
        keys=keys[by_key], names=(PublicNames(texts, by_key),), texts=None, text_keys=text_keys,
        units=2, place=np.array([0, 1, 2, 3, 0]),
    )  # fmt: skip
    sets = lists_of("uv", Sets(size=k, consecutive=consecutive)(items))
    assert len(sets) == len(set(sets))
    runs = {order[i : i + n] for n in range(1, k + 1) for i in range(5 - n)}
    some = {"".join(c) for n in range(1, k + 1) for c in itertools.combinations(order, n)}
    assert set(sets) == {("u", tuple(sorted(s))) for s in (runs if consecutive else some)} | {
        ("v", ("a",))
    }
    assert sets_of(4, k, consecutive=consecutive) == len(sets) - 1


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
    gathered = candidates_of(log, view, per_user=per_user, entropy=SeededEntropy(1))
    assert sorted(sorted(key) for _, key in held_by_units(log, gathered.bounded, ["u"])) == largest
    counted = tally_view(log, view, per_user=per_user, entropy=SeededEntropy(1))
    assert sorted(list(key) for (key,) in counts_of(counted)) == largest
    assert len(largest) <= gathered.per_user <= per_user


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
    mechanism = Sessions(cut=cut, scale=0.9, T=7)
    stated = mechanism.guarantee(neighbours=neighbours)
    worst = worst_delta(
        noise="geometric", scale=0.9, T=7, d=cut.d, epsilon=stated.epsilon, neighbours=neighbours
    )
    assert stated.delta / 2 < worst <= stated.delta


def test_a_bound_on_sessions_taken_for_one_on_subsequences_is_caught():
    """A session of three new queries can show four things; a claim for one is exceeded."""
    claimed = Sessions(cut=Cut(l_q=2), scale=0.9, T=7).guarantee()
    p = sum(mass("geometric", 0.9, v - 1) for v in range(7, 60))

    def law_of(c, base):
        return [1 - c * p, c * p]

    mined = [(0, 0, 0, 0), (1, 1, 1, 1)]
    worst = largest_delta(
        law_of, others=(0,), holds=mined, epsilon=claimed.epsilon, neighbours="add-remove"
    )
    assert worst > 2 * claimed.delta


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_label_paths_are_pure(neighbours):
    """Every path there is gets a draw, so no output tells for sure: delta is that of the sampler."""
    mechanism = LabelPaths(cut=Cut(l_q=2), b=1.2, L=2, T=3)
    stated = mechanism.guarantee(neighbours=neighbours)
    assert stated.delta < 1e-14

    def law_of(c, base):
        masses = [mass("geometric", 1.2, v - c) for v in range(3, 60)]
        return [1 - sum(masses), *masses]

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
    parameters = Sessions(cut=Cut(l_q=3), scale=1.0, T=21).parameters()
    assert parameters["epsilon_thesis"] == pytest.approx(8)
    assert parameters["delta_thesis"] == pytest.approx(2.25070349439e-07)
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
    maps = {"length": "length", "file": path, "words": f"words:{path}"}
    done = murmurlog.release(
        log_of_sessions(write_tsv), out=tmp_path / "out", tables=["session"], epsilon=4,
        mechanism="sessions", map=maps[name], fakes=1,
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


def test_labels_are_public_names_and_every_query_has_one():
    labels = read_labels("length")
    queries = pa.array(
        ["weather", "weather berlin", "trains to berlin now", "a b c d e f", "a b c d e"]
    )
    names = [labels.names[code] for code in labels.codes(queries)]
    assert names == ["1 word", "2 words", "4 words", "5 words or more", "5 words or more"]


LABELLED = (
    "cheap flights\ttravel\nflights to rome\ttravel\nhotel rome\ttravel\n"
    "heart attack\thealth\nheart pain\thealth\nrome total war\tgames\n"
)


def test_words_of_listed_queries_label_others(tmp_path):
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
    queries = [" ".join(query.lower().split()) for query in wanted]
    codes = labels.codes(pa.array(queries, pa.large_string()))
    assert [labels.names[code] for code in codes] == list(wanted.values())
    (tmp_path / "map.tsv").write_text("b\ty\nc\tother\na\tx\n")
    labels = read_labels(str(tmp_path / "map.tsv"))
    codes = labels.codes(pa.array(["a", "zebra", "c", "b"], pa.large_string()))
    assert [labels.names[code] for code in codes] == ["x", "other", "other", "y"]


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
    mechanism = LabelPaths(cut=Cut(), b=1.0, L=5, T=3)
    queries = Sessions(cut=Cut(), scale=1.0, T=3).gather(
        log, View(kind="session"), entropy=SystemEntropy()
    )
    with pytest.raises(Refused, match="public pool"):
        mechanism.release(queries, entropy=SystemEntropy())
    domain = Sequences(words=("x", "y"), shortest=2, longest=3, name="queries", between=None)
    with pytest.raises(Refused, match="not in the public pool"):
        OnDomain.of(log, domain, queries)
    paths = tally_of({("x", "y"): 3, ("y", "y", "x"): 2}, keys=("queries",))
    assert OnDomain.of(log, domain, paths).inside is paths


@pytest.mark.parametrize(
    "mechanism",
    [
        Sessions(cut=Cut(), scale=2.5, T=40),
        Sessions(cut=Cut(l_s=2, l_q=4, subsequences="whole"), noise="gaussian", scale=9.0, T=33),
        LabelPaths(cut=Cut(l_s=3), b=4.0, L=7, T=12),
    ],
    ids=str,
)
def test_its_text_is_its_name(mechanism):
    assert parse(str(mechanism)) == mechanism


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
    request = {
        "tables": ["session"],
        "mechanism": "sessions",
        "ledger": ledger,
        "source_name": "s",
        "new_source": True,
    }
    with pytest.raises(error, match=message):
        murmurlog.release(
            log_of_sessions(write_tsv, 3), out=tmp_path / "out", **(request | options)
        )
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
