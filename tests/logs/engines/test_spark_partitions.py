"""What the workers of a cluster run, without Spark: releases are those of this machine."""

import subprocess
import sys
from contextlib import nullcontext
from unittest.mock import patch

import frozen
import numpy as np
import pyarrow as pa
import pytest
import workers
from engine_results import dump
from quick_cases import sample_cases

from murmurlog.errors import EngineError
from murmurlog.logs import rows
from murmurlog.logs.engines import duckdb
from murmurlog.logs.engines.spark_worker import SHARDS, Packer, unpack
from murmurlog.logs.log import read
from murmurlog.logs.partitions import Sums
from murmurlog.logs.running import Running
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import NOT_DRAWN, TextKeys
from murmurlog.privacy.sampler import SeededEntropy

# What a release needs that nobody else does is in one of these.
RELEASES = (
    "threshold-by", "threshold-untimed", "keywords", "korolova-rows", "zealous-pdp", "rounds",
    "rounds-by", "rounds-random", "rounds-days", "rounds-months", "rounds-itemsets", "rounds-pool",
    "rounds-windows", "sessions", "sessions-whole", "session-tree", "pool", "left-out", "synthetic",
    "zealous-keywords", "korolova-lists",
)  # fmt: skip


def release_on_workers(name, **how):
    with (
        workers.connect(**how) as engine,
        patch.object(Running, "connect", lambda running: nullcontext(engine)),
    ):
        return frozen.release_tables(name, engine="spark", master="local[1]"), engine


@pytest.mark.parametrize("name", sample_cases({name: name for name in RELEASES}, every=3))
def test_a_release_is_that_of_this_machine(name):
    here = frozen.release_tables(name)
    assert all(here.values())
    there, _ = release_on_workers(name)
    assert there == here


@pytest.mark.parametrize("how", [
    {"bits": 0}, {"bits": 5, "seed": 2}, {"fails": True, "seed": 3}, {"twice": True, "seed": 4},
    {"on_disk": False, "fails": True, "seed": 5},
])  # fmt: skip
def test_nothing_depends_on_partitions_the_order_of_rows_or_tasks_that_fail_or_run_twice(how):
    assert release_on_workers("rounds-days", **how)[0] == release_on_workers("rounds-days")[0]


def read_on(engine, **how):
    return read(
        find(str(frozen.LOG)),
        engine=engine,
        entropy=SeededEntropy(1),
        keep={"where": "country"},
        **how,
    )


@pytest.mark.parametrize("how", [{}, {"unit": "user-week", "url": None, "since": "2026-01-20"}])
def test_rows_are_those_that_this_machine_reads(how):
    with duckdb.connect() as local, workers.connect() as cluster:
        here, there = read_on(local, **how), read_on(cluster, **how)
        assert there.rows == here.rows > 1000
        assert there.broken == here.broken
        assert sorted(row for part in there.partitions.results(dump) for row in part) == sorted(
            row for part in here.partitions.results(dump) for row in part
        )


def test_a_partition_has_no_texts_but_its_own():
    with workers.connect(bits=3) as engine:
        log = read_on(engine)
        parts = list(log.partitions.results(own_texts))
    assert len(parts) == 8
    assert all(texts == used > 0 for texts, used in parts)


def own_texts(part):
    texts = sum(map(len, part.texts.columns()))
    columns = [part.query, part.url, *part.kept_columns.values()]
    return texts, len(np.unique(np.concatenate([column.ids for column in columns])))


def test_sums_are_complete_when_the_work_is_done_and_come_by_range_of_keys():
    with workers.connect() as engine:
        log = read_on(engine)
        sums = log.partitions.add_up(count_queries)
        log.partitions.close()
        shards = list(sums)
        sums.close()
        assert engine.stored == []
    assert len(shards) == SHARDS
    keys = np.concatenate([shard.keys for shard in shards])
    assert (np.diff(keys[:, 0].astype(np.float64)) >= 0).all()
    assert len(np.unique(keys, axis=0)) == len(keys)
    assert sum(shard.sums.sum() for shard in shards) == log.rows


def count_queries(part):
    return Sums(part.query.keys, np.bincount(part.query.codes, minlength=len(part.query.keys)))


def test_results_are_deleted_once_they_are_read():
    with workers.connect() as engine:
        log = read_on(engine)
        assert sum(log.partitions.results(count_rows)) == log.rows
        results = log.partitions.results(count_rows)
        next(results)
        results.close()
        assert engine.stored == [log.partitions.stored]


def count_rows(part):
    return part.count


