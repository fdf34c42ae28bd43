"""pool: exact laws, broken twins, the short method for the same law, failing closed."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from counts import counts_of
from hypothesis import given
from hypothesis import strategies as st
from laws import SURE, hockey_stick, item_law, mass, user_vectors
from scipy.stats import binom, chi2
from tallies import tally_of

from murmurlog import privacy
from murmurlog.bundle.schema import By, notes_of
from murmurlog.counting.public_sets.sets import Listed, Sequences
from murmurlog.errors import Refused, UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import TextKeys
from murmurlog.mechanisms import Pool, View, parse
from murmurlog.mechanisms.pool import OnDomain
from murmurlog.privacy import survival
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy, draw

# --- the exact law --------------------------------------------------------------------------------


def published_values(T, b, base):
    """Values that carry all but 1e-9 of a published item's law."""
    reach = int(24 * b) + 12
    return np.arange(max(T, base - reach), max(T, base) + reach)


def pool_law(b, T, c, base):
    """One key of a pool with c users: dropped, or published with a value; also for c = 0."""
    values = mass("geometric", b, published_values(T, b, base) - c)
    dropped = mass("geometric", b, np.arange(T - 1, T - 400 - int(60 * b), -1) - c).sum()
    law = np.concatenate([[dropped], values])
    assert law.sum() > 1 - 1e-9
    return law


def twin_law(b, T, c, base):
    """The broken twin: keys that nobody holds are left out, as if the pool were the log's."""
    return item_law("geometric", b, T, c, published_values(T, b, base))


def largest_delta(laws, *, T, d, epsilon, neighbours):
    """The largest delta(epsilon) over neighbours, with a law of its own for each item."""
    worst = 0.0
    for before, after in itertools.product(user_vectors(d, len(laws)), repeat=2):
        if neighbours == "add-remove" and any(before) and any(after):
            continue
        places = [i for i in range(len(laws)) if before[i] != after[i]]
        for counts in itertools.product(sorted({0, 1, max(1, T - 1), SURE}), repeat=len(places)):
            P = [laws[i](c + before[i], c) for i, c in zip(places, counts, strict=True)]
            Q = [laws[i](c + after[i], c) for i, c in zip(places, counts, strict=True)]
            worst = max(worst, hockey_stick(P, Q, epsilon))
    return worst


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("b", "T", "d"), [(1.5, 4, 1), (1.5, 1, 1), (1.0, 6, 2)])
def test_a_pool_costs_its_epsilon_and_no_delta(b, T, d, neighbours):
    m = Pool(d=d, b=b, N=3, T=T)
    claim = m.guarantee(neighbours=neighbours)
    assert claim.delta < 1e-14
    laws = [lambda c, base: pool_law(b, T, c, base)] * (2 if d == 1 else 3)
    truth = largest_delta(laws, T=T, d=d, epsilon=claim.epsilon, neighbours=neighbours)
    assert truth < 1e-12  # rounding of the summation
    # With less epsilon there is a delta, that of the noise alone, and it is nearly used up.
    copies = d if neighbours == "add-remove" else min(2 * d, len(laws))
    less = claim.epsilon / 2
    bound = privacy.hockey_stick(noise="geometric", epsilon=less, copies=copies, scale=b)
    assert (
        bound / 2
        < largest_delta(laws, T=T, d=d, epsilon=less, neighbours=neighbours)
        <= bound + 1e-12
    )


def test_noising_only_what_was_seen_is_caught():
    m = Pool(d=1, b=1.5, N=2, T=4)
    laws = [lambda c, base: twin_law(m.b, m.T, c, base)] * 2
    for neighbours in ("add-remove", "replace"):
        claim = m.guarantee(neighbours=neighbours)
        truth = largest_delta(laws, T=m.T, d=1, epsilon=claim.epsilon, neighbours=neighbours)
        assert truth > 0.05 > claim.delta


