"""The mechanism `profiles`: one item a unit, its law, its steps, its text."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import worst_delta

import murmurlog
from murmurlog.auditing.verify import verify
from murmurlog.bundle.schema import SEPARATOR
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Profiles, View, parse
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.release import release

LN10 = math.log(10)


# --- the exact law --------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(LN10, 1e-5), (1.0, 1e-3)])
def test_one_item_a_unit_keeps_the_claim_whatever_d_is(epsilon, delta, noise, neighbours):
    at = {"epsilon": epsilon, "neighbours": neighbours}
    m = Profiles.solve(delta=delta, d=20, noise=noise, **at)
    claim = m.guarantee(**at)
    law = {"noise": noise, "scale": m.scale, "T": m.T, **at}
    assert claim.delta / 2 < worst_delta(d=1, items=2, **law) <= claim.delta <= delta


def test_the_law_catches_pairs_sold_as_one_profile():
    m = Profiles.solve(epsilon=1.0, delta=1e-3, d=2, noise="geometric")
    law = {"noise": "geometric", "scale": m.scale, "T": m.T, "neighbours": "add-remove"}
    # Each pair of a unit as an item of its own, at the noise of one item.
    assert worst_delta(d=2, items=2, epsilon=1.0, **law) > 100e-3


# --- the steps ------------------------------------------------------------------------------------


def profiles_of(path, m, *, way=None):
    """{profile: units}, a profile being a tuple of (query, url, count)."""
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        tally = m.gather(log, View(kind="log", way=way), entropy=SeededEntropy(1))
        assert tally.per_user == 1
        rows = tally.table.to_pyarrow().to_pylist()
    return {
        tuple(tuple(line.split(SEPARATOR)) for line in row["items"]): row["users"] for row in rows
    }


def clicks(user, *pairs):
    """Rows of one user; a pair is a letter, clicked in this order."""
    return [
        {"user": user, "time": f"2026-03-01T10:00:{i:02}", "query": f"q {c}", "url": f"{c}.org/x|y"}
        for i, c in enumerate(pairs)
    ]


def test_a_profile_is_the_bounded_set_with_capped_counts(write_tsv):
    path = write_tsv(
        clicks("u1", *"ab") + clicks("u2", *"ba") + clicks("u3", *"abaaaaa") + clicks("u4", *"abc")
        + clicks("u5", *"c") + [{"user": "u6", "time": "2026-03-01", "query": "no click"}]
    )  # fmt: skip
    a, b, c = (lambda n, x=x: (f"q {x}", f"{x}.org/x|y", str(n)) for x in "abc")
    m = Profiles(d=2, cap=3, scale=1.0, T=5)
    assert profiles_of(path, m) == {(a(1), b(1)): 3, (a(3), b(1)): 1, (c(1),): 1}
    plain = Profiles(d=2, cap=1, scale=1.0, T=5)
    assert profiles_of(path, plain) == {(a(1), b(1)): 4, (c(1),): 1}


@pytest.mark.parametrize("way", ["first", "random"])
def test_one_unit_moves_one_count_by_one(way, write_tsv):
    rng = np.random.default_rng(2)
    rows = [
        row for u in range(15) for row in clicks(f"p{u}", *rng.choice(list("abcd"), rng.integers(1, 8)))
    ]  # fmt: skip
    m = Profiles(d=2, cap=2, scale=1.0, T=5)
    whole = profiles_of(write_tsv(rows), m, way=way)
    assert sum(whole.values()) == 15
    for gone in ("p0", "p7"):
        left = profiles_of(
            write_tsv([r for r in rows if r["user"] != gone], gone + ".tsv"), m, way=way
        )
        assert set(left) <= set(whole)
        assert sorted(n - left.get(key, 0) for key, n in whole.items())[-2:] == [0, 1]


def test_a_shared_profile_becomes_that_many_invented_users(tmp_path, write_tsv):
    rows = [row for i in range(400) for row in clicks(f"p{i}", *"abb")]
    rows += [row for i in range(5) for row in clicks(f"x{i}", *"ab"[: i % 2 + 1], "c", str(i))]
    outcome = release(str(write_tsv(rows)), out=tmp_path / "out", mechanism="profiles",
                      tables=["log"], epsilon=1.0, delta=1e-12)  # fmt: skip
    assert verify(tmp_path / "out").ok
    table = murmurlog.load(tmp_path / "out").tables["log"]
    users = outcome.notes["log"]["invented users"]
    assert outcome.notes["log"]["published profiles"] == 1
    assert 350 < users < 450
    assert table.num_rows == 2 * users
    assert set(zip(*(table[c].to_pylist() for c in ("query", "url", "count")), strict=True)) == {
        ("q a", "a.org/x|y", 1), ("q b", "b.org/x|y", 2)
    }  # fmt: skip
    assert set(table["user"].to_pylist()) == {f"invented-{i}" for i in range(1, users + 1)}


def test_an_invented_log_goes_through_and_no_id_comes_out(tmp_path):
    log = tmp_path / "log.parquet"
    write(invent(rows=200_000, seed=5), log)
    release(str(log), out=tmp_path / "out", mechanism="profiles", tables=["log"], per_user=1,
            epsilon=10.0, delta=1e-3, neighbours="replace")  # fmt: skip
    assert verify(tmp_path / "out").ok
    table = murmurlog.load(tmp_path / "out").tables["log"]
    assert table.num_rows > 20
    assert set(table["user"].to_pylist()).isdisjoint(pq.read_table(log)["user"].to_pylist())


def test_nothing_to_publish_is_a_valid_release(tmp_path, write_tsv):
    rows = [{"user": "a", "time": "2026-03-01", "query": "q", "url": ""}]
    for name, path in {
        "one": write_tsv(clicks("u1", "a"), "one.tsv"), "none": write_tsv(rows, "none.tsv")
    }.items():  # fmt: skip
        outcome = release(str(path), out=tmp_path / name, mechanism="profiles", tables=["log"],
                          delta=1e-12)  # fmt: skip
        assert outcome.rows == {"log": 0}
        assert verify(tmp_path / name).ok


# --- the text -------------------------------------------------------------------------------------


@given(
    noise=st.sampled_from(["geometric", "gaussian"]),
    d=st.integers(1, 1000),
    cap=st.integers(1, 9),
    scale=st.floats(1e-3, 1e6),
    T=st.integers(2, 10**6),
)
def test_text_is_the_name(noise, d, cap, scale, T):
    m = Profiles(noise=noise, d=d, cap=cap, scale=scale, T=T)
    assert parse(str(m)) == m


def test_letters_and_what_they_cost():
    m = parse("profiles(d=5, b=2, K=19)")
    assert m == Profiles(d=5, cap=3, scale=2.0, T=20)
    assert m.guarantee().epsilon == 0.5
    assert m.guarantee(neighbours="replace").epsilon == 1.0
    with pytest.raises(UsageError, match="d and cap must be at least 1, not 5 and 0"):
        parse("profiles(d=5, cap=0, b=2, T=19)")
    with pytest.raises(UsageError, match="T must be at least 2"):
        parse("profiles(d=5, b=2, T=1)")
    with pytest.raises(UsageError, match="--set-only does not go with profiles"):
        Profiles.for_table("log", {"set_only": True})
