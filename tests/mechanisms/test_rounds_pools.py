"""Pools and earlier keys in `rounds`: reference numbers, exact laws, any partitions, and broken twins."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counts import tally_of_log
from hostile import hostile_log
from laws import mass
from log_readers import read_in_partitions
from round_laws import largest_delta, law, passing_chances, worlds_near
from scipy.special import ndtr
from scipy.stats import binom, chi2
from tallies import candidates_of, same

import murmurlog
from murmurlog.bundle.schema import BY_VALUE
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import NO_KEYS, distinct_keys, places_of
from murmurlog.mechanisms import Rounds, View, parse
from murmurlog.mechanisms.protocol import tally_view
from murmurlog.mechanisms.public_pools import PublicPool
from murmurlog.mechanisms.rounds import pools as module
from murmurlog.mechanisms.rounds.count import count_users, find_holders
from murmurlog.mechanisms.rounds.pools import PoolKeys, pool_keys
from murmurlog.mechanisms.rounds.select import Outcome
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.long_arithmetic import precision
from murmurlog.privacy.rounds import solve_rounds
from murmurlog.privacy.sampler import SeededEntropy

REFERENCE = (
    "rounds(d=100, s=12.1891_9.89214_8.02809_6.5153, own=120_182_277_420, past=108_164_249, "
    "T=9451090244_14594007617_20162887017_24629137221, C=3.0, reach=1.3, focus=0.3)"
)


def add_pools(mechanism, *pools, late=0.85):
    """The mechanism with pools of these (size, fakes)."""
    classes = [pool_keys(mechanism.schedule, size=N, fakes=F, late=late) for N, F in pools]
    return replace(mechanism, pools=tuple(classes))


def chances(mechanism, *, weight=0.0, pool=0):
    """Of a key of the pool, to pass in each round."""
    rules = {"C": mechanism.C, "reach": mechanism.reach}
    thresholds = mechanism.pools[pool].thresholds
    return passing_chances(mechanism.schedule, thresholds, **rules, weight=weight)


# --- reference numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("N", "F", "steps", "by_round", "q0"),
    [
        (1000, 20.0, (4739624414, 7226982385, 9887064389, 8850128586),
         (1e-3, 9.100420603463514e-4, 8.345449417615401e-4, 1.5966096000817033e-2), 0.018710683),
        (100_000, 10.0, (6774812013, 10330237758, 14132554976, 15695391311),
         (5e-6, 4.90276413339384e-6, 4.7581207548955645e-6, 8.283992571793927e-5), 9.7500811e-5),
        (1_000_000, 10.0, (7502519825, 11439847103, 15650585388, 17954458049),
         (5e-7, 4.949091871238983e-7, 4.853642441870103e-7, 8.320226273808447e-6), 9.8004997e-6),
    ],
)  # fmt: skip
def test_thresholds_of_pools_and_the_chance_of_a_fake_are_the_reference_ones(
    N, F, steps, by_round, q0
):
    mechanism = add_pools(parse(REFERENCE), (N, F))
    assert mechanism.pools[0].thresholds == steps
    tails = chances(mechanism)
    assert tails == pytest.approx(by_round, rel=1e-4)
    assert sum(tails) == pytest.approx(q0, rel=1e-4)
    assert N * sum(tails) < mechanism.fakes() <= F * (1 + 1e-6)


def test_a_key_of_one_unit_and_what_two_twins_would_show_are_the_reference_ones():
    """P4 and P5: a key of nobody, of one unit alone, and one of 100 keys of a unit."""
    mechanism = add_pools(parse(REFERENCE), (20, 2.0))
    nobody, alone, spread = (sum(chances(mechanism, weight=w)) for w in (0.0, 1.0, 0.1))
    assert nobody == pytest.approx(0.0906, rel=0.02)
    assert alone == pytest.approx(0.1344, rel=0.02)

    def stick(p, q):
        """H_1 of how many of 100 keys show."""
        n = np.arange(101)
        return np.maximum(0, binom.pmf(n, 100, p) - math.e * binom.pmf(n, 100, q)).sum()

    twin = 1 - (1 - spread) * (1 - nobody)  # a held key is chosen as a fake, too
    assert stick(twin, nobody) == pytest.approx(0.7, rel=0.05)
    assert stick(spread, nobody) < 1e-6


# --- the law of a pool key and of a key outside ---------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("pools", [(1, 0), (1, 1), (1, 2)])
def test_no_world_with_pool_keys_exceeds_the_claim(neighbours, pools):
    epsilon, delta = 1.0, 1e-2
    schedule = solve_rounds(
        epsilon=epsilon, delta=delta, d=2, shares=(0.4, 0.6), memory=0.9, late=0.7,
        neighbours=neighbours,
    )  # fmt: skip
    rules = {"C": 3.0, "reach": 1.3, "focus": 0.3}
    mechanism = add_pools(Rounds(schedule=schedule, **rules), (50, 4.0), (40, 8.0))
    claim = mechanism.guarantee(epsilon=epsilon, neighbours=neighbours).delta
    without = Rounds(schedule=schedule, **rules).guarantee(epsilon=epsilon, neighbours=neighbours)
    assert claim == without.delta <= delta * 1.001  # any threshold of a pool costs nothing
    top = math.ceil(1.6 * schedule.thresholds[1] / GRID / sum(schedule.coefficients(1)))
    how = {"epsilon": epsilon, "neighbours": neighbours, "pools": pools}
    worst = largest_delta(mechanism, worlds=worlds_near(top, seed=7, count=12), **how)
    assert 0 < worst <= claim
    # Noise for held keys alone shows who holds the key.
    assert largest_delta(mechanism, worlds=[(0, 0, 0)], held_only=True, **how) > 3 * claim


def test_released_sets_with_a_pool_follow_the_law():
    """Thousands of pairs of a pool key and a key outside, each with a unit that holds both."""
    copies = 4000
    schedule = replace(
        solve_rounds(epsilon=1.0, delta=1e-2, d=2, shares=(0.4, 0.6), memory=0.9, late=0.7),
        scales=(1.0, 0.8), own=(2, 3), past=(1,), thresholds=(6 * GRID, 9 * GRID), counts=None,
    )  # fmt: skip
    mechanism = Rounds(schedule=schedule, C=1.0, focus=0.3)
    keys = PoolKeys(size=2 * copies, thresholds=(4 * GRID, 5 * GRID))
    mechanism = replace(mechanism, pools=(keys,))
    holdings = [(f"{n}a", f"{n}b") for n in range(copies)]
    pool = [f"{n}{kind}" for n in range(copies) for kind in ("a", "c")]  # c: held by nobody
    candidates = candidates_of(holdings, pools=[pool], d=2)
    queries = set(mechanism.release(candidates, entropy=SeededEntropy(5))["query"].to_pylist())
    kinds = [2 * (f"{n}a" in queries) + (f"{n}b" in queries) for n in range(copies)]
    nobody = sum(f"{n}c" in queries for n in range(copies))
    expected = copies * law(mechanism, 0, 0, 1, nodes=800, pools=(1, 0))
    observed = np.bincount(kinds, minlength=4)
    assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 3)
    wrong = copies * law(mechanism, 0, 0, 1, nodes=800)  # the pool's thresholds are not used
    assert ((observed - wrong) ** 2 / wrong).sum() > 100
    q0 = law(mechanism, 0, 0, 0, nodes=800, pools=(1, 0))[2]
    assert abs(norm_score(nobody, copies, q0)) < 5


def norm_score(successes, count, chance):
    """How many standard deviations a count is from its mean."""
    return (successes - count * chance) / math.sqrt(count * chance * (1 - chance))


class HeldOnly(Rounds):
    """Noise only for keys of the pool that somebody holds."""

    def _unheld(self, candidates, selected, entropy):
        return []


class FakesAmongAll(Rounds):
    """Fakes are chosen among all keys of the pool, also those that are held."""

    def _unheld(self, candidates, selected, entropy):
        nobody = replace(selected, held_keys=tuple(NO_KEYS for _ in selected.held_keys))
        return super()._unheld(candidates, nobody, entropy)


class LastRoundOnly(Rounds):
    """Keys that nobody holds are judged by the last round's threshold alone."""

    def _unheld(self, candidates, selected, entropy):
        high = [T * 100 for T in self.pools[0].thresholds[:-1]]
        keys = replace(self.pools[0], thresholds=(*high, self.pools[0].thresholds[-1]))
        return Rounds._unheld(replace(self, pools=(keys,)), candidates, selected, entropy)


