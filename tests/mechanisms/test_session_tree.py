"""session-tree: candidates by published prefixes, its exact law, broken claims, and whole releases."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from counts import same
from scipy.stats import chisquare
from tree_laws import items_of, largest_delta, law

import murmurlog
from murmurlog.errors import Refused, UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, SessionTree, View, parse
from murmurlog.mechanisms.session_tree import items_a_level, next_level
from murmurlog.privacy import Loss, delta_of_losses, loss_of_rounds
from murmurlog.privacy.counts import GRID
from murmurlog.privacy.safelog import LONGEST
from murmurlog.privacy.sampler import SeededEntropy

RELATIONS = ("add-remove", "replace")


def tree(*, l_q=3, s=0.8, T=3.2, l_s=1):
    """One round a level, equal weights, no counts."""
    return parse(f"session-tree(l_s={l_s}, l_q={l_q}, s={s}, T={round(T * GRID)})")


def log_of(write_tsv, users):
    """A log from the sessions of each user, texts of one letter a query; sessions are hours apart."""
    rows = [
        {
            "user": f"u{n}",
            "time": f"2026-01-{1 + day:02} 10:{minute:02}:00",
            "query": query,
            "url": "",
        }
        for n, sessions in enumerate(users)
        for day, session in enumerate(sessions)
        for minute, query in enumerate(session)
    ]
    return str(write_tsv(rows))


def lists_of_units(level):
    """The lists of each unit that has some."""
    lists = {}
    for place, bounded in enumerate(level.bounded.results(same)):
        for unit, item in zip(bounded.unit.tolist(), bounded.item.tolist(), strict=True):
            (queries,) = bounded.columns(np.array([item]))
            lists.setdefault((place, unit), []).append("".join(queries[0].as_py()))
    return sorted(sorted(texts) for texts in lists.values())


# --- the claim ------------------------------------------------------------------------------------


def test_the_bound_of_a_level_is_its_largest_number_of_subsequences():
    for l_q in range(2, LONGEST + 1):  # by hand, on a session without repeats
        lengths = Counter(map(len, items_of("abcdefghijkl"[:l_q])))
        for l_s in (1, 1000 // max(lengths.values())):
            assert items_a_level(l_s, l_q) == l_s * max(lengths.values())
    assert [items_a_level(1, l_q) for l_q in (2, 3, 4, 5, 6, 7)] == [1, 3, 6, 10, 20, 35]
    with pytest.raises(UsageError, match="up to 1200 subsequences of one length, more than 1000"):
        items_a_level(200, 4)


HISTORIES = ([], ["ab"], ["ac"], ["bc"], ["abc"], ["xyz"], ["abx"])
WORLDS = ([], [["abc"]], [["ab"]] * 4, [["abc"]] * 3 + [["ab"]] * 2, [["abc"]] * 6, [["ab"]] * 9)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("s", "T"), [(0.8, 3.2), (1.5, 4.5)])
def test_the_claim_covers_the_exact_law(s, T, neighbours):
    mechanism = tree(s=s, T=T)
    for epsilon in (0.5, 1.5, 4.0):
        claimed = mechanism.guarantee(epsilon=epsilon, neighbours=neighbours).delta
        worst = largest_delta(
            mechanism, epsilon=epsilon, worlds=WORLDS, histories=HISTORIES, neighbours=neighbours
        )
        assert claimed / 100 < worst <= claimed


def test_three_levels_are_covered_too():
    mechanism = tree(l_q=4, s=0.6, T=2.6)
    worlds = ([], [["abcd"]] * 3, [["abc"]] * 6, [["abcd"]] * 5)
    claimed = mechanism.guarantee(epsilon=2.0).delta
    worst = largest_delta(
        mechanism, epsilon=2.0, worlds=worlds, histories=(["abcd"], ["abcx"], ["abx"])
    )
    assert claimed / 100 < worst <= claimed


def test_the_exact_law_exceeds_broken_claims():
    """Half of the noise, and extensions that need no threshold because their beginning is public."""
    mechanism = tree(s=1.5, T=4.5)
    claimed = mechanism.guarantee(epsilon=1.5).delta
    setting = {"epsilon": 1.5, "worlds": WORLDS, "histories": HISTORIES}
    assert largest_delta(mechanism, **setting, noise=0.5) > claimed
    assert largest_delta(mechanism, **setting, free=True) > 2 * claimed


def test_the_loss_of_one_level_does_not_cover_all():
    """Where all of abc is published, abcx has three keys of its own among pairs, three more, and one."""
    mechanism = tree(l_q=4, s=3.0, T=7.0)
    one_level = delta_of_losses([loss_of_rounds(mechanism.selection.schedule)], epsilon=6.0)
    worst = largest_delta(mechanism, epsilon=6.0, worlds=[[["abc"]] * 200], histories=[["abcx"]])
    assert one_level < worst <= mechanism.guarantee(epsilon=6.0).delta


def test_its_loss_is_that_of_all_levels_and_of_the_counts_once():
    mechanism = SessionTree.solve(epsilon=1.0, delta=1e-6, d=1)
    schedule = mechanism.selection.schedule
    squares = 3 * sum(s**-2 for s in schedule.scales) + schedule.counts.loss
    assert mechanism.loss().mu ** 2 == pytest.approx(squares)
    alone = loss_of_rounds(replace(schedule, counts=None))
    assert mechanism.loss().keys == pytest.approx(3 * alone.keys)
    assert mechanism.loss(neighbours="replace").mu ** 2 == pytest.approx(2 * squares)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    "options", [{}, {"rounds": 1, "queries_per_session": 2}, {"count_share": 0.0}]
)
def test_what_is_solved_keeps_the_budget_and_spends_it(options, neighbours):
    mechanism = SessionTree.solve(epsilon=2.0, delta=1e-6, d=1, neighbours=neighbours, **options)
    assert 0.9e-6 < mechanism.guarantee(epsilon=2.0, neighbours=neighbours).delta <= 1e-6
    assert mechanism.guarantee(delta=1e-6, neighbours=neighbours).epsilon == pytest.approx(
        2.0, rel=1e-3
    )
    assert parse(str(mechanism)) == mechanism


def test_one_level_without_counts_is_rounds_on_pairs():
    budget = {"mu": 0.4, "keys": 1e-6}
    mechanism = SessionTree.for_loss(Loss(**budget), d=1, queries_per_session=2, count_share=0.0)
    with pytest.raises(UsageError, match="--count-share must be at least 0 and below 1, not -1"):
        SessionTree.for_loss(Loss(**budget), d=1, count_share=-1)
    alone = Rounds.for_loss(Loss(**budget), d=10, count_share=0.0)
    assert mechanism.selection == alone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("session-tree(l_s=1, l_q=1, s=1.0, T=9)", "--queries-per-session must lie between 2 and"),
        ("session-tree(l_s=0, l_q=3, s=1.0, T=9)", "--sessions-per-user must be at least 1"),
        ("session-tree(l_s=1, l_q=3, s=1.0, T=9, N=5, TP=3)", "takes no pools"),
        ("session-tree(l_s=1, l_q=3, s=1.0, T=9, sigma=2, d2=1)", "counts need sigma1 and sigma_h"),
        ("session-tree(l_s=1, l_q=3, s=1.0, T=9, x=5)", "has no parameter x"),
    ],
)
def test_bad_letters_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)


# --- the steps ------------------------------------------------------------------------------------


def test_candidates_follow_from_a_unit_s_items_and_published_prefixes(write_tsv, engine):
    path = log_of(write_tsv, [["abc", "bd"], ["abd"], ["ca"]])
    mechanism = tree(l_s=2)
    log = read(find(path), engine=engine)
    level = mechanism.gather(log, View(kind="session"), entropy=SeededEntropy(1))

    def lists_after(*published):
        keys = log.text_keys.columns([pa.array([list(item) for item in published])])
        return lists_of_units(next_level(level, 3, keys))

    pairs = [["ab", "ac", "bc", "bd"], ["ab", "ad", "bd"], ["ca"]]
    assert lists_of_units(level) == pairs
    assert lists_after("ab", "zz") == [["abc"], ["abd"]]
    assert lists_after("ac") == []
    with pytest.raises(Refused, match="the mechanism is proved for 4"):
        tree(l_s=1).release(level, entropy=SeededEntropy(1))


def test_one_unit_moves_the_sums_of_a_level_by_its_own_weights_only(write_tsv, engine):
    """Removing a unit takes its items' weights away, of norm 1 at most, whatever was published."""
    units = [["abc", "abd"], ["abc"], ["bca", "abd"], ["cab", "ab"]]
    mechanism = tree(l_s=2)

    def sums_of(sessions, published):
        log = read(find(log_of(write_tsv, sessions)), engine=engine, entropy=SeededEntropy(1))
        level = mechanism.gather(log, View(kind="session"), entropy=SeededEntropy(1))
        if published:
            keys = log.text_keys.columns([pa.array([list(item) for item in published])])
            level = next_level(level, 3, keys)
        rows = [
            (tuple(key), weight)
            for shard in level.first
            for key, weight in zip(shard.keys.tolist(), shard.sums.tolist(), strict=True)
        ]
        assert len(dict(rows)) == len(rows)
        return Counter(dict(rows))

    for published in ([], ["ab"], ["ab", "bc", "ca"]):
        whole = sums_of(units, published)
        for gone in range(len(units)):
            rest = sums_of([[], *units[:gone], *units[gone + 1 :]], published)
            moved = Counter(whole)
            moved.subtract(rest)
            assert min(moved.values()) >= 0
            assert sum(weight**2 for weight in moved.values()) <= GRID**2