# --- the short method for the same law ------------------------------------------------------------


def test_number_choice_and_tail_are_the_law_of_a_draw_for_each_key():
    b, T, n = 1.3, 2, 4
    a, s = math.exp(-1 / b), survival(noise="geometric", scale=1.3, x=2)
    values = (None, *range(T, T + 5))
    for outcome in itertools.product(values, repeat=n):
        direct = math.prod(1 - s if v is None else float(mass("geometric", b, v)) for v in outcome)
        passed = [v for v in outcome if v is not None]
        short = binom.pmf(len(passed), n, s) / math.comb(n, len(passed))
        short *= math.prod((1 - a) * a ** (v - T) for v in passed)
        assert short == pytest.approx(direct, rel=1e-9)


def on_domain(domain, counts, **more):
    """The tally of a public set, as it is gathered."""
    text_keys = TextKeys()
    inside = tally_of(counts, text_keys=text_keys, **more)
    return OnDomain(domain=domain, inside=inside, text_keys=text_keys)


@pytest.mark.parametrize("counts", [{"a": 2}, pytest.param({}, marks=pytest.mark.slow)])
def test_what_appears_has_the_joint_law_of_a_draw_for_each_key(counts):
    m = Pool(d=1, b=2.0, N=3, T=2)
    gathered = on_domain(Listed(table=pa.table({"query": ["a", "b", "c"]})), counts)
    runs, seen = 200, Counter()
    entropy = SeededEntropy(5)  # so few runs tell scales apart often, but not always
    for _ in range(runs):
        table = m.release(gathered, entropy=entropy)
        seen[frozenset(table["query"].to_pylist())] += 1

    def p_value(scale):
        chance = {
            key: survival(noise="geometric", scale=scale, x=m.T - counts.get(key, 0))
            for key in "abc"
        }
        statistic = 0.0
        for appears in itertools.product([False, True], repeat=3):
            outcome = frozenset(key for key, yes in zip("abc", appears, strict=True) if yes)
            p = math.prod(chance[k] if k in outcome else 1 - chance[k] for k in "abc")
            statistic += (seen[outcome] - runs * p) ** 2 / (runs * p)
        return chi2.sf(statistic, 7)

    assert p_value(m.b) > 1e-9
    assert p_value(m.b * 3) < 1e-9


def test_a_fake_shows_what_a_key_that_nobody_holds_would_show():
    m = Pool(d=1, b=6.0, N=10**6, T=30)
    words = Sequences(words=tuple(f"w{i}" for i in range(1000)), shortest=2, longest=2)
    held_keys = {"w1 w2": 500, "w3 w3": 400}
    gathered = on_domain(words, held_keys)
    table = m.release(gathered, entropy=SystemEntropy())
    rows = table.to_pylist()
    fakes = [row for row in rows if row["query"] not in held_keys]
    assert set(held_keys) <= {row["query"] for row in rows}
    assert len({row["query"] for row in rows}) == len(rows)
    mean = m.N * survival(noise="geometric", scale=m.b, x=m.T)
    assert abs(len(fakes) - mean) < 7 * math.sqrt(mean)
    one_by_one = draw(noise="geometric", scale=m.b, count=m.N, entropy=SystemEntropy())
    real = m.selection().estimates(one_by_one[one_by_one >= m.T]).users
    both = np.array(
        [np.bincount(np.array(x), minlength=200)[:200] for x in ([r["users"] for r in fakes], real)]
    )
    used = both.sum(axis=0) > 20
    ratio = len(real) / len(fakes)
    expected = both[0] * ratio
    statistic = np.sum((both[1] - expected)[used] ** 2 / (expected + both[0] * ratio**2 + 1)[used])
    assert chi2.sf(statistic, used.sum()) > 1e-9
    # Nothing but the key tells them apart: same columns, and an order that ignores who held what.
    assert rows == sorted(rows, key=lambda row: (-row["users"], row["query"]))


