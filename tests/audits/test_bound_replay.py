"""The bound is replayed on every path; a path that keeps more, or looks at other users, is caught."""

from datetime import timedelta
from itertools import pairwise

import bound_replay
import pytest
from blind_twins import BLIND
from bound_replay import (
    PUBLISHED,
    REPLAYED,
    Replayed,
    Row,
    check_bounds,
    check_count_weights,
    make_rows,
    model,
    variants,
)
from twins import TWINS

from murmurlog.bundle.schema import BY_VALUE
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find

BROKEN = {twin.name: twin for twin in (*TWINS, *BLIND)}
OF_BOUNDS = (
    "random bound keyed by the row count",
    "general path bounding to d + 1",
    "sessions: the gap is measured over all users",
)


def test_the_log_has_what_the_bounds_must_face():
    rows = make_rows()
    held = model(rows, Replayed("query"))
    assert max(map(len, held.values())) > 6
    assert any(row.time is None for row in rows)
    assert any(row.url is None for row in rows)
    users = {row.user for row in rows}
    assert {row.user for row in variants(rows)["without other users"]} < users
    assert len(variants(rows)["with other users' rows doubled"]) > len(rows)
    assert model(rows, Replayed("pair")) is None
    # A pause that ends a session, and that another user fills.
    times = {
        odd: sorted(row.time for row in rows if row.time and int(row.user[4:]) % 2 == odd)
        for odd in (0, 1)
    }
    assert any(
        later - first > timedelta(minutes=30)
        and any(first < at < first + timedelta(minutes=30) for at in times[1])
        for first, later in pairwise(times[0])
    )


def test_the_log_has_queries_asked_again_after_unpublished_ones():
    asked = {}
    for row in sorted((row for row in make_rows() if row.time), key=lambda row: row.time):
        asked.setdefault((row.user, row.time.date()), []).append(row.query)
    kept = [[query for query in queries if query in PUBLISHED] for queries in asked.values()]
    assert any(a == b for queries in kept for a, b in pairwise(queries))
    held = model(make_rows(), Replayed("session", published=True))
    assert not any(a == b for own in held.values() for (one,) in own for a, b in pairwise(one))


def test_the_weights_of_counts_are_those_of_the_proof():
    assert check_count_weights() == []
    with BROKEN["d2 clip off by one"].broken():
        assert "a unit with 2 published items" in check_count_weights()[0]


def test_the_random_bound_is_that_of_the_model(tmp_path):
    """One path and one table; the slow test follows them all."""
    rows, table = make_rows(), Replayed("query", way="random")
    bound_replay.write_rows(tmp_path / "log.parquet", rows)
    source = find(str(tmp_path / "log.parquet"), columns={n: n for n in Row._fields[:4]})
    with connect() as engine:
        kept = bound_replay._bounded(read(source, engine=engine, keep={BY_VALUE: "country"}), table)
    assert bound_replay._fault(table, rows, [kept] * 3) is None


@pytest.mark.slow
def test_every_path_keeps_the_bound(tmp_path):
    assert check_bounds(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_BOUNDS)
def test_a_path_that_does_not_is_caught(name, tmp_path):
    with BROKEN[name].broken():
        found = check_bounds(tmp_path)
    assert found
    assert all(" path, " in what for what in found)
    assert len(found) < 3 * len(REPLAYED)
