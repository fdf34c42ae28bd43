"""An encoded log has the same rows, bounds and tallies as the general path, on hostile logs."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workers
from engine_tallies import count_tallies
from hostile import QUERIES, hostile_log, with_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_cases import sample_cases
from spellings import SPELLINGS

import murmurlog.logs.partitions
from murmurlog.bundle.canonical import CANONICAL, canonical
from murmurlog.bundle.keys import URL_LEVELS, clean_url
from murmurlog.bundle.schema import BY_VALUE, By
from murmurlog.counting.bound import EncodedBounded, bound
from murmurlog.counting.first_items import first_items
from murmurlog.counting.holdings import Holdings, number_pairs
from murmurlog.counting.items import EncodedItems, items
from murmurlog.counting.tally import tally
from murmurlog.errors import EngineError
from murmurlog.logs import cleaning
from murmurlog.logs.cleaning import Cleaning
from murmurlog.logs.encoded import NEVER, EncodedColumn, _clean_urls, _plain_urls
from murmurlog.logs.engines.duckdb import DuckEngine, connect
from murmurlog.logs.log import ClusterLog, EncodedLog, TableLog, read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View
from murmurlog.mechanisms.rounds.weights import hold
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy

COUNTED = [
    (kind, unit, way)
    for kind in ("query", "click", "pair", "session", "keyword")
    for unit in ("user", "user-day", "user-week", "user-month")
    for way in ("first", "random")
]
SCREENED = {"jane@gmail.com"}
READINGS = {
    "plain": {},
    "a period": {"since": "2024-01-05", "until": "2024-01-20T12:00:00"},
    "a kept column": {"keep": {BY_VALUE: "country"}, "where": {"country": "DE"}},
    "whole urls": {"url": "full"},
    "no urls": {"url": None},
    "hosts": {"url": "host"},
    "canonical keys": {"keys": CANONICAL, "deny": frozenset(["www.query.com", "istanbul"])},
    "denied": {"deny": frozenset(["query 1*", "istanbul"])},
}


@pytest.fixture
def general(monkeypatch):
    """Turns encoding off."""

    def off():
        monkeypatch.setattr(DuckEngine, "local", None)

    return off


def count_on_both_paths(general, path, counted, **reading):
    """What both paths make of a log: encoded, then as a table."""
    made = []
    for turn in (lambda: None, general):
        turn()
        with connect() as engine:
            request = {"path": str(path), "counted": counted, **reading}
            made += count_tallies(engine, [request])
    return made


@pytest.mark.parametrize("collation", ["NOACCENT", "NOCASE"])
def test_texts_that_a_database_calls_equal_are_not(collation, general, tmp_path):
    """A1: with one text standing for all that are alike, one user would name another's query."""
    path, kind = tmp_path / "log.duckdb", f"VARCHAR COLLATE {collation}"
    with duckdb.connect(str(path)) as file:
        file.execute(f'CREATE TABLE log ("user" {kind}, query {kind}, url {kind}, time DATE)')
        file.execute(
            "INSERT INTO log VALUES ('other', 'Cafe X', 'a.b/P', '2026-01-01'), ('ana', 'Café X', 'a.b/p', '2026-01-01'),"
            " ('Ana', 'ÀB', 'a.b/Q', '2026-01-01'), ('aná', 'AB', 'a.b/q', '2026-01-01')"
        )
    encoded, texts = count_on_both_paths(
        general, path, [("query", "user", "first"), ("click", "user", "first")]
    )
    assert encoded == texts
    assert [key for key, _ in texts["query, user, first"]] == [
        ["ab"],
        ["cafe x"],
        ["café x"],
        ["àb"],
    ]
    assert len(texts["click, user, first"]) == 4