def test_what_may_be_a_fake_is_not_called_reliable():
    m = Pool(d=1, b=6.0, N=10**6, T=50)
    words = Sequences(words=tuple(f"w{i}" for i in range(1000)), shortest=2, longest=2)
    gathered = on_domain(words, {"w1 w2": 5000})
    fakes = 0
    for _ in range(5):
        rows = m.release(gathered, entropy=SystemEntropy()).to_pylist()
        assert rows[0]["query"] == "w1 w2"
        assert rows[0]["reliable"]
        fakes += len(rows) - 1
        believed = [row for row in rows[1:] if row["reliable"]]
        assert len(believed) <= 6  # 0.05 are expected; more than 6 come once in 10^12 releases
        assert all(row["users_stderr"] >= row["users"] for row in rows[1:] if not row["reliable"])
    assert fakes > 100


def test_a_pool_of_more_keys_than_64_bits_count_is_released():
    words = Sequences(words=tuple(f"w{i}" for i in range(100_000)), longest=4)
    m = Pool.solve(epsilon=1.0, delta=1e-6, d=1, size=words.size, fakes=20)
    gathered = on_domain(words, {"w7 w8": 1000})
    table = m.release(gathered, entropy=SystemEntropy())
    assert "w7 w8" in table["query"].to_pylist()
    assert 1 <= table.num_rows < 100


# --- from a log -----------------------------------------------------------------------------------


def rows_of(counts):
    return [
        {"user": f"u{i}", "time": "2026-01-01", "query": query}
        for query, n in counts.items()
        for i in range(n)
    ]


@pytest.fixture
def log(engine, write_tsv):
    path = write_tsv(rows_of({"weather": 300, "maps": 200, "my own name": 150, "rare": 1}))
    return read(find(str(path)), engine=engine)


def view(*keys, **more):
    return View(
        kind="query", options={"pool": Listed(table=pa.table({"query": list(keys)}))}, **more
    )


def test_only_keys_of_the_pool_are_published_and_bounded(log):
    m = Pool(d=1, b=1.0, N=3, T=30)
    gathered = m.gather(log, view("maps", "weather", "unasked"), entropy=SystemEntropy())
    # u0 .. u199 asked both; at the same time, so the first by text is kept.
    assert counts_of(gathered.inside) == {("maps",): 200, ("weather",): 100}
    table = m.release(gathered, entropy=SystemEntropy())
    assert table["query"].to_pylist() == ["maps", "weather"]
    assert table.column_names == ["query", "users", "users_stderr", "reliable"]


def test_an_empty_tally_still_gives_fakes():
    keys = [f"q{i}" for i in range(500)]
    gathered = on_domain(Listed(table=pa.table({"query": keys})), {})
    table = Pool(d=1, b=5.0, N=500, T=1).release(gathered, entropy=SystemEntropy())
    assert 120 < table.num_rows < 340
    assert notes_of(table) == {"rows of the pool that nobody holds, expected": 230.0}


# --- failing closed -------------------------------------------------------------------------------


def test_a_tally_that_is_not_on_the_pool_is_refused(log):
    domain = Listed(table=pa.table({"query": ["maps", "weather"]}))
    plain = tally_of({"maps": 5}, text_keys=log.text_keys)
    m = Pool(d=1, b=1.0, N=2, T=5)
    with pytest.raises(Refused, match="the 2 keys of a public pool, not of a log"):
        m.release(plain, entropy=SystemEntropy())
    with pytest.raises(UsageError, match="N=2 keys; it has 3"):
        m.gather(log, view("a", "b", "c"), entropy=SystemEntropy())
    with pytest.raises(Refused, match="not in the public pool"):
        OnDomain.of(log, domain, tally_of({"maps": 5, "mine": 1}, text_keys=log.text_keys))
    with pytest.raises(Refused, match="the tally other ones"):
        OnDomain.of(log, domain, tally_of({"maps": 5}, keys=("keyword",), text_keys=log.text_keys))
    gathered = OnDomain.of(log, domain, plain)
    with pytest.raises(Refused, match="not of a log"):
        Pool(d=1, b=1.0, N=3, T=5).release(gathered, entropy=SystemEntropy())
    loose = replace(gathered, inside=replace(plain, per_user=2))
    with pytest.raises(Refused, match="proved for 1"):
        Pool(d=1, b=1.0, N=2, T=5).release(loose, entropy=SystemEntropy())
    with pytest.raises(UsageError, match="no such column"):
        m.gather(
            log, view("maps", "weather", by=By(column="day", values=("1",))),
            entropy=SystemEntropy(),
        )  # fmt: skip


