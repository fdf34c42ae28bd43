"""Sums and ratios of published counts: intervals that hold the truth as often as they say."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import murmurlog
import murmurlog.cli.main as entry
from murmurlog.bundle.certificate import TableClaim
from murmurlog.bundle.estimates import (
    Counts,
    counts,
    match_rows,
    ratio,
    selection_bias_bounds,
    total,
)
from murmurlog.bundle.read import load
from murmurlog.errors import UsageError
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import SeededEntropy, draw
from murmurlog.privacy.selection_bias import Selection

DP = Guarantee(epsilon=1.0, delta=1e-6, unit="user", neighbours="add-remove")
LAWS = {"gaussian": (6.0, 35), "geometric": (4.0, 58)}  # scale, T of about delta 1e-6


def claim(**parameters):
    return TableClaim(
        rows=1, mechanism="m", guarantee=DP, count="users", parameters=parameters, passes={}
    )


def release_counts(noise, true, seed):
    """(the table that `threshold` publishes of items with these true counts, which they were)."""
    scale, T = LAWS[noise]
    noisy = true + draw(noise=noise, scale=scale, count=len(true), entropy=SeededEntropy(seed))
    passed = noisy >= T
    estimates = Selection(noise, scale, T).estimates(noisy[passed])
    columns = {
        "query": pa.array(["q"] * passed.sum(), pa.string()),
        "users": estimates.users,
        "users_stderr": estimates.stderr,
        "reliable": estimates.reliable,
    }
    return pa.table(columns), true[passed]


def coverage(noise, true, *, leaning=True, draws=40):
    """How often the 95 % interval of the sum of all published rows holds the true sum."""
    scale, T = LAWS[noise]
    parameters = {"noise": noise, "scale": scale, "threshold": T}
    hits = 0
    for seed in range(draws):
        table, users = release_counts(noise, true, seed)
        of = counts("query", table, claim(**parameters))
        if not leaning:
            of = replace(of, too_high=0 * of.too_high, too_low=0 * of.too_low)
        estimate = total(of, np.ones(len(users), bool))
        hits += estimate.low <= users.sum() <= estimate.high
    return hits / draws


def power_law(T, rows, steepness=2.0):
    """True counts as logs have them: items of n users as many as n^-2, `rows` of them from T up."""
    n = np.arange(T // 3, 40 * T)
    items = n**-steepness
    return np.repeat(
        n, np.diff(np.floor(np.cumsum(items) * rows / items[n >= T].sum()), prepend=0).astype(int)
    )


@pytest.mark.parametrize("noise", LAWS)
def test_a_single_row_far_above_the_threshold_is_covered(noise):
    true = np.full(400, 50 * LAWS[noise][1])
    scale, T = LAWS[noise]
    table, _ = release_counts(noise, true, 1)
    of = counts("query", table, claim(noise=noise, scale=scale, threshold=T))
    rows = np.eye(400, dtype=bool)
    estimates = [total(of, row) for row in rows]
    assert 0.92 < np.mean([e.low <= true[0] <= e.high for e in estimates]) < 0.98
    assert of.too_high.max() == of.too_low.max() == 0


@pytest.mark.parametrize("noise", LAWS)
def test_sums_of_rows_near_the_threshold_are_covered_and_would_not_be_without_the_lean(noise):
    T = LAWS[noise][1]
    for true in (np.full(30, T), np.full(1500, T), power_law(T, 2000)):
        assert coverage(noise, true) > 0.9, len(true)
    assert coverage(noise, power_law(T, 2000), leaning=False) < 0.7


def test_the_lean_is_that_of_the_exact_law_and_as_large_as_stated_in_the_docs():
    high, low = selection_bias_bounds("gaussian", 23.46, 134)
    assert 0.12 < high < 0.15
    assert 0.02 < low < 0.05
    assert 0.15 < selection_bias_bounds("geometric", 10.0, 150)[0] < 0.25
    assert selection_bias_bounds("gaussian", 23.46, 134, corrected=False)[0] > 0.7  # as drawn
    big = selection_bias_bounds("gaussian", 2346.0, 13400)
    assert big == pytest.approx((high, low), abs=0.02)  # large noise leans as small noise does


def test_fresh_counts_do_not_lean_and_are_covered():
    true = np.arange(5, 105)
    hits = 0
    for seed in range(200):
        noisy = true + draw(noise="gaussian", scale=9.0, count=100, entropy=SeededEntropy(seed))
        stderr = np.full(100, math.sqrt(81 + 1 / 12))
        table = pa.table({"query": ["q"] * 100, "users": noisy, "users_stderr": stderr})
        fresh = claim(noise="gaussian", scale=400.0, threshold=900, count_scale=9.0)
        of = counts("query", table, fresh)
        assert not of.too_high.any()
        estimate = total(of, np.ones(100, bool))
        hits += estimate.low <= true.sum() <= estimate.high
    assert 0.9 < hits / 200 < 0.99


def test_rows_that_may_be_nobodys_can_be_taken_out_whole():
    table = pa.table({"query": ["a", "b"], "users": [40, 900], "users_stderr": [40.0, 5.0]})
    of = counts("query", table, claim(noise="geometric", scale=5.0, threshold=30, expected_fakes=9))
    assert of.too_high[0] == 40
    assert of.too_high[1] == 0
    assert total(of, np.array([True, False])).low == 0


def make_counts(values, stderr, name="query", excess=0.0):
    values = np.array(values, float)
    zero = np.zeros(len(values))
    return Counts(
        name=name, values=values, stderr=np.broadcast_to(stderr, values.shape).astype(float),
        too_high=zero, too_low=zero, excess=excess,
    )  # fmt: skip


def test_a_sum_of_users_in_the_log_has_the_error_that_its_rows_share():
    of = replace(
        make_counts([1000, 2000], [30.0, 40.0]), common=0.1, meaning="users in the log", of="users"
    )
    both = total(of, np.ones(2, bool))
    assert both.stderr == pytest.approx(math.hypot(50, 300))
    assert str(both) == (
        "3,000 users in the log, added up over 2 rows (95 % interval 2,404 to 3,596)"
    )
    first = total(of, np.array([True, False]))
    assert str(first) == "1,000 users in the log (95 % interval 795 to 1,205)"
    assert of.errors.tolist() == pytest.approx([math.hypot(30, 100), math.hypot(40, 200)])
    # Within one table the shared error cancels.
    part = ratio(of, np.array([True, False]), of, np.ones(2, bool))
    alone = ratio(
        make_counts([1000, 2000], [30.0, 40.0]), np.array([True, False]), of, np.ones(2, bool)
    )
    assert (part.low, part.high) == pytest.approx((alone.low, alone.high))
    assert str(part).startswith("0.333 (95 % interval 0.3")


def test_of_counts_after_bounding_only_the_lower_end_is_about_the_log():
    of = replace(make_counts([1250], 20.0), meaning="at least", of="user-days")
    estimate = total(of, np.ones(1, bool))
    assert (estimate.low, estimate.high) == (pytest.approx(1210.8, abs=0.01), math.inf)
    assert str(estimate) == "at least 1,211 user-days in the log, 95 % sure (1,250 counted)"
    assert (estimate.as_json()["high"], estimate.as_json()["meaning"]) == (None, "at least")


def test_a_sum_by_hand():
    of = make_counts([10, 20, 30], [3.0, 4.0, 12.0])
    estimate = total(of, np.array([True, True, False]))
    assert (estimate.value, estimate.stderr, estimate.rows) == (30, 5, 2)
    ends = (estimate.low, estimate.high)
    assert ends == pytest.approx((30 - 9.79982, 30 + 9.79982), abs=1e-4)
    assert str(estimate) == "30 (95 % interval 20.2 to 39.8)"
    assert total(of, np.zeros(3, bool)).high == 0
    assert total(make_counts([5], 100.0), np.ones(1, bool)).low == 0


def test_one_draw_of_geometric_noise_has_heavier_tails_than_a_normal_law():
    # The law is nearly Laplace of scale 1/sqrt(2): P(|Z| > q) = exp(-q sqrt 2).
    for confidence in (0.9, 0.95, 0.99):
        of = make_counts([1000], 1.0, excess=3.0)
        estimate = total(of, np.ones(1, bool), confidence=confidence)
        exact = 1 - math.exp(-(estimate.high - 1000) * math.sqrt(2))
        assert exact == pytest.approx(confidence, abs=0.01)


def test_fieller_by_hand():
    # a = 100, b = 200, independent, variance 100 each: roots of
    # (200^2 - q^2 100) r^2 - 2 * 100 * 200 r + (100^2 - q^2 100) = 0 with q^2 = 3.841459.
    both = make_counts([100, 200], 10.0)
    first, second = np.array([True, False]), np.array([False, True])
    share = ratio(both, first, both, second)
    lead, middle, last = 40_000 - 384.1459, -40_000, 10_000 - 384.1459
    root = math.sqrt(middle**2 - 4 * lead * last)
    assert share.value == 0.5
    assert share.low == pytest.approx((-middle - root) / (2 * lead), rel=1e-6)
    assert share.high == pytest.approx((-middle + root) / (2 * lead), rel=1e-6)


def test_a_ratio_without_an_upper_end_says_so():
    both = make_counts([100, 15, -3], 10.0)
    rows = np.eye(3, dtype=bool)
    open_end = ratio(both, rows[0], both, rows[1])
    assert open_end.high == math.inf
    assert open_end.low > 2
    below = ratio(both, rows[0], both, rows[2])
    assert (below.value, below.high) == (math.inf, math.inf)
    assert below.as_json()["high"] is None
    assert ratio(both, rows[2], both, rows[0]).low == 0
    with pytest.raises(UsageError, match="matches the divisor"):
        ratio(both, rows[0], both, np.zeros(3, bool))


def test_rows_in_both_sums_have_one_error():
    both = make_counts([300, 500], 10.0)
    part, whole = np.array([True, False]), np.array([True, True])
    same = ratio(both, whole, both, whole)
    assert (same.low, same.high) == pytest.approx((1, 1), abs=1e-6)
    share = ratio(both, part, both, whole)
    apart = ratio(both, part, make_counts([300, 500], 10.0, name="other"), whole)
    assert share.high - share.low < 0.9 * (apart.high - apart.low)


def test_ratios_are_covered():
    rng = np.random.default_rng(7)
    part, whole = np.arange(20) < 8, np.ones(20, bool)
    true = np.linspace(5, 60, 20)
    hits = 0
    for _ in range(400):
        of = make_counts(true + rng.normal(0, 12, 20), 12.0)
        share = ratio(of, part, of, whole)
        hits += share.low <= true[part].sum() / true.sum() <= share.high
    assert 0.92 < hits / 400 < 0.98


def test_rows_are_chosen_by_pattern_text_column_mask_or_expression():
    table = pa.table(
        {
            "query": ["fear of spiders", "fear of 100%", "fear", "a_b", "axb"],
            "url": ["a.com", "b.com", "a.com", "c.com", "c.com"],
            "users": [5, 4, 3, 2, 1],
        }
    )

    def match(where):
        return match_rows(table, where).nonzero()[0].tolist()

    assert match(None) == [0, 1, 2, 3, 4]
    assert match("fear of *") == [0, 1]
    assert match("*%") == [1]
    assert match("a_b") == [3]
    assert match("a?b") == [3, 4]
    assert match(["fear", "a_b"]) == [2, 3]
    assert match({"query": "fear*", "url": ["a.com"]}) == [0, 2]
    assert match(pc.field("users") > 3) == [0, 1]
    assert match(pa.array([True, False, False, False, True])) == [0, 4]
    lists = pa.table({"queries": [["fear", "b"], ["c"], ["d", "fear"]]})
    assert match_rows(lists, "fe*").tolist() == [True, False, True]
    with pytest.raises(UsageError, match="no key column 'users': use query, url"):
        match({"users": "5"})
    with pytest.raises(UsageError, match="for each of 5 rows"):
        match(pa.array([True]))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("estimates")
    topics = ("fear of spiders", "fear of heights", "fear", "weather")
    rows = [
        f"u{i}\t2026-01-01 00:00:0{j}\t{topic}\tx.org"
        for i in range(400)
        for j, topic in enumerate(topics)
    ]
    (folder / "log.tsv").write_text("\n".join(["user\ttime\tquery\turl", *rows]) + "\n")
    murmurlog.release(
        str(folder / "log.tsv"), out=folder / "bundle", tables=["query", "click"], epsilon=4,
        per_user=4, mechanism="threshold", entropy=SeededEntropy(3),
    )  # fmt: skip
    return load(folder / "bundle")


def test_a_release_adds_up_and_divides(bundle):
    estimate = bundle.total("query", "fear of *", confidence=1 - 1e-10)
    assert estimate.rows == 2
    assert estimate.low <= 800 <= estimate.high
    share = bundle.ratio("query", "fear of *", "query", "fear*", confidence=1 - 1e-10)
    assert share.low <= 2 / 3 <= share.high
    clicked = bundle.ratio("click", {"url": "x.org"}, "query", confidence=1 - 1e-10)
    assert clicked.low <= 1 <= clicked.high
    with pytest.raises(UsageError, match="no table 'pair' here: use query, click"):
        bundle.total("pair")
    with pytest.raises(UsageError, match="between 0 and 1"):
        bundle.total("query", confidence=95)


def test_keys_without_counts_cannot_be_added_up():
    with pytest.raises(UsageError, match="query has no counts"):
        counts("query", pa.table({"query": ["a"]}), claim())


def test_the_command_prints_value_and_interval(bundle, monkeypatch, capsys):
    def run(*more):
        monkeypatch.setattr(sys, "argv", ["murmurlog", "estimate", str(bundle.path), *more])
        with pytest.raises(SystemExit) as left:
            entry.main()
        return left.value.code, *capsys.readouterr()

    code, out, err = run("--match", "fear of *", "--over", "fear*")
    assert code == 0
    assert out == f"{bundle.ratio('query', 'fear of *', 'query', 'fear*')}\n"
    assert "published rows in it: 2; about the users and items that were counted" in err
    code, out, err = run("--table", "click", "--column", "url", "--match", "nothing", "--json")
    assert (code, json.loads(out)["value"]) == (0, 0)
    assert "nothing published is not nothing asked" in err
    code, _, err = run("--over-table", "click")
    assert (code, "give --over, too" in err) == (2, True)
