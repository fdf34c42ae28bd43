"""The mechanism `synthetic`: its joint law against its claim, its sensitivities, its invented users."""

import functools
import itertools
import math
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counts import counts_of
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import SURE, item_law, mass, user_vectors
from scipy.stats import chi2

import murmurlog
from murmurlog.auditing.verify import verify
from murmurlog.bundle.schema import schema
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Synthetic, Threshold, View, parse
from murmurlog.mechanisms.synthetic import mechanism as synthetic
from murmurlog.mechanisms.synthetic import users as invented
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.release import release

SHOWN = 140  # how many values of a count are told apart, around the threshold or around SURE


# --- the exact law --------------------------------------------------------------------------------


def group_outcomes(p, q):
    """Two laws with outcomes of equal odds made one: loses nothing that a hockey stick sees."""
    with np.errstate(divide="ignore"):
        odds = np.round(np.log(p) - np.log(np.where(q > 0, q, 1e-300)), 9)
    _, group = np.unique(odds, return_inverse=True)
    return np.bincount(group, weights=p), np.bincount(group, weights=q)


def bins_law(scale, with_one, bins, *, empty_is_drawn=True):
    """The laws of the histogram of sizes, others being 0 in every bin: `with_one` is the unit's."""
    reach = np.arange(-int(30 * scale) - 9, int(30 * scale) + 11)
    for size in range(bins):
        law = mass("geometric", scale, reach - (1 if size == with_one else 0))
        if not empty_is_drawn:  # a bin of its own for "there is no such bin"
            there = size == with_one
            law = np.append(law if there else 0 * law, 0.0 if there else 1.0)
        yield law