def test_a_release_without_a_fitting_pool_says_what_to_do(log):
    with pytest.raises(UsageError, match="needs a public pool for the query table: use --pool"):
        Pool.for_table("query", {})
    with pytest.raises(UsageError, match="leave it out of --tables"):
        Pool.for_table("click", {"pool": Listed(table=pa.table({"query": ["a"]}))})
    with pytest.raises(UsageError, match="give its file with --pool"):
        Pool.solve(epsilon=1.0, delta=1e-6, d=1)
    with pytest.raises(UsageError, match="geometric noise only"):
        Pool.solve(epsilon=1.0, delta=1e-6, d=1, size=5, noise="gaussian")
    pools = {"query": Listed(table=pa.table({"query": ["a", "b"]}))}
    assert Pool.for_table("query", {"pool": pools, "fakes": 3}) == (
        "pool",
        {"size": 2, "fakes": 3.0},
    )


# --- parameters and text --------------------------------------------------------------------------

scales = st.floats(0.1, 1e4, allow_nan=False)
sizes = st.integers(1, 10**7)


@given(st.integers(1, 99), scales, sizes, st.integers(1, 10**6))
def test_the_text_of_a_pool_is_its_name(d, b, N, T):
    m = Pool(d=d, b=b, N=N, T=T)
    assert parse(str(m)) == m


def test_a_size_beyond_what_a_float_holds_is_kept():
    m = Pool(d=1, b=1.0, N=10**15 + 1, T=40)
    assert parse(str(m)).N == 10**15 + 1


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, math.log(10)])
@pytest.mark.parametrize("d", [1, 7, 20])
def test_solving_keeps_the_budget_and_the_fakes(epsilon, d, neighbours):
    more = {"epsilon": epsilon, "delta": 1e-6, "d": d, "neighbours": neighbours, "size": 10**7}
    m = Pool.solve(**more, fakes=4)
    assert m.guarantee(neighbours=neighbours).epsilon <= epsilon
    assert m.fakes() <= 4 * (1 + 1e-9)
    with pytest.raises(Refused, match="costs epsilon"):
        m.guarantee(epsilon=epsilon / 2, neighbours=neighbours)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pool(d=1, b=1.0, N=10, T=0)", "T must be at least 1"),
        ("pool(d=0, b=1.0, N=10, T=2)", "the bound must lie between 1"),
        ("pool(d=1, b=-1, N=10, T=2)", "b, a scale of noise, must lie between"),
        ("pool(d=1, b=1.0, N=1e3, T=2)", "N must be a whole number"),
        ("pool(d=1, b=1.0, T=2)", "N must be a whole number"),
        ("pool(d=1, b=1.0, N=5, T=2, K=1)", "pool has no parameter K: use d, b, N, T"),
        ("pool(d=1, b=1.0, N=1000000000000, T=1)", "raise T"),
    ],
)
def test_bad_letters_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)


def test_a_pool_passes_what_its_threshold_says():
    assert Pool(d=1, b=3.0, N=5, T=12).passes(0.5) == 12
    assert Pool(d=1, b=3.0, N=5, T=1).passes(0.1) == 0