@pytest.mark.parametrize("twin", [Rounds, HeldOnly, FakesAmongAll, LastRoundOnly])
def test_keys_of_one_unit_and_of_nobody_show_as_often_as_the_law_says(twin):
    """A run is thousands of worlds: a pool key of one unit alone, and keys that nobody holds."""
    alone, unheld = 4000, 96_000
    right = add_pools(parse(REFERENCE), (20, 2.0))
    keys = replace(right.pools[0], size=alone + unheld)
    mechanism = twin(schedule=right.schedule, C=3.0, reach=1.3, focus=0.3, pools=(keys,))
    pool = [*(f"held {n}" for n in range(alone)), *(f"nobody {n}" for n in range(unheld))]
    candidates = candidates_of([(key,) for key in pool[:alone]], pools=[pool], d=100)
    queries = mechanism.release(candidates, entropy=SeededEntropy(11))["query"].to_pylist()
    with_unit = len({key for key in queries if key.startswith("held")})
    without = len({key for key in queries if key.startswith("nobody")})
    scores = (
        norm_score(with_unit, alone, sum(chances(right, weight=1.0))),
        norm_score(without, unheld, sum(chances(right))),
    )
    if twin is Rounds:
        assert len(queries) == len(set(queries))
        assert max(map(abs, scores)) < 4
    else:
        assert max(map(abs, scores)) > 5.5
    if twin is HeldOnly:  # shown by the unit alone: delta at every epsilon
        assert without == 0 < 0.12 * alone < with_unit