def test_times_with_a_zone_are_utc_on_both_paths_wherever_it_runs(tmp_path):
    times = ("2024-01-01T03:00:00+00:00", "2024-01-01T12:00:00+00:00", "2023-12-31T23:00:00+00:00")
    rows = [f"u,{time},{query}\n" for time, query in zip(times, "abc", strict=True)]
    (tmp_path / "log.csv").write_text("user,time,query\n" + "".join(rows))
    script = """
        import json, sys
        from engine_tallies import count_tallies
        from murmurlog.logs.engines.duckdb import DuckEngine, connect
        wanted = {"path": sys.argv[1], "counted": [("query", "user-day", "first")], "since": "2024-01-01"}
        for local in (DuckEngine.local, None):
            DuckEngine.local = local
            with connect() as engine:
                print(json.dumps(count_tallies(engine, [wanted])[0], default=str))
    """
    path = os.pathsep.join(
        str(Path(__file__).parents[2] / part) for part in ("tests/support", "src")
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "log.csv")],
        env={**os.environ, "TZ": "America/New_York", "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    encoded, texts = map(json.loads, done.stdout.splitlines())
    assert encoded == texts
    assert len(encoded["rows"]) == 2


@pytest.mark.parametrize(
    ("reading", "texts"), sample_cases([(name, i % 2) for i, name in enumerate(READINGS)], every=5)
)
def test_both_paths_agree_on_a_hostile_log(reading, texts, general, tmp_path):
    log = hostile_log(2500, seed=5)
    # Whole days, so that many rows of a unit are of one time.
    coarse = pa.compute.floor_temporal(log["time"], unit="day")
    log = log.set_column(1, "time", coarse)
    if texts:
        log = with_texts(log, seed=6)
    pq.write_table(log, tmp_path / "log.parquet", row_group_size=700)
    counted = COUNTED if reading != "no urls" else [c for c in COUNTED if c[0] != "click"]
    encoded, texts = count_on_both_paths(
        general, tmp_path / "log.parquet", counted, **READINGS[reading]
    )
    assert encoded == texts
    assert len(encoded["rows"]) > 100
    assert all(encoded[f"query, {unit}, first"] for unit in ("user", "user-day"))


@pytest.mark.parametrize(
    ("kind", "unit", "way"),
    [
        ("query", "user", "first"),
        ("click", "user-day", "random"),
        ("keyword", "user-month", "first"),
        ("keyword", "user", "random"),
        ("pair", "user", "first"),
        ("pair", "user-week", "random"),
    ],
)
def test_a_column_of_public_values_is_part_of_an_item_on_every_path(
    kind, unit, way, general, tmp_path, monkeypatch
):
    log = hostile_log(1500, seed=4)
    coarse = pa.compute.floor_temporal(log["time"], unit="hour", multiple=6)
    pq.write_table(log.set_column(1, "time", coarse), tmp_path / "log.parquet")
    by = By(column=BY_VALUE, values=("FR", "DE", "nowhere"))

    def count(connected, of):
        with connected() as engine:
            source = find(str(tmp_path / "log.parquet"))
            rows = read(source, engine=engine, keep={BY_VALUE: "country"})
            assert isinstance(rows, of)
            held = items(rows, kind=kind, unit=unit, by=by, gap=3600 * 8)
            assert isinstance(held, EncodedItems) == (of is not TableLog)
            kept = tally(bound(held, per_user=2, way=way, entropy=SeededEntropy(7)))
            found = pa.Table.from_batches(kept.batches()).to_pylist()
            return sorted(tuple(row.values()) for row in found)

    encoded, on_workers = count(connect, EncodedLog), count(workers.connect, ClusterLog)
    with monkeypatch.context() as small:
        small.setattr(murmurlog.logs.partitions, "ROOM", log.nbytes / 3 / 2**34)
        small.setattr(murmurlog.logs.partitions, "ROWS_A_BATCH", 300)
        in_partitions = count(lambda: connect(memory="16GiB"), EncodedLog)
    general()
    assert encoded == on_workers == in_partitions == count(connect, TableLog)
    assert {row[-2] for row in encoded} == {"FR", "DE"}
    assert len(encoded) > 15


def test_pairs_of_codes_that_do_not_fit_are_an_error():
    fits = number_pairs(np.array([0, 2**31]), np.array([0, 2**31 - 1]))
    assert [each.tolist() for each in fits] == [[0, 1], [0, 1]]
    with pytest.raises(EngineError, match="64 bits"):
        number_pairs(np.array([0, 2**31]), np.array([0, 2**33]))


def test_both_paths_fold_the_spellings_of_a_query(general, tmp_path):
    """Each of ten users asks every spelling, some twice: a user counts once for a key."""
    rows = [(f"u{i}", text) for i in range(10) for text in [*SPELLINGS, *list(SPELLINGS)[i:]]]
    users, queries = zip(*rows, strict=True)
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": users, "query": queries}), path)
    encoded, texts = count_on_both_paths(general, path, [], columns=None, keys=CANONICAL)
    assert encoded == texts
    assert {json.loads(row)[2] for row in encoded["rows"]} == {*SPELLINGS.values()} - SCREENED
    assert encoded["screened"]["screened: email"] > 10


def users_of_keys(path, *, folds_first=True):
    """How many users hold each key. Without `folds_first`, a broken twin: texts are made distinct before
    they are folded, so that a user counts once for each spelling."""
    with connect() as engine:
        log = read(find(str(path)), engine=engine, keys=CANONICAL if folds_first else None)
        kept = bound(items(log, kind="query"), per_user=100, entropy=SystemEntropy())
        found = Counter()
        for batch in tally(kept).batches():
            for row in batch.to_pylist():
                found[canonical(row["query"])] += row["users"]
    return found


@pytest.mark.parametrize("path", ["encoded", "general"])
def test_texts_are_folded_before_a_users_items_are_made_distinct(path, general, tmp_path):
    if path == "general":
        general()
    spelled = [text for text, key in SPELLINGS.items() if key == "google"]
    rows = [(f"u{i}", text) for i in range(3) for text in spelled]
    users, queries = zip(*rows, strict=True)
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": users, "query": queries}), file)
    assert users_of_keys(file) == {"google": 3}
    assert users_of_keys(file, folds_first=False)["google"] > 3  # the twin is seen


def test_fewer_rows_are_never_those_of_the_encoded_log(tmp_path):
    pq.write_table(hostile_log(500, seed=1), tmp_path / "log.parquet")
    with connect() as engine:
        log = read(find(str(tmp_path / "log.parquet")), engine=engine)
        assert isinstance(log, EncodedLog)
        held = items(log, kind="query")
        assert isinstance(held, EncodedItems)
        kept = bound(held, per_user=2, entropy=SystemEntropy())
        assert isinstance(kept, EncodedBounded)
        for encoded in (log, held, kept):
            with pytest.raises(TypeError):
                replace(encoded, table=encoded.table.limit(1))
        left = bound(
            held.with_table(held.table.filter(held.table.query == "query 1")),
            per_user=2, entropy=SystemEntropy(),
        )  # fmt: skip
        rows = [row for b in tally(left).batches() for row in b.to_pylist()]
        assert {row["query"] for row in rows} == {"query 1"}
        fewer = kept.with_table(kept.table.limit(3), per_user=1)
        assert sum(row["users"] for b in tally(fewer).batches() for row in b.to_pylist()) == 3
        one = log.only(log.table.limit(1))
        assert (one.rows, one.source, one.broken) == (1, log.source, log.broken)
        assert tally(bound(items(one, kind="query"), per_user=2, entropy=SystemEntropy()))
        assert log.only(log.table.limit(0)).rows == 0


@pytest.mark.parametrize("path", ["in memory", "in partitions", "as a table"])
def test_a_rule_of_cleaning_is_one_for_all_paths(path, general, tmp_path, monkeypatch):
    """A new rule in the list drops and counts the same rows of an encoded log and of a table."""
    log = hostile_log(1500, seed=5)
    pq.write_table(log, tmp_path / "log.parquet", row_group_size=700)
    with connect() as engine:
        before = read(find(str(tmp_path / "log.parquet")), engine=engine)
        clicked = int(before.table.url.notnull().sum().to_pyarrow().as_py())
    rule = cleaning.Rule(reason="a click", applies=lambda row, _: ~row.missing("url"))
    monkeypatch.setattr(cleaning, "RULES", (*cleaning.RULES, rule))
    if path == "as a table":
        general()
    with connect() as engine:
        if path == "in partitions":
            monkeypatch.setattr(murmurlog.logs.partitions, "ROOM", log.nbytes / 3 / engine.memory)
            monkeypatch.setattr(murmurlog.logs.partitions, "ROWS_A_BATCH", 300)
        after = read(find(str(tmp_path / "log.parquet")), engine=engine)
        assert isinstance(after, TableLog) == (path == "as a table")
        assert after.broken == {**before.broken, "a click": clicked}
        assert after.rows == before.rows - clicked
        assert after.table.url.notnull().sum().to_pyarrow().as_py() == 0
    assert 0 < clicked < before.rows


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("click", {}),
        ("pair", {}),
        ("pair", {"gap": 86_400 * 9.5, "since": datetime(2024, 1, 9)}),
        ("session", {"gap": 3.0}),
        ("session", {"gap": 86_400 * 9.5, "longest": 3}),
        ("session", {"gap": 86_400 * 2, "unit": "user-week"}),
    ],
)
@pytest.mark.parametrize("published", [True, False])
def test_only_published_queries_count_where_a_table_follows(
    kind, more, published, general, tmp_path
):
    log = hostile_log(2500, seed=3)
    # Seconds of many days: both near and distant rows, and some of one time.
    coarse = pa.compute.floor_temporal(log["time"], unit="hour", multiple=6)
    pq.write_table(log.set_column(1, "time", coarse), tmp_path / "log.parquet")
    queries = ["nobody asks this", *(f"query {n}" for n in range(60)), "istanbul", "x'y"]
    known = pa.table({"query": queries}) if published else None

    def count():
        with connect() as engine:
            found = read(find(str(tmp_path / "log.parquet")), engine=engine)
            kept = tally(
                bound(
                    items(found, kind=kind, known=known, **more),
                    per_user=2,
                    entropy=SystemEntropy(),
                )
            )
            return sorted(json.dumps(row) for b in kept.batches() for row in b.to_pylist())

    numbers = count()
    general()
    assert numbers == count()
    assert numbers


