"""The invented log: reproducible, exact in size, heavy-tailed, in every format."""

import duckdb
import pytest

from murmurlog.engine import connect
from murmurlog.errors import UsageError
from murmurlog.log import read
from murmurlog.source import find
from murmurlog.synth import invent, write


@pytest.fixture(scope="module")
def log():
    return invent(rows=100_000, seed=2)


def test_size_and_shape(log):
    t = log.table
    assert t.num_rows == log.rows
    found = duckdb.sql(
        """
        SELECT count(*), count(DISTINCT user), count(url) / count(*), count(DISTINCT query),
               min(time), max(time) FROM t
        """
    ).fetchone()
    rows, users, clicked, distinct, first, last = found
    assert rows == 100_000
    assert users == log.users == 2_500
    assert 0.5 < clicked < 0.56
    assert 30_000 < distinct < 70_000
    assert first.year == last.year == 2026
    single = duckdb.sql(
        "SELECT count(*) FILTER (u = 1) / count(*) FROM "
        "(SELECT query, count(DISTINCT user) AS u FROM t GROUP BY query)"
    ).fetchone()[0]
    assert single > 0.75  # the long tail that one person asks
    top = duckdb.sql(
        "SELECT query FROM t GROUP BY query ORDER BY count(DISTINCT user) DESC LIMIT 3"
    ).fetchall()
    assert ("weather",) in top


def test_rows_of_a_click_have_a_rank_and_others_none(log):
    t = log.table
    odd = duckdb.sql("SELECT count(*) FROM t WHERE (url IS NULL) <> (rank IS NULL)").fetchone()[0]
    assert t.num_rows > 0
    assert odd == 0


def test_the_same_seed_gives_the_same_log_and_another_seed_another():
    assert invent(rows=5_000, seed=1).table.equals(invent(rows=5_000, seed=1).table)
    assert not invent(rows=5_000, seed=1).table.equals(invent(rows=5_000, seed=2).table)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.tsv.gz", "a.jsonl.zst"])
def test_every_format_reads_back_the_same(tmp_path, name):
    small = invent(rows=2_000, seed=5)
    write(small, tmp_path / name)
    with connect() as engine:
        log = read(find(str(tmp_path / name)), engine=engine)
        assert log.broken == {}
        assert log.rows == 2_000
        got = (
            log.table.select("user", "query")
            .to_pyarrow()
            .sort_by([("user", "ascending"), ("query", "ascending")])
        )
    wanted = small.table.select(["user", "query"]).sort_by(
        [("user", "ascending"), ("query", "ascending")]
    )
    assert got.to_pylist() == wanted.to_pylist()


def test_a_single_row_and_bad_sizes(tmp_path):
    assert invent(rows=1, seed=1).table.num_rows == 1
    with pytest.raises(UsageError, match="at least 1"):
        invent(rows=0, seed=1)
    with pytest.raises(UsageError, match="cannot tell the format"):
        write(invent(rows=1, seed=1), tmp_path / "a.parquet.gz")