# --- large pools ----------------------------------------------------------------------------------


def judge_of(mechanism, pool=1):
    return lambda k, z, remembered: mechanism.decide(k, z, remembered, pool)


@pytest.mark.slow
def test_large_pools_have_the_same_law_as_direct_draws(monkeypatch):
    """The thresholds are so low that a key often lies beyond several of them."""
    mechanism = add_pools(parse(REFERENCE), (20, 2.0))
    (keys,), runs, count = mechanism.pools, 150, 100
    q0, p = sum(chances(mechanism)), mechanism.fakes() / 20
    entropy = SeededEntropy(2)

    def count_passes():
        return [
            module.pass_unheld(
                mechanism.schedule, keys, judge_of(mechanism), count=count, entropy=entropy
            )
            for _ in range(runs)
        ]

    direct = count_passes()
    monkeypatch.setattr(module, "DIRECT", 10)
    lazy = count_passes()
    edges = binom.ppf([0.2, 0.4, 0.6, 0.8], count, q0)
    expected = runs * np.diff([0, *binom.cdf(edges, count, q0), 1])
    for passes in (direct, lazy):
        observed = np.bincount(np.searchsorted(edges, passes), minlength=5)
        assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(1e-4, 4)
        assert abs(norm_score(sum(passes), runs * count, q0)) < 3.5
    assert norm_score(runs * count * p, runs * count, q0) > 3.5  # all proposals, not those kept


def test_proposals_are_kept_once_and_lie_beyond_a_threshold():
    """The share that is kept is P(some H_k) / sum P(H_k); sampled here by numpy, apart from the code."""
    mechanism = add_pools(parse(REFERENCE), (20, 8.0))
    s, (keys,) = mechanism.schedule, mechanism.pools
    chances_, entropy = module._chances(s, keys.thresholds), SeededEntropy(4)
    p = sum(chances_)
    proposals = [module._propose(s, keys, chances_, p, entropy) for _ in range(500)]
    noises = np.array([noise for noise in proposals if noise is not None])
    c = np.array([[*s.coefficients(k), *[0] * (3 - k)] for k in range(4)])
    assert (noises @ c.T >= keys.thresholds - c.sum(axis=1)).any(axis=1).all()
    z = np.random.default_rng(1).normal(size=(400_000, 4)) * np.array(s.scales) * GRID
    union = (z @ c.T >= keys.thresholds).any(axis=1).mean()
    assert abs(norm_score(len(noises), len(proposals), union / float(p))) < 4
    assert union / float(p) < 0.9  # else it would say little