def joint_delta(mechanism, *, epsilon, neighbours, items, empty_is_drawn=True):
    """The largest delta(epsilon) of (published pairs with counts, noisy sizes), by summation."""
    pairs, d = mechanism.pairs, mechanism.pairs.d
    near = np.arange(pairs.T, pairs.T + SHOWN)
    far = np.arange(SURE - SHOWN // 2, SURE + SHOWN // 2)

    @functools.cache
    def item(base, x, y):
        values = far if base >= SURE else near
        p, q = (item_law(pairs.noise, pairs.scale, pairs.T, base + z, values) for z in (x, y))
        assert min(p.sum(), q.sum()) > 1 - 1e-7
        return {False: (p[:1], q[:1]), True: group_outcomes(p[1:], q[1:])}

    @functools.cache
    def sizes(before, after):
        p, q = np.ones(1), np.ones(1)
        laws = (
            list(bins_law(mechanism.b_sizes, size, d + 1, empty_is_drawn=empty_is_drawn))
            for size in (before, after)
        )
        for first, second in zip(*laws, strict=True):
            first, second = group_outcomes(first, second)
            p, q = group_outcomes(np.outer(p, first).ravel(), np.outer(q, second).ravel())
        return p, q

    worst = 0.0
    for before, after in itertools.product([None, *user_vectors(d, items)], repeat=2):
        if neighbours == "add-remove" and before is not None and after is not None:
            continue  # None: there is no such unit
        x, y = before or (0,) * items, after or (0,) * items
        changed = [i for i in range(items) if x[i] or y[i]]
        for bases in itertools.product((0, 1, pairs.T - 1, SURE), repeat=len(changed)):
            total = 0.0
            for outcome in itertools.product((False, True), repeat=len(changed)):
                in_x = None if before is None else sum(
                    x[i] for i, there in zip(changed, outcome, strict=True) if there
                )  # fmt: skip
                in_y = None if after is None else sum(
                    y[i] for i, there in zip(changed, outcome, strict=True) if there
                )  # fmt: skip
                p, q = sizes(in_x, in_y)
                for i, base, there in zip(changed, bases, outcome, strict=True):
                    P, Q = item(base, x[i], y[i])[there]
                    p, q = np.outer(p, P).ravel(), np.outer(q, Q).ravel()
                total += np.maximum(0.0, p - math.exp(epsilon) * q).sum()
            worst = max(worst, float(total))
    return worst


# `used`: the least part of the claim that the truth must reach (seen: 0.36 to 0.77). A sum of two
# budgets is loose: delta of the pairs is paid for at their own epsilon, which the sizes, where they
# cost little, would have let grow; and the neighbours worst for the pairs are not those worst for
# the sizes (under replace: two units whose pairs are all published have the same size).
@pytest.mark.parametrize(
    ("neighbours", "noise", "d", "epsilon", "delta", "used"),
    [
        ("add-remove", "geometric", 1, 3.0, 1e-3, 0.5),
        ("add-remove", "gaussian", 1, 3.0, 1e-2, 0.5),
        ("add-remove", "geometric", 2, 5.0, 1e-2, 0.5),
        ("add-remove", "gaussian", 2, 4.0, 1e-2, 0.3),
        ("replace", "geometric", 1, 3.0, 1e-2, 0.3),
        ("replace", "gaussian", 1, 4.0, 1e-2, 0.5),
    ],
)
def test_pairs_and_sizes_together_keep_the_claim(neighbours, noise, d, epsilon, delta, used):
    m = Synthetic.solve(epsilon=epsilon, delta=delta, d=d, neighbours=neighbours, noise=noise)
    claim = m.guarantee(epsilon=epsilon, neighbours=neighbours)
    assert claim.delta <= delta
    truth = joint_delta(m, epsilon=epsilon, neighbours=neighbours, items=2)
    assert used * claim.delta < truth <= claim.delta


def test_epsilon_itself_is_used_when_sizes_have_most_of_it():
    m = Synthetic(pairs=Threshold(d=1, scale=1.0, T=12), b_sizes=0.5)
    claim = m.guarantee()  # 1 + 2
    assert claim.epsilon == pytest.approx(3.0)
    assert joint_delta(m, epsilon=claim.epsilon, neighbours="add-remove", items=1) <= claim.delta
    less = joint_delta(m, epsilon=claim.epsilon - 0.1, neighbours="add-remove", items=1)
    assert less > 100 * claim.delta


def test_the_law_catches_sizes_noised_for_one_bin_under_replace():
    m = Synthetic(pairs=Threshold(d=1, scale=4.0, T=40), b_sizes=0.5)
    at = {"neighbours": "replace", "items": 2}
    right = m.guarantee(neighbours="replace")
    assert joint_delta(m, epsilon=right.epsilon, **at) <= right.delta
    sold_as = 2 / m.pairs.scale + 1 / m.b_sizes  # scale 1/epsilon where 2/epsilon is due
    assert joint_delta(m, epsilon=sold_as, **at) > 1000 * right.delta


def test_the_law_catches_sizes_drawn_only_where_somebody_is():
    m = Synthetic.solve(epsilon=3.0, delta=1e-3, d=1)
    at = {"epsilon": 3.0, "neighbours": "add-remove", "items": 1}
    assert joint_delta(m, **at) <= 1e-3
    assert joint_delta(m, **at, empty_is_drawn=False) > 0.9


def test_every_bin_gets_a_draw_of_the_stated_scale(monkeypatch, write_tsv):
    calls = []

    def counting(*, noise, scale, count, entropy, **_):
        calls.append((noise, scale, count))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(synthetic, "draw", counting)
    m = parse("synthetic(d=4, scale=2.0, T=30, b_sizes=3.0, b_rank=5.0, b_hour=6.0, b_count=7.0)")
    path = write_tsv([{"user": "a", "time": "2026-03-01T10:00:00", "query": "q", "url": "x.org",
                       "rank": 1}], columns=("user", "time", "query", "url", "rank"))  # fmt: skip
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        m.release(m.gather(log, View(kind="log"), entropy=SystemEntropy()), entropy=SystemEntropy())
    assert calls == [
        ("geometric", 3.0, 5), ("geometric", 5.0, 10), ("geometric", 6.0, 24), ("geometric", 7.0, 5)
    ]  # fmt: skip


# --- sensitivities --------------------------------------------------------------------------------


def measured_of(path, m, published, *, way):
    """The exact histograms and couples for a published set of pairs."""
    with connect() as engine:
        log = read(find(str(path)), engine=engine, entropy=SeededEntropy(1))
        gathered = m.gather(log, View(kind="log", way=way), entropy=SeededEntropy(1))
        assert gathered.tally.per_user == m.pairs.d
        clicks = synthetic.publish(gathered, published)
        parts = {name: synthetic.spread_of(clicks, name) for name in m._spreads()}
        parts["sizes"] = m.sizes(clicks)
        couples = m.couples(clicks, published.num_rows, "user", SeededEntropy(2))
        return parts, counts_of(couples)


def model_of(rows, d, published):
    """The same histograms, counted in Python; units keep their first clicks."""
    parts = {name: np.zeros(bins, int) for name, bins in synthetic.BINS.items()}
    parts["sizes"] = np.zeros(d + 1, int)
    for user in {row["user"] for row in rows}:
        clicks = {}
        for row in rows:
            if row["user"] == user:
                clicks.setdefault((row["query"], row["url"]), []).append(row)
        first = sorted(clicks, key=lambda pair: (min(r["time"] for r in clicks[pair]), pair))[:d]
        pairs_held = [clicks[pair] for pair in first if pair in published]
        parts["sizes"][len(pairs_held)] += 1
        ranks = [
            min(good)
            for click in pairs_held
            if (good := [r["rank"] for r in click if r["rank"] != "" and r["rank"] >= 1])
        ]
        if ranks:
            parts["rank"][min(ranks[0], 10) - 1] += 1
        if pairs_held:
            parts["hour"][int(min(r["time"] for r in pairs_held[0])[11:13])] += 1
            parts["count"][min(len(pairs_held[0]), 5) - 1] += 1
    return parts


def random_log(seed, users=12, pairs=7):
    rng = np.random.default_rng(seed)
    for user in range(users):
        for _ in range(rng.integers(1, 14)):
            pair = rng.integers(pairs)
            yield {
                "user": f"p{user}",
                "time": f"2026-03-{rng.integers(1, 28):02}T{rng.integers(24):02}:00:00",
                "query": f"q{pair % 4}",
                "url": f"s{pair}.org",
                "rank": [-1, 0, 1, 2, 9, 10, 300, ""][rng.integers(8)],
            }


@pytest.mark.parametrize("seed", range(5))
def test_what_is_measured_is_what_a_plain_count_of_first_clicks_gives(seed, write_tsv):
    m = Synthetic.solve(epsilon=9.0, delta=1e-2, d=3, measure="together,rank,hour,count")
    rows = list(random_log(seed, users=40))
    pairs = [(f"q{i % 4}", f"s{i}.org") for i in (0, 1, 2, 4, 6)]
    path = write_tsv(rows, columns=("user", "time", "query", "url", "rank"))
    published = pa.table(list(map(list, zip(*pairs, strict=True))), names=["query", "url"])
    parts, _ = measured_of(path, m, published, way="first")
    for name, expected in model_of(rows, 3, set(pairs)).items():
        assert parts[name].tolist() == expected.tolist(), name


@pytest.mark.parametrize("way", ["first", "random"])
@pytest.mark.parametrize("seed", range(2))
def test_one_unit_moves_one_bin_of_each_histogram_and_r_couples(seed, way, write_tsv):
    m = Synthetic.solve(epsilon=9.0, delta=1e-2, d=4, measure=",".join(synthetic.MEASURES))
    rows = list(random_log(seed))
    columns = ("user", "time", "query", "url", "rank")
    pairs = [{"query": f"q{i % 4}", "url": f"s{i}.org"} for i in (0, 1, 2, 4, 6)]
    published = pa.Table.from_pylist(pairs)
    whole, couples = measured_of(write_tsv(rows, "whole.tsv", columns), m, published, way=way)
    assert whole["sizes"].sum() == 12
    assert m.together.d == 3
    for gone in ("p0", "p5", "p11"):
        rest = [row for row in rows if row["user"] != gone]
        left, fewer = measured_of(write_tsv(rest, f"{gone}.tsv", columns), m, published, way=way)
        for name, histogram in whole.items():
            moved = histogram - left[name]
            assert set(moved) <= {0, 1}
            assert moved.sum() <= 1
            assert name != "sizes" or moved.sum() == 1
        lost = [n - fewer.get(couple, 0) for couple, n in couples.items()]
        assert set(lost) <= {0, 1}
        assert sum(lost) <= m.together.d
        assert set(fewer) <= set(couples)


def test_couples_without_their_bound_would_move_more_than_r(write_tsv):
    rows = [{"user": "a", "time": "2026-03-01", "query": "q", "url": f"s{i}.org"} for i in range(4)]
    published = pa.table({"query": ["q"] * 4, "url": [f"s{i}.org" for i in range(4)]})
    m = Synthetic.solve(epsilon=9.0, delta=1e-2, d=4, measure="together")
    _, couples = measured_of(write_tsv(rows), m, published, way="first")
    assert sum(couples.values()) == m.together.d == 3 < math.comb(4, 2)


def test_histograms_are_what_a_plain_count_gives(write_tsv):
    rows = [
        # a: first click at 9 on rank 3, again at 11 on rank 2; its third pair is beyond d
        ("a", "09", "q1", "x.org", 3), ("a", "11", "q1", "x.org", 2), ("a", "12", "q2", "y.org", 40),
        ("a", "13", "q3", "z.org", 1),
        # b: only the unpublished pair; c: a published one without a rank, then one with
        ("b", "09", "q2", "y.org", 1),
        ("c", "22", "q1", "x.org", ""), ("c", "23", "q3", "z.org", 5),
    ]  # fmt: skip
    names = ("user", "time", "query", "url", "rank")
    rows = [dict(zip(names, row, strict=True)) for row in rows]
    for row in rows:
        row["time"] = f"2026-03-01T{row['time']}:00:00"
    m = Synthetic.solve(epsilon=9.0, delta=1e-2, d=2, measure="together,rank,hour,count")
    published = pa.table({"query": ["q1", "q3"], "url": ["x.org", "z.org"]})
    parts, couples = measured_of(write_tsv(rows, columns=names), m, published, way="first")
    assert parts["sizes"].tolist() == [1, 1, 1]
    assert parts["rank"].tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert np.flatnonzero(parts["hour"]).tolist() == [9, 22]
    assert parts["count"].tolist() == [1, 1, 0, 0, 0]
    assert couples == {("0", "1"): 1}


# --- invented users -------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 200), min_size=1, max_size=12))
def test_sizes_are_whole_and_keep_their_sum(noisy):
    sizes = invented.whole_sizes(np.array(noisy))
    assert sizes.min() >= 0
    assert sizes.sum() == max(0, sum(noisy))
    if min(noisy) >= 0:
        assert sizes.tolist() == noisy
    order = np.argsort(noisy, kind="stable")
    assert np.all(np.diff(sizes[order]) >= -1)  # rounding may turn equal ones by one


def test_pairs_are_chosen_by_weight_without_repetition():
    weights, n = np.array([50, 30, 15, 5]), 60_000
    user, pair = invented.choose(weights, np.array([0, 0, n]), entropy=SystemEntropy())
    assert np.bincount(user).tolist() == [3] * n
    rows = pair.reshape(n, 3)
    assert all(len(set(row)) == 3 for row in rows[:2000].tolist())
    statistic, cells = 0.0, 0
    for order in itertools.permutations(range(4), 3):
        left, p = 100, 1.0
        for i in order:
            p *= weights[i] / left
            left -= weights[i]
        seen = int((rows == order).all(axis=1).sum())
        statistic += (seen - n * p) ** 2 / (n * p)
        cells += 1
    assert chi2.sf(statistic, cells - 1) > 1e-9


def test_fitted_weights_give_frequent_pairs_their_due():
    users = np.array([9000, 5000, 1000] + [100] * 60)
    sizes = np.array([5000, 4000, 2000, 500])
    total = int(np.arange(1, 5) @ sizes)
    wanted = users / users.sum() * total
    _, pair = invented.choose(invented.fit_weights(users, sizes), sizes, entropy=SystemEntropy())
    _, plain = invented.choose(users, sizes, entropy=SystemEntropy())
    assert len(pair) == len(plain) == total
    off, plain_off = (
        np.abs(np.bincount(p, minlength=len(users)) - wanted).sum() / total for p in (pair, plain)
    )
    assert off < 0.08 < 0.15 < plain_off  # 0.04 and 0.21; chance alone moves neither by 0.02


def test_linked_pairs_are_found_together():
    # Twenty pairs in ten couples: who holds one holds its partner; nothing else goes together.
    users, sizes = np.full(20, 1000), np.array([0, 10_000])
    first, second = np.arange(0, 20, 2), np.arange(1, 20, 2)
    links = invented.Links.of(first, second, np.full(10, 1000), users, sizes)
    assert links.chance.tolist() == [invented.CERTAIN] * 20
    _, pair = invented.choose(users, sizes, links=links, entropy=SystemEntropy())
    rows = pair.reshape(-1, 2)
    assert np.array_equal(rows[:, 0] // 2, rows[:, 1] // 2)
    half = invented.Links.of(first, second, np.full(10, 500), users, sizes)
    _, pair = invented.choose(users, sizes, links=half, entropy=SystemEntropy())
    together = np.mean(pair.reshape(-1, 2)[:, 0] // 2 == pair.reshape(-1, 2)[:, 1] // 2)
    assert abs(together - (0.5 + 0.5 / 19)) < 0.05


def test_links_without_any_and_users_of_every_pair():
    none = np.zeros(0, np.int64)
    links = invented.Links.of(none, none, none, np.array([5, 5, 5]), np.array([0, 0, 9]))
    _, pair = invented.choose(
        np.array([1, 1, 10**9]), np.array([0, 0, 9]), links=links, entropy=SystemEntropy()
    )
    assert [sorted(row) for row in pair.reshape(9, 3).tolist()] == [[0, 1, 2]] * 9


def test_bins_are_drawn_by_their_noisy_numbers():
    bins = invented.draw_bins(np.array([-5, 300, 0, 100]), count=40_000, entropy=SystemEntropy())
    assert set(bins) == {1, 3}
    assert abs(np.mean(bins == 1) - 0.75) < 0.03
    anything = invented.draw_bins(np.array([-5, 0, -1]), count=3_000, entropy=SystemEntropy())
    assert set(anything) == {0, 1, 2}


def test_names_are_new_and_in_no_order():
    user = np.repeat(np.arange(500), 2)
    names = invented.names(user, entropy=SystemEntropy()).to_pylist()
    assert names[::2] == names[1::2]
    assert set(names) == {f"invented-{i}" for i in range(1, 501)}
    assert names != sorted(names, key=lambda name: int(name.split("-")[1]))
    assert invented.names(user[:0], entropy=SystemEntropy()).to_pylist() == []


# --- end to end -----------------------------------------------------------------------------------

ALL = ",".join(synthetic.MEASURES)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(invent(rows=60_000, seed=5), path)
    return path


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("measure", [None, ALL])
def test_a_log_goes_in_and_a_log_comes_out(log, tmp_path, measure, neighbours):
    outcome = release(
        str(log), out=tmp_path / "out", mechanism="synthetic", tables=["log"], epsilon=8.0,
        delta=1e-4, measure=measure, neighbours=neighbours,
    )  # fmt: skip
    assert outcome.guarantee.epsilon == 8.0
    assert outcome.guarantee.delta <= 1e-4
    assert verify(tmp_path / "out").ok
    table = murmurlog.load(tmp_path / "out").tables["log"]
    more = [] if measure is None else ["rank", "hour"]
    assert table.column_names == ["user", "query", "url", "count", *more]
    assert table.num_rows > 50
    notes = outcome.notes["log"]
    assert len(set(table["user"].to_pylist())) == notes["invented users"]
    raw = pq.read_table(log)
    assert set(table["user"].to_pylist()).isdisjoint(raw["user"].to_pylist())
    assert set(table["query"].to_pylist()) <= set(raw["query"].to_pylist())
    counts = set(table["count"].to_pylist())
    assert counts == {1} if measure is None else counts <= {1, 2, 3, 4, 5}
    if measure:
        assert set(table["rank"].to_pylist()) <= set(range(1, 11))
        assert set(table["hour"].to_pylist()) <= set(range(24))


def test_a_frequent_couple_stays_together(tmp_path, write_tsv):
    rows = []
    for i in range(3000):
        mine = [(0, 1), (2, 3), (4, 5)][i % 3]
        rows += [
            {
                "user": f"p{i}",
                "time": f"2026-03-01T10:0{k}:00",
                "query": f"q{k}",
                "url": f"s{k}.org",
            }
            for k in mine
        ]
    path = write_tsv(rows)
    shares = {}
    for measure in (None, "together"):
        out = tmp_path / f"out-{measure}"
        release(str(path), out=out, mechanism="synthetic", tables=["log"], per_user=2,
                epsilon=4.0, delta=1e-6, measure=measure)  # fmt: skip
        table = murmurlog.load(out).tables["log"]
        of = {}
        for row in table.to_pylist():
            of.setdefault(row["user"], set()).add(int(row["query"][1:]) // 2)
        assert 2900 < len(of) < 3100
        shares[measure] = np.mean([len(couples) == 1 for couples in of.values()])
    assert shares[None] < 0.3  # one of five
    assert shares["together"] > 0.9


def test_nothing_to_publish_is_a_valid_release(tmp_path, write_tsv):
    alone = write_tsv(
        [{"user": "a", "time": "2026-03-01", "query": "q", "url": "x.org"}], "one.tsv"
    )
    none = write_tsv([{"user": "a", "time": "2026-03-01", "query": "q", "url": ""}], "none.tsv")
    for name, path in {"one": alone, "none": none}.items():
        outcome = release(str(path), out=tmp_path / name, mechanism="synthetic", tables=["log"],
                          measure="together,hour,count", delta=1e-12)  # fmt: skip
        assert outcome.rows == {"log": 0}
        report = verify(tmp_path / name)
        assert report.ok, report


@pytest.mark.slow
def test_sizes_that_noise_makes_negative_do_no_harm(tmp_path, log):
    for i in range(2):
        outcome = release(str(log), out=tmp_path / f"out{i}", mechanism="synthetic", tables=["log"],
                          epsilon=0.02, delta=1e-3, measure=ALL)  # fmt: skip
        assert outcome.rows["log"] >= 0
        assert verify(tmp_path / f"out{i}").ok


@pytest.mark.parametrize(
    ("measure", "columns", "message"),
    [
        ("rank", ("user", "time", "query", "url"), "has no rank column"),
        ("hour", ("user", "query", "url"), "has no time column"),
    ],
)
def test_what_is_not_in_the_log_cannot_be_measured(tmp_path, write_tsv, measure, columns, message):
    path = write_tsv(
        [{"user": "a", "time": "2026-03-01", "query": "q", "url": "x.org"}], columns=columns
    )
    book = tmp_path / "ledger"
    with pytest.raises(InputError, match=message):
        release(str(path), out=tmp_path / "out", mechanism="synthetic", tables=["log"],
                measure=measure, ledger=book, source_name="web", new_source=True)  # fmt: skip
    assert not (tmp_path / "out").exists()
    assert not book.exists() or not Ledger(book).entries()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "rank,day"}, "--measure has no day: use any of together, rank, hour, count"),
        ({"measure": "together", "per_user": 1}, "needs units with 2 pairs or more"),
        ({"set_only": True}, "--set-only does not go with synthetic"),
        ({"tables": ["query"]}, "synthetic makes no query table"),
        ({"delta": 1e-40}, "below what the noise sampler can certify"),
    ],
)
def test_bad_choices_are_named(log, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        release(str(log), out=tmp_path / "out",
                **{"mechanism": "synthetic", "tables": ["log"]} | options)  # fmt: skip


def test_a_log_without_urls_is_refused(tmp_path, write_tsv):
    path = write_tsv([{"user": "a", "query": "q"}], columns=("user", "query"))
    with pytest.raises(InputError, match="no column of clicked urls, so there is no log table"):
        release(str(path), out=tmp_path / "out", mechanism="synthetic", tables=["log"])


@pytest.mark.slow
def test_a_million_rows_take_less_than_a_minute(tmp_path):
    write(invent(rows=1_000_000, seed=1), tmp_path / "log.parquet")
    begin = time.monotonic()
    release(str(tmp_path / "log.parquet"), out=tmp_path / "out", mechanism="synthetic",
            tables=["log"], measure=ALL)  # fmt: skip
    assert time.monotonic() - begin < 60


def test_only_known_columns_are_believed():
    plain = schema("log")
    assert plain.names == ["user", "query", "url", "count"]
    for columns in (3, None, "rank", ["user", "more"], [{"rank": 1}]):
        assert schema("log", parameters={"columns": columns}).equals(plain)
    assert schema("log", parameters={"columns": ["hour", "rank"]}).names[4:] == ["rank", "hour"]
    assert schema("click", parameters={"columns": ["rank"]}).equals(schema("click"))


# --- the text and the claim -----------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    epsilon=st.floats(0.05, 20),
    d=st.integers(1, 30),
    measure=st.sets(st.sampled_from(synthetic.MEASURES)),
    neighbours=st.sampled_from(["add-remove", "replace"]),
)
def test_text_is_the_name_and_the_claim_is_kept(epsilon, d, measure, neighbours):
    if d == 1:
        measure = measure - {"together"}
    m = Synthetic.solve(
        epsilon=epsilon, delta=1e-6, d=d, neighbours=neighbours, noise="geometric",
        measure=",".join(measure),
    )  # fmt: skip
    assert parse(str(m)) == m
    assert m.guarantee(epsilon=epsilon, neighbours=neighbours).delta <= 1e-6
    assert m.parameters()["columns"] == [c for c in ("rank", "hour") if c in measure]