def test_items_and_numbers_for_rounds_are_the_same(general, tmp_path):
    log = hostile_log(1500, seed=8)
    coarse = pa.compute.floor_temporal(log["time"], unit="month")
    pq.write_table(log.set_column(1, "time", coarse), tmp_path / "log.parquet")

    def held():
        with connect() as engine:
            found = read(find(str(tmp_path / "log.parquet")), engine=engine)
            numbers = hold(found, View(kind="query"), per_user=20, entropy=SystemEntropy())
            rows = numbers.table.join(numbers.names, "item").select("unit", "query")
            units = {}
            for batch in engine.batches(rows):
                for row in batch.to_pylist():
                    units.setdefault(row["unit"], []).append(row["query"])
            assert numbers.size == len({q for unit in units.values() for q in unit})
            return sorted(sorted(unit) for unit in units.values())

    numbers = held()
    general()
    assert numbers == held()
    assert max(map(len, numbers)) == 20


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint16(), pa.uint64(), pa.float64()])
@pytest.mark.parametrize("room", [None, 40_000.0])
def test_users_that_are_whole_numbers_are_users_by_their_text(
    kind, room, general, tmp_path, monkeypatch
):
    """Without times, too: in memory, in partitions and as a table."""
    if room:
        monkeypatch.setattr(murmurlog.logs.partitions, "ROWS_A_BATCH", 700)
    log = hostile_log(2000, seed=4)
    users = [None if n % 40 == 0 else n * n % 97 for n in range(2000)]
    if not pa.types.is_unsigned_integer(kind):
        users = [user if user is None or user % 3 else -user for user in users]
    largest = {pa.int64(): [-(2**63), 2**63 - 1], pa.uint64(): [2**64 - 1, 0]}.get(kind, [0, 7])
    table = pa.table({"user": pa.array([*users[:-2], *largest], kind), "query": log["query"]})
    pq.write_table(table, tmp_path / "log.parquet")
    made = []
    for turn in (lambda: None, general):
        turn()
        with connect() as engine:
            if room:
                monkeypatch.setattr(murmurlog.logs.partitions, "ROOM", room / engine.memory)
            asked = [("query", "user", "random"), ("keyword", "user", "random")]
            made += count_tallies(
                engine, [{"path": str(tmp_path / "log.parquet"), "counted": asked}]
            )
    assert made[0] == made[1]
    assert made[0]["broken"]["no user"] == 50
    names = {json.loads(row)[0] for row in made[0]["rows"]}
    assert {
        str(pa.scalar(n, kind).cast(pa.string())) for n in largest
    } <= names or kind == pa.float64()