def test_a_log_has_fewer_units_than_there_are_partitions(tmp_path):
    (tmp_path / "log.csv").write_text("user,query\na,x\nb,y\n")
    with workers.connect(bits=6) as engine:
        log = read(find(str(tmp_path / "log.csv")), engine=engine)
        assert sum(log.partitions.results(count_rows)) == 2
        nothing = log.empty()
        assert set(nothing.partitions.results(count_rows)) == {0}
        assert [shard.sums.sum() for shard in nothing.partitions.add_up(count_queries)] == [
            0
        ] * SHARDS


def test_a_partition_with_too_many_units_is_split(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,query\n" + "".join(f"u{n % 900},q{n % 70}\n" for n in range(3000)))
    with (
        duckdb.connect() as local,
        workers.connect(bits=1) as cluster,
        patch.dict(rows.RowReader.__init__.__kwdefaults__, most_rows=120),
    ):
        here, there = (
            read(find(str(path)), engine=engine, entropy=SeededEntropy(1))
            for engine in (local, cluster)
        )
        counts = list(there.partitions.results(count_rows))
        assert max(counts) <= 120
        assert sum(counts) == 3000
        assert there.partitions.count == len(counts) > 25
        assert list(there.partitions.results_with(add, range(len(counts)))) == [
            place + count for place, count in enumerate(counts)
        ]
        both = [
            sorted(row for part in log.partitions.results(dump) for row in part)
            for log in (here, there)
        ]
        assert both[0] == both[1]


def add(part, number):
    return part.count + number


def test_what_no_row_needs_is_read_from_no_file():
    """Texts stay where they were written: what is derived only names their place."""
    with workers.connect() as engine:
        log = read_on(engine)
        derived = log.partitions.derive(same)
        places = [
            {part.texts.place for part in partitions.results(same)}
            for partitions in (log.partitions, derived)
        ]
    assert places[0] == places[1]
    assert len(places[0]) == 4


def same(part):
    return part


def test_an_empty_log_has_partitions_and_sums():
    with workers.connect() as engine:
        log = read_on(engine).empty()
        assert list(log.partitions.results(count_rows)) == [0, 0, 0, 0]
        assert [shard.sums.sum() for shard in log.partitions.add_up(count_queries)] == [0] * SHARDS


def test_a_large_unit_is_cut_to_the_same_rows_as_here(tmp_path):
    path = tmp_path / "log.csv"
    lines = [f"u,{time // 3},q{time % 70}" for time in range(3000)]
    lines += [f"v{n},{n},q{n}" for n in range(50)]
    path.write_text(
        "\n".join(["user,time,query", *sorted(lines, key=lambda line: line[::-1])]) + "\n"
    )

    def rows_on(connected, **how):
        with connected(**how) as engine:
            log = read(
                find(str(path)), engine=engine, entropy=SeededEntropy(1), url=None,
            )  # fmt: skip
            return sorted(row for part in log.partitions.results(dump) for row in part)

    with patch.object(rows, "MOST_ROWS_A_UNIT", 100):
        here = rows_on(duckdb.connect)
        assert 100 < len(here) < 160
        assert rows_on(workers.connect) == here
        with patch.dict(rows.RowReader.__init__.__kwdefaults__, most_rows=120):
            assert rows_on(workers.connect) == here


def test_a_copy_of_the_keys_draws_no_numbers_of_its_own():
    """Else a text would have one key here and another there."""
    keys = TextKeys()
    keys.draw_ahead(longest=40, members=2)
    with workers.connect() as engine:
        copy = engine.share(keys)()
    texts = pa.array(["", "a", "é" * 20, None, "x" * 40])
    assert (copy.texts(texts) == keys.texts(texts)).all()
    with pytest.raises(EngineError, match=NOT_DRAWN):
        copy.texts(pa.array(["x" * 50]))
    keys.texts(pa.array(["x" * 50]))


def test_numbers_drawn_ahead_are_those_that_are_drawn_as_texts_come():
    texts = pa.array(["a", "b" * 1000, "c" * 33])
    ahead, later = TextKeys(SeededEntropy(3)), TextKeys(SeededEntropy(3))
    ahead.draw_ahead(longest=5000, members=0)
    assert (ahead.texts(texts) == later.texts(texts)).all()


def test_the_numbers_of_the_keys_are_in_no_value():
    keys = TextKeys()
    keys.draw_ahead(longest=100_000, members=10)
    packed = Packer().pack({"keys": keys, "n": np.arange(3)})
    assert len(packed) < 1000
    assert unpack(packed, keys)["keys"] is keys


def test_workers_load_no_engine():
    code = (
        "import sys, murmurlog.logs.engines.spark_worker\n"
        "print({'ibis', 'duckdb', 'pyspark', 'pandas'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