def test_letters_state_the_sum_and_are_kept_to():
    m = parse("synthetic(d=2, scale=4, T=60, b_sizes=10, r=1, scale_r=5, T_r=70, b_hour=20)")
    claim = m.guarantee()
    assert claim.epsilon == pytest.approx(2 / 4 + 1 / 10 + 1 / 5 + 1 / 20)
    again = m.guarantee(epsilon=claim.epsilon)  # as `verify` does
    assert again.delta <= claim.delta
    twice = m.guarantee(neighbours="replace")
    assert twice.epsilon == pytest.approx(2 * claim.epsilon)
    at = m.guarantee(delta=1e-4)
    assert at.delta <= 1e-4
    with pytest.raises(Refused, match=r"costs epsilon 0\.15\d* per user and more, not 0\.1"):
        m.guarantee(epsilon=0.1)
    with pytest.raises(UsageError, match="at no epsilon: raise T or delta"):
        m.guarantee(delta=1e-12)
    with pytest.raises(UsageError, match="missing parameter b_sizes"):
        parse("synthetic(d=2, scale=4, T=60)")
    with pytest.raises(UsageError, match="a scale of noise, must lie between"):
        parse("synthetic(d=2, scale=4, T=60, b_sizes=0)")
    with pytest.raises(UsageError, match="d must be at least 2"):
        parse("synthetic(d=1, scale=4, T=60, b_sizes=1, r=1, scale_r=5, T_r=70)")
