"""A log in partitions of users has the same rows, bounds and tallies as one in memory."""

import json
import os
import stat
from unittest.mock import patch

import fixed_noise
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_tallies import count_tallies
from hostile import hostile_log, with_texts

import murmurlog
import murmurlog.logs.partitions
from murmurlog.bundle.schema import BY_VALUE
from murmurlog.counting.bound import bound
from murmurlog.counting.items import items
from murmurlog.counting.tally import tally
from murmurlog.errors import InputError
from murmurlog.logs.encoded import EncodedRows
from murmurlog.logs.engines.duckdb import DuckEngine, connect
from murmurlog.logs.log import EncodedLog, read
from murmurlog.logs.partitions import Partitions
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.rounds import weights
from murmurlog.mechanisms.rounds.codes import HeldFiles
from murmurlog.mechanisms.rounds.weights import hold, keys_of_items
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy
from murmurlog.publishing.ledger import Ledger

SOME = [("query", "user", "first"), ("click", "user-week", "first")]
EVERYTHING = [
    *SOME,
    ("query", "user", "random"),
    ("pair", "user-day", "first"),
    ("keyword", "user-month", "first"),
]
READINGS = {
    "plain": {},
    "a period": {"since": "2024-01-05", "until": "2024-01-20T12:00:00"},
    "a kept column": {"keep": {BY_VALUE: "country"}, "deny": frozenset(["query 1*"])},
}


@pytest.fixture(scope="module")
def memory():
    with connect() as engine:
        return engine.memory


@pytest.fixture
def limit_room(monkeypatch, memory):
    """Leaves room for so many bytes only, and reads few rows at a time."""

    def leave(room):
        monkeypatch.setattr(murmurlog.logs.partitions, "ROOM", room / memory)
        monkeypatch.setattr(murmurlog.logs.partitions, "ROWS_A_BATCH", 300)

    return leave


def count_log(path, wanted, **reading):
    with connect() as engine:
        (found,) = count_tallies(engine, [{"path": str(path), "counted": wanted, **reading}])
        return found


def parts_of(path):
    """How many partitions the log has; 0 if it is in memory, None if it is not encoded."""
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        if not isinstance(log, EncodedLog):
            return None
        return len(log.encoded.files) if isinstance(log.encoded, Partitions) else 0


def write_log(log, path, **options):
    pq.write_table(log, path, row_group_size=700, **options)
    return path


@pytest.mark.parametrize("reading", READINGS)
def test_parts_have_the_rows_and_tallies_of_a_log_in_memory(reading, limit_room, tmp_path):
    log = hostile_log(1500, seed=11)
    # Whole days, so that many rows of a unit are of one time.
    log = log.set_column(1, "time", pa.compute.floor_temporal(log["time"], unit="day"))
    if reading != "plain":
        log = with_texts(log, seed=6)
    path = write_log(log, tmp_path / "log.parquet")
    assert parts_of(path) == 0
    whole = count_log(path, EVERYTHING, **READINGS[reading])
    limit_room(log.nbytes / 3)
    assert parts_of(path) >= 3
    assert count_log(path, EVERYTHING, **READINGS[reading]) == whole
    assert len(whole["rows"]) > 100
    assert all(whole[", ".join(one)] for one in EVERYTHING)


def test_parts_without_an_item_are_no_reason_to_stop(limit_room, tmp_path):
    """Whether one user clicked decides which parts hold something: nobody may see that."""
    many = range(3000)
    log = pa.table({
        "user": [f"u{n}" for n in many] * 2 + ["u0"],
        "query": ["common"] * 3000 + [f"rare {n}" for n in many] + ["common"],
        "url": [None] * 3000 + [f"site{n}.example" for n in many] + ["clicked.example"],
        "time": pa.array([f"2026-01-0{1 + n // 3000}" for n in range(6001)]),
    })  # fmt: skip
    path = write_log(log, tmp_path / "log.parquet")
    limit_room(log.nbytes / 3)
    assert parts_of(path) >= 3
    made = murmurlog.release(
        str(path), out=tmp_path / "b", tables=["query", "click"], ledger=tmp_path / "l.db",
        source_name="s", new_source=True, mechanism="rounds",
    )  # fmt: skip
    assert made.rows["query"] == 1
    assert Ledger(tmp_path / "l.db").entries()[0].state == "committed"


