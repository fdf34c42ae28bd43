"""Partitions: in memory or in files, few or many, the same rows and sums, and nothing is left behind."""

import random
from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from log_readers import rows_of_partition

from murmurlog.logs.cleaning import Cleaning, column_cleaners
from murmurlog.logs.partitions import LocalPartitions, Sums, sum_by_key
from murmurlog.logs.rows import RowReader, Texts
from murmurlog.logs.text_keys import TextKeys
from murmurlog.logs.workspace import open_workspace
from murmurlog.privacy.sampler import SeededEntropy

NOTHING = 1  # bytes of memory: every value goes to a file
PLENTY = 1 << 30


def batches_of(rows, size):
    """Rows of (user, query, second, url) as batches of a source."""
    for start in range(0, len(rows), size):
        users, queries, seconds, urls = zip(*rows[start : start + size], strict=True)
        yield pa.record_batch(
            {
                "user": users,
                "query": queries,
                "time": pa.array([1_000_000 * s for s in seconds]).cast(pa.timestamp("us")),
                "bad_time": [False] * len(users),
                "url": pa.array(urls, pa.string()),
                "rank": pa.array(range(len(users)), pa.int32()),
                "k0": users,
            }
        )


def random_rows(count, *, users=40, seed=1):
    choice = random.Random(seed)
    return [
        (f"u{choice.randrange(users)}", f"word {choice.randrange(30)}", choice.randrange(10**6),
         choice.choice((None, "a.example/b", "c.example")))
        for _ in range(count)
    ]  # fmt: skip


def read(rows, workspace, *, batch=100, **more):
    cleaning = Cleaning(url="host", keep=("name",))
    reader = RowReader(
        cleaning=cleaning, text_keys=TextKeys(SeededEntropy(1)),
        texts=Texts(workspace, column_cleaners(cleaning)), **more,
    )  # fmt: skip
    return reader.read(batches_of(rows, batch), workspace).settle()


def plain(rows):
    """The rows of a partition as a multiset."""
    return Counter(
        (row["name"], row["query"], str(row["time"]), row["url"]) for row in rows_of_partition(rows)
    )


def queries(rows):
    """How many rows have each query."""
    return sum_by_key(
        rows.query.keys, np.bincount(rows.query.codes, minlength=len(rows.query.keys))
    )


def merged(parts):
    """The sums of several parts together."""
    parts = list(parts)
    return sum_by_key(
        np.concatenate([part.keys for part in parts]), np.concatenate([part.sums for part in parts])
    )


def units(rows):
    return [tuple(key) for key in rows.unit_keys.tolist()]


@pytest.mark.parametrize("memory", [NOTHING, 200_000, PLENTY])
@pytest.mark.parametrize("how", [{"bits": 0}, {"bits": 3}, {"bits": 1, "most_rows": 50}], ids=str)
@pytest.mark.parametrize("unit", ["user", "user-day"])
def test_any_partitions_have_the_same_rows_and_sums(memory, how, unit, tmp_path):
    rows = random_rows(2_000)
    expected = Counter((u, q, str(np.datetime64(s, "s").item()), url and url.split("/")[0])
                       for u, q, s, url in rows)  # fmt: skip
    with open_workspace(memory=memory, threads=2, folder=tmp_path) as workspace:
        log = read(rows, workspace, unit=unit, **how)
        assert log.counts.rows == len(rows)
        assert sum(log.partitions.results(plain), Counter()) == expected
        keys = [key for part in log.partitions.results(units) for key in part]
        assert len(keys) == len(set(keys)), "a unit is in two partitions"
        if "most_rows" in how:
            assert log.partitions.count > 2
        sums = merged(log.partitions.add_up(queries))
        derived = log.partitions.derive(queries)
        again = merged(derived.results(_same))
        assert np.array_equal(sums.keys, again.keys)
        assert np.array_equal(sums.sums, again.sums)
        assert sums.sums.sum() == len(rows)
    assert list(tmp_path.iterdir()) == []


def _same(value):
    return value