def test_a_proposal_is_made_for_every_noise_whose_rounding_reaches_a_threshold():
    """Noise half a step below whole numbers that add up to the threshold is rounded to just these."""
    mechanism = add_pools(parse(REFERENCE), (1000, 20.0))
    s, (keys,) = mechanism.schedule, mechanism.pools
    for k in range(s.rounds):
        c = s.coefficients(k)
        length = math.sqrt(sum((x * y * GRID) ** 2 for x, y in zip(c, s.scales, strict=False)))
        least = keys.thresholds[k] - mpmath.mpf(sum(c)) / 2
        with precision(300):
            edge = module._edge(s, keys.thresholds, k) * length
            assert abs(edge - least) < 1e-3 * sum(c)


def test_lazy_draws_have_the_law_of_rounded_noise_on_a_coarse_grid(monkeypatch):
    """With steps as large as the noise: its rounding decides who passes, by sums over all whole numbers."""
    monkeypatch.setattr(module, "GRID", 1)
    monkeypatch.setattr(module, "DIRECT", 10)
    s = replace(
        solve_rounds(epsilon=1.0, delta=1e-2, d=2, shares=(0.4, 0.6), memory=0.9, late=0.7),
        scales=(0.9, 0.6), own=(2, 3), past=(1,), thresholds=(9, 9), counts=None,
    )  # fmt: skip
    keys, count = PoolKeys(size=4000, thresholds=(6, 6)), 4000

    def judge(k, z, remembered):
        y = s.own[k] * z + remembered
        on = (y < 6) & (k == 0)
        return Outcome(passed=y >= 6, goes_on=on, attention=y[on], remembered=(remembered + z)[on])

    z = np.arange(-12, 13)
    first, second = (mass("gaussian", scale, z) for scale in s.scales)
    later = (z[:, None] + 3 * z >= 6) & (2 * z[:, None] < 6)
    chance = first[2 * z >= 6].sum() + float(first @ later @ second)
    passed_keys = module.pass_unheld(s, keys, judge, count=count, entropy=SeededEntropy(8))
    assert abs(norm_score(passed_keys, count, chance)) < 4
    # Proposals from half a step above the thresholds, not below, would be too few.
    few = float(ndtr(-7 / 1.8) + ndtr(-8 / math.hypot(0.9, 1.8)))
    assert norm_score(count * few, count, chance) < -5


def test_a_proposal_is_of_each_round_as_often_as_its_chance(monkeypatch):
    """Fractions at equal steps from 0 to 1: the rounds share them by P(H_k)."""
    mechanism = add_pools(parse(REFERENCE), (1000, 20.0))
    s, (keys,) = mechanism.schedule, mechanism.pools
    steps, edges = 400, [module._edge(s, keys.thresholds, k) for k in range(s.rounds)]
    rounds = []

    def above(edge, *, entropy):
        if edge is not None:
            rounds.append(edges.index(edge))
        return mpmath.mpf(0) if edge is None else edge

    fractions = iter(x for n in range(steps) for x in ((n + 0.5) / steps, 0.0))
    monkeypatch.setattr(module, "draw_fraction", lambda entropy: next(fractions))
    monkeypatch.setattr(module, "draw_normal", above)
    parts = [4e-4, 1e-4, 3e-4, 2e-4]
    for _ in range(steps):
        module._propose(s, keys, parts, sum(parts), None)
    assert np.bincount(rounds).tolist() == [160, 40, 120, 80]