@pytest.mark.parametrize("entropy", [SeededEntropy(1), SystemEntropy()], ids=["seed", "system"])
@pytest.mark.parametrize("kind", ["query", "click", "session"])
def test_rounds_hold_the_same_items_of_a_log_in_parts(kind, entropy, limit_room, tmp_path):
    log = hostile_log(1500, seed=8)
    path = write_log(log, tmp_path / "log.parquet")
    view = View(kind=kind, gap=86_400.0)

    def held():
        with connect() as engine:
            found = read(find(str(path)), engine=engine)
            numbers = hold(found, view, per_user=20, entropy=entropy)
            names = [row for b in engine.batches(numbers.names) for row in b.to_pylist()]
            texts = {row["item"]: json.dumps([row[key] for key in numbers.keys]) for row in names}
            assert sorted(texts) == list(range(numbers.size))
            assert len({*texts.values()}) == numbers.size
            some = np.arange(0, numbers.size, 3)
            shown = [
                json.dumps([*row.values()]) for row in keys_of_items(numbers, some).to_pylist()
            ]
            assert shown == [texts[item] for item in some]
            units = {}
            for batch in engine.batches(numbers.table):
                for row in batch.to_pylist():
                    units.setdefault(row["unit"], []).append(texts[row["item"]])
            files = numbers.partitions.names if numbers.partitions else ()
            return sorted(sorted(unit) for unit in units.values()), len(files)

    whole, none = held()
    limit_room(log.nbytes / 3)
    parts, runs = held()
    assert parts == whole
    assert none == 0
    assert runs > 5


def test_one_seed_gives_one_table_on_every_path(limit_room, tmp_path, monkeypatch):
    log = hostile_log(1500, seed=8)
    path = write_log(log, tmp_path / "log.parquet")

    def released(name):
        made = murmurlog.release(
            str(path), out=tmp_path / name, tables=["query", "click", "keyword"],
            mechanism="rounds", epsilon=40.0, delta=1e-2, accept_delta=True,
            entropy=SeededEntropy(5),
        )  # fmt: skip
        assert min(made.rows.values()) > 0
        return {
            table: pq.read_table(tmp_path / name / f"data/{table}.parquet") for table in made.rows
        }

    whole = released("memory")
    limit_room(log.nbytes / 3)
    assert parts_of(path) >= 3
    assert released("partitions") == whole
    monkeypatch.setattr(DuckEngine, "local", None)
    assert released("table") == whole


EARLY, LATE = "2024-01-08", "2024-01-20"
POOL = ["nobody asks this", *(f"query {n}" for n in range(20))]


@pytest.mark.parametrize(
    "wanted",
    [
        {
            "kind": "query",
            "unit": "user",
            "way": "random",
            "pool": POOL,
        },
        {"kind": "query", "unit": "user", "earlier": ["query 0", "nobody"], "count_from": EARLY},
        {"kind": "click", "unit": "user-week", "select_from": EARLY, "count_from": LATE},
    ],
)
def test_every_round_sums_and_counts_the_same_of_a_log_in_parts(wanted, limit_room, tmp_path):
    log = hostile_log(1500, seed=8)
    asked = {"path": str(write_log(log, tmp_path / "log.parquet")), "d": 6, **wanted}
    (whole,) = fixed_noise.release_on_duckdb([asked], dense=True)
    limit_room(log.nbytes / 3)
    monitored = HeldFiles.partitions
    with patch.object(HeldFiles, "partitions", autospec=True, side_effect=monitored) as read_files:
        (parts,) = fixed_noise.release_on_duckdb([asked], dense=True)
    assert read_files.called
    assert parts == whole
    assert len(whole["sums"]) == 4
    assert whole["published"]
    assert whole["holders"]


