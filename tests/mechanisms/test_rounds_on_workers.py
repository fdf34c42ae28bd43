"""Rounds on workers: the sums of every round, what is published and who holds it are those of the general path."""

import subprocess
import sys
from unittest.mock import patch

import fixed_noise
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workers
from hostile import hostile_log
from quick_cases import sample_cases

from murmurlog.counting.cluster_rounds import look_up
from murmurlog.counting.holdings import Holdings
from murmurlog.logs.engines.duckdb import DuckEngine
from murmurlog.logs.log import ClusterLog, TableLog, read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.mechanisms.rounds import weights
from murmurlog.mechanisms.rounds.cluster import ClusterRounds
from murmurlog.privacy.sampler import SeededEntropy

QUERIES = {"kind": "query", "unit": "user", "d": 10}
PUBLIC = ["maps", "x'y", "[b]", "a b", *(f"nobody asks {n}" for n in range(60))]
ASKED = {
    "queries": QUERIES,
    "clicks of a week": {"kind": "click", "unit": "user-week", "d": 20, "way": "random"},
    "pairs": {"kind": "pair", "unit": "user", "d": 5},
    "keywords": {"kind": "keyword", "unit": "user-day", "d": 5, "way": "random"},
    "sessions": {"kind": "session", "unit": "user", "d": 5},
    "sets": {"kind": "itemset", "unit": "user", "d": 10},
    "pools, earlier keys and windows": {
        **QUERIES,
        "pool": PUBLIC,
        "earlier": ["$1", "nobody asks this now"],
        "select_from": "2024-01-10T22:00:50.5",
        "count_from": "2024-01-20T12:00:00",
    },
}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    table = hostile_log(800, seed=1)
    # Whole days, so that many rows of a unit are of one time.
    coarse = pa.compute.floor_temporal(table["time"], unit="day")
    pq.write_table(table.set_column(1, "time", coarse), path)
    return str(path)


def release_on_workers(request):
    return fixed_noise.release_on_duckdb([request], workers.connect)[0]


def release_on_general_path(request):
    with patch.object(DuckEngine, "local", None):
        return fixed_noise.release_on_duckdb([request])[0]


@pytest.mark.parametrize("asked", sample_cases(ASKED, every=3))
def test_every_round_is_that_of_the_general_path(asked, log):
    request = ASKED[asked] | {"path": log}
    here, there = release_on_workers(request), release_on_general_path(request)
    assert len(there["sums"]) == 4
    assert all(there["sums"])
    for k, sums in enumerate(there["sums"]):
        assert here["sums"][k] == sums, k
    assert here == there


@pytest.mark.parametrize("groups", [1, 40])
def test_nothing_depends_on_the_number_of_partitions(groups, log):
    with patch.object(workers.WorkersEngine, "groups", groups):
        one = release_on_workers(QUERIES | {"path": log})
    assert one == release_on_workers(QUERIES | {"path": log})


def test_a_sum_that_differs_is_seen(log):
    real = ClusterRounds.sums

    def one_more(self):
        for shard in real(self):
            yield shard.set_column(1, "weight", pa.compute.add(shard.column("weight"), 1))

    with patch.object(ClusterRounds, "sums", one_more):
        here = release_on_workers(QUERIES | {"path": log})
    assert here["sums"][0] != release_on_workers(QUERIES | {"path": log})["sums"][0]


def test_items_that_share_a_number_take_the_general_path(log):
    real, found = Holdings.item_hashes, []

    def few(self, items, key):
        return real(self, items, key) & np.uint64(255)

    def numbered(*arguments, **options):
        found.append(True)
        return real_numbered(*arguments, **options)

    real_numbered = weights.numbered
    # By time: the random bound has hashes of its own use.
    request = QUERIES | {"path": log, "way": "first"}
    with (
        patch.object(Holdings, "item_hashes", few),
        patch.object(weights, "numbered", numbered),
    ):
        here = release_on_workers(request)
    assert found
    assert here == release_on_general_path(request)


def test_rows_that_do_not_fit_into_a_partition_take_the_general_path(log):
    request = QUERIES | {"path": log}
    with (
        patch("murmurlog.logs.cluster_partitions.MOST_BYTES", 1000),
        workers.connect() as engine,
    ):
        assert isinstance(read(find(log), engine=engine), TableLog)
        here = release_on_workers(request)
    assert here == release_on_general_path(request)


def test_an_empty_log_publishes_nothing(log):
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=10)
    with workers.connect() as engine:
        whole = read(find(log), engine=engine)
        assert isinstance(whole, ClusterLog)
        entropy = SeededEntropy(1)
        held = mechanism.gather(whole.empty(), View(kind="query"), entropy=entropy)
        assert held.size == 0
        assert mechanism.release(held, entropy=entropy).num_rows == 0


def test_equal_seeds_publish_equal_tables(log):
    mechanism = Rounds.solve(epsilon=8.0, delta=1e-3, d=10)

    def publish():
        with workers.connect() as engine:
            entropy = SeededEntropy(5)
            whole = read(find(log), engine=engine)
            held = mechanism.gather(whole, View(kind="query"), entropy=entropy)
            return mechanism.release(held, entropy=entropy)

    first = publish()
    assert first.num_rows > 10
    assert first.equals(publish())


def test_numbers_are_looked_up_in_all_chunks():
    chunks = [([7, 9], [1, 2]), ([], []), ([-5, -3, 2], [3, 4, 5])]
    schema = pa.schema([("item", pa.int64()), ("attention", pa.int64())])
    listed = pa.Table.from_batches(
        [pa.record_batch([pa.array(c, pa.int64()) for c in chunk], schema) for chunk in chunks]
    )
    (found,) = look_up(np.array([-9, -5, -4, 2, 3, 9, 12]), listed, "attention")
    assert found.tolist() == [0, 3, 0, 5, 0, 2, 0]


def test_workers_need_no_engine():
    code = (
        "import sys, murmurlog.counting.cluster_rounds\n"
        "print({'ibis', 'scipy', 'duckdb', 'pyspark', 'mpmath'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