def test_of_a_huge_pool_only_keys_that_pass_are_drawn():
    mechanism = add_pools(parse(REFERENCE), (1 << 25, 10.0))
    passers = module.pass_unheld(
        mechanism.schedule, mechanism.pools[0], judge_of(mechanism), count=(1 << 25) - 7,
        entropy=SeededEntropy(1),
    )  # fmt: skip
    assert 0 < passers < 40


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: add_pools(m, (1 << 40, 1e-3)), "asks more of a key than keys outside"),
        (lambda m: add_pools(m, (10, 9.0)), "are too many: ask for fewer"),
        (lambda m: add_pools(m, (10, 0.0)), "fakes must be positive"),
        (lambda m: add_pools(m, (0, 1.0)), "are too many: ask for fewer"),
        (lambda m: PoolKeys(size=0, thresholds=(1,) * 4), "a pool has 1 to 2"),
        (lambda m: replace(m, pools=(PoolKeys(size=9, thresholds=(1, 2)),)), "each of 4 rounds"),
        (lambda m: replace(m, pools=(PoolKeys(size=1 << 22, thresholds=(1,) * 4),)), "raise TP"),
    ],
)
def test_pools_that_make_no_sense_are_refused_by_public_numbers(make, message):
    with pytest.raises(UsageError, match=message):
        make(parse(REFERENCE))


def test_a_pool_key_needs_less_than_a_key_outside():
    """A step decides: at the threshold of keys outside a pool is refused, below it is not."""
    schedule = parse(REFERENCE).schedule
    last = pool_keys(schedule, size=1000, fakes=20.0, late=0.85).thresholds[-1]
    for more in (0, 1):
        bar = replace(schedule, thresholds=(*schedule.thresholds[:-1], last + more))
        if more:
            assert pool_keys(bar, size=1000, fakes=20.0, late=0.85).thresholds[-1] == last
        else:
            with pytest.raises(UsageError, match="asks more of a key than keys outside"):
                pool_keys(bar, size=1000, fakes=20.0, late=0.85)


def test_a_pool_of_another_size_than_the_thresholds_are_for_is_refused():
    candidates = candidates_of([("a", "b")], pools=[["a", "c", "d"]], d=2)
    mechanism = add_pools(parse(REFERENCE), (4, 0.5))
    with pytest.raises(Refused, match="not those that the thresholds were made for"):
        mechanism.release(candidates, entropy=SeededEntropy(1))
    with pytest.raises(Refused, match="not those that the thresholds were made for"):
        parse(REFERENCE).release(candidates, entropy=SeededEntropy(1))


# --- any partitions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """(a log, its queries by how many users ask them)."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(hostile_log(1500, seed=1), path)
    users = tally_of_log(path, per_user=10**6)
    return path, [query for (query,) in sorted(users, key=lambda key: (-users[key], key))]


def test_pool_keys_fare_alike_in_any_partitions(hostile):
    """The noise is a function of the key, and keys that nobody holds have the same draws."""
    path, queries = hostile
    pool = [*queries[1::2], *(f"nobody asks {n}" for n in range(60))]
    earlier = [queries[0], "an earlier key that nobody asks now"]
    tables = []
    for keys in (pool, []):
        pools = (PublicPool(keys=Listed(table=pa.table({"query": keys}))),) if keys else ()
        sizes = tuple((domain.keys.size, 2.0) for domain in pools)
        mechanism = Rounds.solve(epsilon=8.0, delta=1e-3, d=3, rounds=4, pools=sizes)
        view = View(
            kind="query", unit="user-day", way="first", options={"pool": {"query": pools}},
            earlier={"query": pa.table({"query": earlier})},
        )  # fmt: skip
        outcomes = [
            mechanism.release(
                mechanism.gather(log, view, entropy=SeededEntropy(7)), entropy=SeededEntropy(2)
            )
            for _, log in read_in_partitions(path, unit="user-day")
        ]
        assert all(table.equals(outcomes[0]) for table in outcomes)
        tables.append(outcomes[0]["query"].to_pylist())
    published, without = tables
    assert set(earlier) <= set(published)
    assert any(key.startswith("nobody") for key in published)
    assert len(set(published) & set(pool)) > 3
    assert without != published