def test_a_log_without_room_takes_the_general_path(tmp_path, monkeypatch):
    pq.write_table(hostile_log(500, seed=2), tmp_path / "log.parquet")
    monkeypatch.setattr(murmurlog.logs.partitions, "ROOM", 1e-9)
    with connect() as engine:
        log = read(find(str(tmp_path / "log.parquet")), engine=engine)
        assert isinstance(log, TableLog)
        assert log.rows == log.table.count().to_pyarrow().as_py() > 0


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([-5, 0, 1, 2, NEVER]), st.integers(0, 6)),
        max_size=40,
    ),
    d=st.integers(1, 4),
    places=st.booleans(),
    key=st.integers(0, 1000),
)
def test_first_items_are_those_of_a_plain_sort(rows, d, places, key):
    names = {i: hashlib.sha256(f"{key} {i}".encode()).hexdigest() for i in range(7)}
    expected = set()
    for unit in {row[0] for row in rows}:
        first = {}
        for u, time, item in rows:
            if u == unit:
                first[item] = min(time, first.get(item, NEVER))
        order = sorted(first, key=lambda item: (first[item], names[item]))
        expected |= {(unit, item, place) for place, item in enumerate(order[:d])}

    def ranks(some):
        order = sorted(range(len(some)), key=lambda i: names[int(some[i])])
        found = np.empty(len(some), np.int64)
        found[order] = np.arange(len(some))
        return found

    unit, time, item = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    kept = first_items(unit=unit, time=time, item=item, per_unit=d, ranks=ranks, places=places)
    found = set(zip(kept.unit.tolist(), kept.item.tolist(), kept.place.tolist(), strict=True))
    if not places:  # which items are kept, whatever their order
        found, expected = ({triple[:2] for triple in some} for some in (found, expected))
    assert found == expected