def test_the_release_has_its_exact_law(write_tsv, engine):
    """Many worlds with queries of their own in one log: each is a sample of the law."""
    mechanism, worlds = tree(s=1.0, T=2.0), 3000
    units = [["abc"], ["abc"], ["ab"], ["bc"]]
    texts = "abc"
    rows = [
        {"user": f"{w} {n}", "time": f"2026-01-01 10:0{i}:00", "query": f"w{w} {query}", "url": ""}
        for w in range(worlds)
        for n, (session,) in enumerate(units)
        for i, query in enumerate(session)
    ]
    log = read(find(str(write_tsv(rows))), engine=engine)
    candidates = mechanism.gather(log, View(kind="session"), entropy=SeededEntropy(1))
    seen = {}
    for queries in mechanism.release(candidates, entropy=SeededEntropy(2))["queries"].to_pylist():
        world = queries[0].split()[0]
        item = tuple(query.split()[1] for query in queries)
        seen.setdefault(world, set()).add(item)
    outcomes = Counter(frozenset(items) for items in seen.values())
    outcomes[frozenset()] = worlds - len(seen)
    expected = law(mechanism, units)
    assert set(outcomes) <= set(expected)
    assert {item for items in outcomes for item in items} == set(items_of(texts))
    likely = [key for key, p in expected.items() if worlds * p > 5]
    counts = np.array(
        [outcomes[key] for key in likely] + [worlds - sum(outcomes[k] for k in likely)]
    )
    chances = np.array([expected[key] for key in likely])
    chances = np.append(chances, 1 - chances.sum()) + 1e-12
    assert chisquare(counts, worlds * chances / chances.sum()).pvalue > 1e-6
    halved = law(mechanism, units, noise=0.5)
    other = np.array([halved.get(key, 0.0) for key in likely])
    other = np.append(other, max(0.0, 1 - other.sum())) + 1e-12
    assert chisquare(counts, worlds * other / other.sum()).pvalue < 1e-6