@pytest.mark.parametrize("d", [2, 100])
def test_earlier_keys_are_left_out_before_bounding_and_counted(hostile, d):
    path, texts = hostile
    earlier = [*texts[:3], "nobody asks this"]
    view = View(kind="query", way="first", earlier={"query": pa.table({"query": earlier})})
    mechanism = Rounds.solve(epsilon=4.0, delta=1e-3, d=d)
    outcomes = []
    for _, log in read_in_partitions(path, keep={BY_VALUE: "country"}):
        candidates = mechanism.gather(log, view, entropy=SeededEntropy(3))
        parts = [*candidates.bounded.results(same)]
        queries = [query for part in parts for query in part.columns(part.item)[0].to_pylist()]
        assert not set(queries) & set(earlier)  # never selected
        # The bound is filled with other items: removing keys after bounding would leave fewer.
        sizes = sorted(int(n) for part in parts for n in np.bincount(part.unit) if n)
        keys = pa.table({"query": [*texts[3:9], *earlier]})
        holders = find_holders(candidates, keys)
        pairs = np.zeros((keys.num_rows, 100), np.int64)
        np.add.at(pairs, (holders.item, holders.m), holders.units)
        released = mechanism.release(candidates, entropy=SeededEntropy(1))
        assert set(earlier) <= set(released["query"].to_pylist())
        outcomes.append((sizes, sorted(queries), pairs.tolist()))
        users = np.bincount(holders.item, holders.units, minlength=keys.num_rows)
        assert users[-1] == 0 < users[-2]  # nobody, and somebody
        few = tally_view(
            log, View(kind="query", way="first"), per_user=10**6, entropy=SeededEntropy(1),
            only=excluding(log, earlier),
        )  # fmt: skip
        held_by = [part.unit for part in few.bounded.results(same)]
        every = [int(n) for unit in held_by for n in np.bincount(unit) if n]
        assert sizes == sorted(min(d, n) for n in every)
    assert outcomes[0] == outcomes[1] == outcomes[2]


def excluding(log, texts):
    keys = distinct_keys(log.text_keys.texts(pa.array(texts)))
    return lambda items: places_of(items.keys, keys) < 0


class HeldRows(Rounds):
    """A count row only for those earlier keys that somebody holds now."""

    def release(self, candidates, *, entropy):
        there = {
            text
            for part in candidates.counted.results(same)
            for text in part.columns(part.item)[0].to_pylist()
        }
        texts = [text for text in candidates.earlier["query"].to_pylist() if text in there]
        table = pa.table({"query": pa.array(texts, pa.string())})
        return super().release(replace(candidates, earlier=table), entropy=entropy)


@pytest.mark.parametrize("mechanism_class", [Rounds, HeldRows])
def test_a_row_of_an_earlier_key_does_not_tell_that_somebody_holds_it(mechanism_class):
    """D: a unit holds the key; D': it is removed, or replaced by one with another item."""
    mechanism = Rounds.solve(epsilon=1.0, delta=1e-6, d=2)
    mechanism = mechanism_class(schedule=mechanism.schedule, C=3.0, reach=1.3, focus=0.3)
    tables = []
    for items in (["e"], [], ["a"]):
        candidates = candidates_of([("a",), *([items] if items else [])], d=2)
        candidates = replace(candidates, earlier=pa.table({"query": ["e"]}))
        releases = [mechanism.release(candidates, entropy=SeededEntropy(n)) for n in range(3)]
        tables.append(["e" in table["query"].to_pylist() for table in releases])
    differs = tables[0] != tables[1] or tables[0] != tables[2]
    assert differs == (mechanism_class is HeldRows)
    assert all(tables[0])


def test_one_norm_for_selected_and_earlier_keys():
    """A unit with an earlier key and a selected one gives both the weight of two published items."""
    mechanism = Rounds.solve(epsilon=20.0, delta=1e-2, d=2, count_per_user=1)
    candidates = candidates_of([("a", "e")] * 300, d=2)
    candidates = replace(candidates, earlier=pa.table({"query": ["e"]}))
    holders = find_holders(candidates, pa.table({"query": ["a", "e"]}))
    assert (holders.m == 2).all()
    weights = holders.weighted_counts(1) / 300 / GRID
    assert weights == pytest.approx([math.sqrt(1 / 2)] * 2, rel=1e-5)
    assert (weights**2).sum() <= 1
    assert set(holders.histogram().tolist()) == {0, 300}
    counted = count_users(
        holders, mechanism.schedule.counts, lambda scale, n: np.zeros(n, np.int64)
    )
    assert counted.d2 == 1