def test_texts_are_ranked_by_their_bytes():
    texts = sorted({q for q in QUERIES if "\ud7ff" not in q})
    every = EncodedColumn(
        codes=np.arange(len(texts), dtype=np.int32), texts=pa.array(texts, pa.string())
    )
    none = np.zeros(0, np.int64)
    holdings = Holdings(
        unit=none, time=none, item=none, keys=(every,), users=pa.array([], pa.string()),
        unit_user=None, unit_start=None,
    )  # fmt: skip
    ranks = holdings.ranks(np.arange(len(texts)))
    assert [texts[i] for i in np.argsort(ranks)] == sorted(texts, key=str.encode)


URLS = st.lists(
    st.sampled_from(
        [
            "http://",
            "https://",
            "www.",
            "a",
            "b-c",
            "é",
            "A",
            ".",
            "org",
            "/",
            "//",
            "?",
            "q=1",
            "#",
            ":80",
            " ",
            "\n",
        ]
    ),
    max_size=9,
).map("".join)


@settings(deadline=None)
@given(url=URLS, level=st.sampled_from(URL_LEVELS))
def test_urls_of_the_common_form_are_cleaned_as_all_are(url, level):
    (found,) = _plain_urls(pa.array([url]), Cleaning(url=level)).to_pylist()
    assert found in (None, clean_url(url, level))


@settings(deadline=None)
@given(
    urls=st.lists(URLS | st.sampled_from(["aBcD", "abcd", "SKU 12/A"])),
    level=st.sampled_from(URL_LEVELS),
)
def test_every_url_is_cleaned_by_itself_whatever_the_column_holds(urls, level):
    texts = pa.array(urls, pa.string())
    column = EncodedColumn(codes=np.arange(len(urls), dtype=np.int32), texts=texts)
    cleaned = _clean_urls(column, Cleaning(url=level)).column().to_pylist()
    assert cleaned == [clean_url(url, level) for url in urls]


def test_most_urls_are_of_the_common_form():
    urls = [
        "http://www.a.org/b/?q=1#x",
        "http://a.org",
        "https://a-b.co.uk/c/",
        "http://www.com",
        "http://é.org",
        "a.org",
    ]
    made = {
        level: _plain_urls(pa.array(urls), Cleaning(url=level)).to_pylist()
        for level in ("path", "full")
    }
    assert made["path"] == ["a.org/b", "a.org", "a-b.co.uk/c", "www.com", None, None]
    assert made["full"][0] == "a.org/b?q=1"