def test_rounds_in_parts_leave_no_file_when_they_are_stopped(limit_room, tmp_path, monkeypatch):
    log = hostile_log(1500, seed=8)
    path = write_log(log, tmp_path / "log.parquet")
    limit_room(log.nbytes / 3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    seen, keep_alive = [], weights.keep_alive

    def looked_at(rows, given):
        (folder,) = scratch.iterdir()
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        seen.append(len(list(folder.glob("*.arrow"))))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return keep_alive(rows, given)

    monkeypatch.setattr(weights, "keep_alive", looked_at)
    mechanism = Rounds.solve(epsilon=8.0, delta=1e-3, d=6, rounds=4)
    with connect(folder=scratch) as engine:
        found = read(find(str(path)), engine=engine)
        held = mechanism.gather(found, View(kind="query"), entropy=SeededEntropy(1))
        with pytest.raises(KeyboardInterrupt):
            mechanism.release(held, entropy=SeededEntropy(1))
    # A round's files replace those of the round before.
    assert seen[0] < seen[1] == seen[2]
    assert not list(scratch.iterdir())


def test_only_published_queries_count_in_parts_too(limit_room, tmp_path):
    log = hostile_log(2000, seed=3)
    path = write_log(log, tmp_path / "log.parquet")
    known = pa.table({"query": ["query 1", "query 2", "query 3", "nobody asks this"]})

    def count():
        with connect() as engine:
            held = items(read(find(str(path)), engine=engine), kind="click", known=known)
            kept = tally(bound(held, per_user=2, entropy=SeededEntropy(1)))
            return sorted(json.dumps(row) for b in kept.batches() for row in b.to_pylist())

    whole = count()
    limit_room(log.nbytes / 4)
    assert count() == whole
    assert whole


def log_of_one_user(rows):
    log = hostile_log(rows, seed=4)
    return log.set_column(0, "user", pa.array(["everything"] * rows))


def test_one_user_with_everything_takes_the_general_path(limit_room, tmp_path):
    path = write_log(log_of_one_user(900), tmp_path / "log.parquet")
    whole = count_log(path, SOME)
    limit_room(log_of_one_user(900).nbytes / 3)
    assert parts_of(path) is None
    assert count_log(path, SOME) == whole


def test_one_large_user_among_others_has_a_part_of_its_own(limit_room, tmp_path):
    log = pa.concat_tables([hostile_log(1200, seed=5), log_of_one_user(600)])
    path = write_log(log, tmp_path / "log.parquet")
    whole = count_log(path, SOME)
    limit_room(log_of_one_user(600).nbytes * 1.2)
    assert parts_of(path) >= 2
    assert count_log(path, SOME) == whole


def test_no_room_at_all_takes_the_general_path(limit_room, tmp_path):
    path = write_log(hostile_log(500, seed=2), tmp_path / "log.parquet")
    whole = count_log(path, SOME)
    limit_room(1)
    assert parts_of(path) is None
    assert count_log(path, SOME) == whole


def test_little_memory_is_enough(tmp_path):
    path = write_log(hostile_log(3000, seed=9), tmp_path / "log.parquet")
    whole = count_log(path, SOME)
    with connect(memory="60MB") as engine:
        (found,) = count_tallies(engine, [{"path": str(path), "counted": SOME}])
    assert found == whole


@pytest.mark.parametrize("rows", [0, 400])
def test_a_log_without_usable_rows_is_refused_in_parts_too(rows, limit_room, tmp_path):
    log = hostile_log(400, seed=1).slice(0, rows)
    none = pa.array([None] * rows, pa.string())
    path = write_log(log.set_column(0, "user", none), tmp_path / "log.parquet")
    limit_room(2_000_000 if rows == 0 else log.nbytes / 3)
    with connect() as engine, pytest.raises(InputError, match="no usable rows"):
        read(find(str(path)), engine=engine)


def test_a_column_that_would_fill_a_list_is_taken_in_parts(monkeypatch, tmp_path):
    log = hostile_log(1500, seed=12)
    path = write_log(log, tmp_path / "log.parquet")
    whole = count_log(path, SOME)
    monkeypatch.setattr(murmurlog.logs.partitions, "MOST_TEXT", log["query"].nbytes / 1.5)
    monkeypatch.setattr(murmurlog.logs.partitions, "ROWS_A_BATCH", 300)
    assert parts_of(path) >= 2
    assert count_log(path, SOME) == whole


def test_no_user_is_in_two_parts(limit_room, tmp_path):
    log = hostile_log(1500, seed=7)
    path = write_log(log, tmp_path / "log.parquet")
    limit_room(log.nbytes / 4)
    with connect() as engine:
        encoded = read(find(str(path)), engine=engine).encoded
        assert isinstance(encoded, Partitions)
        users = [set(part.user.texts.to_pylist()) - {""} for part in encoded.partitions()]
        assert len(users) >= 4
        assert sum(map(len, users)) == len(set.union(*users))
        assert all(isinstance(part, EncodedRows) and part.rows for part in encoded.partitions())


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_written_is_private_and_goes_also_after_an_error(
    fails, limit_room, tmp_path, monkeypatch
):
    log = hostile_log(1500, seed=7)
    path = write_log(log, tmp_path / "log.parquet")
    limit_room(log.nbytes / 3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    encode = murmurlog.logs.partitions.encode
    seen = []

    def looked_at(pieces, cleaning):
        (folder,) = scratch.iterdir()
        seen.append(stat.S_IMODE(os.stat(folder).st_mode))
        assert list(folder.glob("*.arrow"))
        if fails:
            raise RuntimeError
        return encode(pieces, cleaning)

    monkeypatch.setattr(murmurlog.logs.partitions, "encode", looked_at)
    try:
        with connect(folder=scratch) as engine:
            found = read(find(str(path)), engine=engine)
            # The rows as they were read are gone; the parts stay as long as the engine.
            assert len(list(engine.folder.glob("*.arrow"))) == len(found.encoded.files)
    except RuntimeError:
        assert fails
    assert set(seen) == {0o700}
    assert not list(scratch.iterdir())