def test_earlier_keys_that_a_pool_lists_are_refused(hostile):
    path, queries = hostile
    pools = (PublicPool(keys=Listed(table=pa.table({"query": queries[:9]}))),)
    earlier = pa.table({"query": [queries[0], queries[0]]})
    mechanism = Rounds.solve(epsilon=4.0, delta=1e-3, d=2, pools=((9, 1.0),))
    view = View(kind="query", way="first", options={"pool": {"query": pools}})
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        both = replace(view, earlier={"query": earlier})
        with pytest.raises(Refused, match="take them out of the pool"):
            mechanism.gather(log, both, entropy=SeededEntropy(1))
        sets = View(kind="itemset", way="first", earlier={"itemset": pa.table({"items": [["a"]]})})
        with pytest.raises(UsageError, match="itemset"):
            Rounds.solve(epsilon=4.0, delta=1e-3, d=2).gather(log, sets, entropy=SeededEntropy(1))
        once = View(kind="query", way="first", earlier={"query": earlier})
        candidates = Rounds.solve(epsilon=4.0, delta=1e-3, d=2).gather(
            log, once, entropy=SeededEntropy(1)
        )
        assert candidates.earlier.num_rows == 1  # a repeated key has one row


def test_rows_are_counted_in_public_order(monkeypatch):
    """Held keys, fakes and earlier keys must not be told apart by the order of their draws."""
    mechanism = Rounds.solve(epsilon=8.0, delta=1e-3, d=1)
    mechanism = replace(
        mechanism, pools=(PoolKeys(size=3, thresholds=(-(1 << 50),) * 4),)
    )  # all pass
    seen = []
    real = find_holders

    def spy(candidates, keys):
        seen.append(keys["query"].to_pylist())
        return real(candidates, keys)

    monkeypatch.setattr("murmurlog.mechanisms.rounds.count.find_holders", spy)
    for key in ("b", "d", "y"):
        candidates = candidates_of([(key,)] * 2, pools=[["b", "d", "y"]], d=1)
        candidates = replace(candidates, earlier=pa.table({"query": ["c", "a"]}))
        mechanism.release(candidates, entropy=SeededEntropy(1))
    assert seen == [["a", "b", "c", "d", "y"]] * 3


# --- whole releases -------------------------------------------------------------------------------


@pytest.fixture
def log(write_tsv):
    popular = ["maps", "weather", "news", "buses", "football", "cinema"]
    rows = [
        {
            "user": f"u{n}",
            "time": f"2026-01-0{1 + i}",
            "query": query,
            "url": f"https://{query}.org",
        }
        for n in range(150)
        for i, query in enumerate([*popular, f"only mine {n}"])
    ]
    return write_tsv(rows, columns=("user", "time", "query", "url", "day"))


@pytest.fixture
def pool(tmp_path):
    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    return write


def failures(out):
    return [check.name for check in murmurlog.verify(out).checks if not check.ok]


NOBODY = [f"nobody asks {n}" for n in range(500)]