@pytest.mark.parametrize("memory", [NOTHING, PLENTY])
def test_each_key_is_in_one_shard_in_order(memory):
    with open_workspace(memory=memory, threads=2) as workspace:
        log = read([(f"u{n % 7}", f"q{n}", n, None) for n in range(3_000)], workspace, bits=2)
        shards = log.partitions.add_up(queries)
        keys = np.concatenate([shard.keys for shard in shards])
        assert len(keys) == 3_000
        assert np.all(keys[1:, 0] > keys[:-1, 0])
        assert np.array_equal(keys, np.concatenate([shard.keys for shard in shards]))  # once more
        shards.close()
        log.partitions.close()


def files_of(workspace):
    """The files that have values; empty ones wait for others."""
    return {file for file in workspace.folder.rglob("*.values") if file.stat().st_size}


def test_files_are_deleted_with_their_values(tmp_path):
    with open_workspace(memory=NOTHING, threads=2, folder=tmp_path) as workspace:
        log = read(random_rows(500), workspace, bits=2)
        shards, derived = log.partitions.add_up(queries), log.partitions.derive(queries)
        files = files_of(workspace)
        assert len(files) > 6
        for values in (shards, derived, log.partitions):
            values.close()
        assert files_of(workspace) < files  # the texts, which the reader keeps for labels


@pytest.mark.parametrize("memory", [NOTHING, PLENTY])
def test_an_error_on_the_way_leaves_no_value(memory, tmp_path):
    with open_workspace(memory=memory, threads=1, folder=tmp_path) as workspace:
        log = read(random_rows(500), workspace, bits=3)
        before, used = files_of(workspace), workspace._used
        largest = max(log.partitions.results(units), key=len)
        for method in (log.partitions.derive, log.partitions.add_up):
            with pytest.raises(ZeroDivisionError):
                method(partial(_fail_at, unit=largest[0]))
        assert files_of(workspace) == before
        assert workspace._used == used


def _fail_at(rows, *, unit):
    return 1 // 0 if unit in units(rows) else queries(rows)


@pytest.mark.parametrize("memory", [NOTHING, PLENTY])
def test_answers_go_to_the_partitions_that_have_the_keys(memory, tmp_path):
    """The list of all answers, and what each partition is given of it, say the same about its keys."""
    with open_workspace(memory=memory, threads=2, folder=tmp_path) as workspace:
        log = read(random_rows(2_000), workspace, bits=3)
        before = workspace._in_files + workspace._used
        sums = log.partitions.add_up(queries)
        numbers, answers = sums.answer(odd_sums)
        assert numbers == list(range(sums.shards))
        together = [np.concatenate(columns) for columns in
                    zip(*(answers.shard(n) for n in numbers), strict=True)]  # fmt: skip
        expected = {
            tuple(key): value for key, value in zip(*map(np.ndarray.tolist, together), strict=True)
        }
        assert 5 < len(expected) < 25
        given = log.partitions.derive_with(answers, keys_and_answers)
        for own, keys, values in given.results(_same):
            assert {tuple(key) for key in keys} == {tuple(key) for key in own} & expected.keys()
            assert values == [expected[tuple(key)] for key in keys]
        del answers, given
        sums.close()
        log.partitions.close()
        left = workspace._in_files if memory == NOTHING else workspace._used
        assert left < before


def odd_sums(number, shard):
    odd = np.flatnonzero(shard.sums % 2)
    return number, odd, (shard.sums[odd],)


def keys_and_answers(rows, columns):
    return rows.query.keys.tolist(), columns[0].tolist(), columns[1].tolist()


def test_without_a_batch_there_are_no_sums():
    with open_workspace(threads=2) as workspace:
        nothing = LocalPartitions([], workspace).add_up(lambda rows: rows)
        assert sum(len(shard.keys) for shard in nothing) == 0


def test_a_sum_is_a_whole_number():
    with pytest.raises(TypeError, match="whole numbers of 64 bits, not float64"):
        Sums(np.zeros((1, 2), np.uint64), np.zeros(1))
    added = sum_by_key(np.ones((3, 2), np.uint64), np.array([1, 2**40, 2**60]))
    assert added.sums.tolist() == [1 + 2**40 + 2**60]