@pytest.mark.parametrize("set_only", [False, True])
def test_long_sessions_are_released_in_one_account_and_verified(write_tsv, tmp_path, set_only):
    path = log_of(write_tsv, [["abcd", "xy"]] * 200 + [["abz"]] * 3)
    done = murmurlog.release(
        path, out=tmp_path / "out", tables=["query", "session"], mechanism="session-tree", epsilon=8,
        delta=1e-6, set_only=set_only,
    )  # fmt: skip
    assert done.guarantee.epsilon == pytest.approx(8)
    assert "rounds(" in str(done.plans["query"].mechanism)
    report = murmurlog.verify(tmp_path / "out")
    assert report.ok, report
    table = murmurlog.load(tmp_path / "out").tables["session"]
    lists = sorted("".join(queries) for queries in table["queries"].to_pylist())
    assert lists == sorted("".join(item) for item in [*items_of("abcd"), *items_of("xy")])
    if not set_only:
        assert all(abs(users - 200) < 60 for users in table["users"].to_pylist())
        assert table["users_high"].null_count == table.num_rows  # units were bounded: at least


def test_growth_ends_where_nothing_was_published(write_tsv, tmp_path):
    path = log_of(write_tsv, [["abcd"]] * 2)
    done = murmurlog.release(
        path, out=tmp_path / "out", tables=["session"], mechanism="session-tree", epsilon=1
    )
    assert done.rows == {"session": 0}
    assert murmurlog.verify(tmp_path / "out").ok


def test_a_bundle_with_a_longer_list_is_refused():
    table = pa.table({"queries": [list("abcde")]})
    assert "2 to 4 queries" in tree(l_q=4).fault(table, {})


def test_a_bound_on_items_is_refused(write_tsv, tmp_path):
    with pytest.raises(UsageError, match="--per-user"):
        murmurlog.release(
            log_of(write_tsv, [["ab"]]), out=tmp_path / "out", tables=["session"], per_user=3,
            mechanism="session-tree",
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