def test_a_release_with_two_pools_is_verified_and_they_are_disjoint(log, pool, tmp_path):
    first = pool("first.txt", ["maps", "Weather", "weather", *NOBODY])
    second = pool("second.txt", ["weather", "news", *(f"{key} again" for key in NOBODY[:200])])
    done = murmurlog.release(
        log, out=tmp_path / "out", tables=["query", "click"], epsilon=4, delta=1e-6,
        pool=[f"{first}:20", str(second)], fakes=3, entropy=SeededEntropy(1),
    )  # fmt: skip
    assert failures(tmp_path / "out") == ["noise"]  # it has a seed
    parameters = done.plans["query"].mechanism.parameters()
    assert parameters["pool_sizes"] == [502, 201]  # weather is in the first
    assert parameters["rounds"] == 8
    assert parameters["expected_fakes"] == pytest.approx(23, rel=1e-4)
    assert "A4" in done.guarantee.assumptions
    assert done.plans["click"].mechanism.pools == ()  # a file of queries says nothing about clicks
    queries = murmurlog.load(tmp_path / "out").tables["query"]["query"].to_pylist()
    assert {"maps", "weather", "news"} <= set(queries)
    fakes = [query for query in queries if query.startswith("nobody")]
    assert 5 < len(fakes) < 50
    assert not any(query.startswith("only mine") for query in queries)
    murmurlog.release(
        log, out=tmp_path / "again", tables=["query", "click"], epsilon=4, delta=1e-6,
        pool=[f"{first}:20", str(second)], fakes=3, entropy=SeededEntropy(1),
    )  # fmt: skip
    assert murmurlog.load(tmp_path / "again").tables["query"]["query"].to_pylist() == queries


def test_clicks_have_a_pool_of_pairs(log, pool, tmp_path):
    lines = [f"{query}\thttps://{query}.org" for query in ("maps", "weather", *NOBODY)]
    done = murmurlog.release(
        log, out=tmp_path / "out", tables=["query", "click"], epsilon=8, delta=1e-6,
        pool=pool("pairs.txt", lines), entropy=SeededEntropy(1),
    )  # fmt: skip
    assert failures(tmp_path / "out") == ["noise"]  # it has a seed
    for table in ("query", "click"):
        assert done.plans[table].mechanism.parameters()["pool_sizes"] == [502]


def test_denied_and_screened_keys_are_not_in_the_pool(log, pool, tmp_path):
    deny = pool("deny.txt", ["maps", "nobody asks 7"])
    path = pool("pool.txt", ["maps", "weather", "somebody@example.org", *NOBODY])
    done = murmurlog.release(
        log, out=tmp_path / "out", tables=["query"], epsilon=4, delta=1e-6, pool=path, fakes=200,
        deny=deny, entropy=SeededEntropy(1),
    )  # fmt: skip
    assert done.plans["query"].mechanism.parameters()["pool_sizes"] == [500]
    queries = murmurlog.load(tmp_path / "out").tables["query"]["query"].to_pylist()
    assert not {"maps", "nobody asks 7", "somebody@example.org"} & set(queries)
    assert len(queries) > 100


@pytest.mark.parametrize(
    ("lines", "options", "error", "message"),
    [
        (NOBODY, {"tables": ["itemset"]}, InputError, "fits none of the tables itemset"),
        (NOBODY, {"tables": ["click"]}, InputError, "fits none of the tables click"),
        (NOBODY, {"fakes": 0}, UsageError, "fakes must be positive"),
        (NOBODY, {"fakes": 400}, UsageError, "too many: ask for fewer"),
        (NOBODY, {"fakes": 1e-12}, UsageError, "asks more of a key than keys outside"),
        (NOBODY, {"by": ("day", ["1"])}, UsageError, "do not go together"),
        (None, {"fakes": 5}, UsageError, "--fakes is about a pool"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_booked(
    log, pool, tmp_path, lines, options, error, message
):
    ledger = tmp_path / "ledger.json"
    if lines:
        options = {"pool": pool("pool.txt", lines), **options}
    request = {
        "tables": ["query"],
        "epsilon": 2,
        "delta": 1e-6,
        "ledger": ledger,
        "source_name": "s",
    }
    with pytest.raises(error, match=message):
        murmurlog.release(log, out=tmp_path / "out", **{**request, **options})
    assert not ledger.exists()
    assert not (tmp_path / "out").exists()


def test_two_files_with_the_same_keys_are_no_two_pools(log, pool, tmp_path):
    twice = [pool("one.txt", NOBODY), pool("two.txt", NOBODY)]
    with pytest.raises(InputError, match=r"two\.txt has no key .* is in no other pool"):
        murmurlog.release(
            log, out=tmp_path / "out", tables=["query"], epsilon=2, delta=1e-6, pool=twice
        )
