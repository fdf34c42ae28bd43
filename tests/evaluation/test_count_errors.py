"""Measures of counts: by hand, against SciPy, and at their ends."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance

from murmurlog.evaluation import count_errors as measures
from murmurlog.evaluation.count_errors import NOTHING, shares

DISTANCES = (
    measures.average_l1,
    measures.total_variation,
    measures.root_mean_square,
    measures.divergence,
)


def floats(*values):
    return np.array(values, float)


def flags(*values):
    return np.array(values, bool)


def test_coverage_and_volume_by_hand():
    published = flags(1, 0, 1, 0)
    assert measures.coverage(published) == 0.5
    assert measures.volume(floats(4, 3, 2, 1), published) == 0.6


def test_nothing_is_a_share_of_nothing():
    assert measures.coverage(flags()) == 0
    assert measures.volume(NOTHING, flags()) == 0


def test_the_top_items_are_the_largest_and_ties_keep_their_order():
    assert measures.top(floats(1, 3, 2, 3), 3).tolist() == [1, 3, 2]


def test_distances_by_hand():
    """p = (0.5, 0.3, 0.2), q = (0.25, 0, 0.75): differences 0.25, 0.3, 0.55."""
    s = shares(floats(5, 3, 2), floats(1, 0, 3))
    assert measures.average_l1(s) == pytest.approx(1.1 / 3)
    assert measures.total_variation(s) == pytest.approx(0.55)
    assert measures.root_mean_square(s) == pytest.approx(math.sqrt(0.455 / 3))
    by_hand = (
        0.5 * math.log(0.5 / (0.99 * 0.25 + 0.01 * 0.5))
        + 0.3 * math.log(0.3 / (0.01 * 0.3))
        + 0.2 * math.log(0.2 / (0.99 * 0.75 + 0.01 * 0.2))
    )
    assert measures.divergence(s) == pytest.approx(by_hand)


def test_distances_are_those_of_scipy():
    rng = np.random.default_rng(1)
    for _ in range(20):
        true, counts = rng.integers(1, 50, 30), rng.integers(0, 50, 30)
        p, q = true / true.sum(), counts / counts.sum()
        s = shares(true.astype(float), counts.astype(float))
        assert measures.average_l1(s) == pytest.approx(distance.cityblock(p, q) / 30)
        assert measures.total_variation(s) == pytest.approx(distance.cityblock(p, q) / 2)
        rms = distance.euclidean(p, q) / math.sqrt(30)
        assert measures.root_mean_square(s) == pytest.approx(rms)
        assert measures.divergence(s) == pytest.approx(stats.entropy(p, 0.99 * q + 0.01 * p))
        close = measures.divergence(s, skew=1e-12)
        if (counts > 0).all():
            assert close == pytest.approx(stats.entropy(p, q))


def test_the_same_counts_have_no_distance_at_all():
    rng = np.random.default_rng(2)
    for size in (1, 7, 1000):
        true = rng.integers(1, 10**6, size).astype(float)
        s = shares(true, true.copy())
        assert [measure(s) for measure in DISTANCES] == [0, 0, 0, 0]
        assert measures.scaled_differences(true, true.copy(), NOTHING) == (0, 0)
        assert measures.largest_gap(true, true.copy()) == 0
        assert not measures.difference_ratios(true, true.copy()).any()


def test_a_multiple_of_the_counts_has_the_same_shares():
    s = shares(floats(5, 3, 2), floats(10, 6, 4))
    assert measures.total_variation(s) == 0


@pytest.mark.parametrize("false", [NOTHING, floats(7)])
def test_nothing_in_common_is_the_largest_distance(false):
    s = shares(floats(3, 1), floats(0, 0), false)
    assert measures.total_variation(s) == 1
    assert measures.average_l1(s) == 1  # 2/j
    assert measures.root_mean_square(s) == math.sqrt((0.75**2 + 0.25**2 + 1) / 2)
    assert measures.divergence(s) == pytest.approx(math.log(100))


def test_publishing_one_item_is_better_than_nothing():
    true = floats(4, 3, 2, 1)
    single, none = (shares(true, floats(x, 0, 0, 0)) for x in (4, 0))
    for measure in DISTANCES:
        assert measure(single) < measure(none)


def test_shares_of_the_whole_table_reward_silence():
    """A fifth of the volume, exactly kept, is further off than nothing: why shares are of the top j."""
    true = np.append(floats(10, 10), np.ones(80))
    counts = np.where(true == 10, true, 0)
    first = np.arange(2)
    literal = measures.average_l1_of_all(true, counts, NOTHING, first)
    assert literal == pytest.approx(0.4)  # 0.5 instead of 0.1, twice
    assert measures.average_l1_of_all(true, 0 * true, NOTHING, first) == pytest.approx(0.1)
    assert measures.average_l1(shares(true[:2], counts[:2])) == 0


def test_scaled_differences_by_hand():
    """Counts 3, 0, 2 become 6, 0, 4: differences 0, 3, 3 to 6, 3, 1."""
    average, root = measures.scaled_differences(floats(6, 3, 1), floats(3, 0, 2), NOTHING)
    assert average == pytest.approx(2)
    assert root == pytest.approx(math.sqrt(18 / 3))


def test_what_nobody_has_adds_to_scaled_differences():
    """Counts 3, 0 and a false 2 become 6, 0, 4: differences 0, 4 and 4, over two items."""
    average, root = measures.scaled_differences(floats(6, 4), floats(3, 0), floats(2))
    assert average == pytest.approx(4)
    assert root == pytest.approx(math.sqrt(32 / 2))


def test_distribution_of_counts_by_hand():
    starts = measures.doublings(9)
    assert starts.tolist() == [1, 2, 4, 8]
    counts = floats(-3, 0, 1, 1, 2, 3, 4, 9, 1000)
    assert measures.count_distribution(counts, starts).tolist() == [2, 2, 2, 1, 2]
    assert measures.doublings(8).tolist() == [1, 2, 4, 8]
    assert measures.doublings(0).tolist() == [1]


def test_the_gap_of_two_distributions_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = rng.integers(0, 9, 40).astype(float), rng.integers(0, 12, 25).astype(float)
        assert measures.largest_gap(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic)
    assert measures.largest_gap(floats(1, 2), floats(2, 3)) == 0.5
    assert measures.largest_gap(NOTHING, floats(1)) == 1


def test_inaccuracy_by_hand_and_the_slack_is_free():
    """tau 10, slack 2: 13 is very frequent, 12 and 8 are not judged, 7 is very infrequent."""
    true = floats(13, 12, 8, 7)
    none, every = flags(0, 0, 0, 0), flags(1, 1, 1, 1)
    assert measures.inaccuracy(true, none, tau=10, slack=2) == (1, 0)
    assert measures.inaccuracy(true, every, tau=10, slack=2) == (0, 1)
    assert measures.inaccuracy(true, flags(1, 0, 1, 0), tau=10, slack=2) == (0, 0)


def test_frequent_pairs_by_hand():
    """Of 10, a half: the first. Published 4, 4 of 8: both the first and the second."""
    true, counts = floats(5, 4, 1), floats(4, 4, 0)
    frequent = measures.frequent(true, counts, NOTHING, one_in=2)
    assert (frequent.precision, frequent.recall) == (0.5, 1)
    distances = measures.support_distances(true, counts, NOTHING, frequent.true)
    assert distances.tolist() == [0]
    with_false = measures.frequent(true, floats(0, 0, 0), floats(9), one_in=2)
    assert (with_false.precision, with_false.recall) == (0, 0)
    assert measures.support_distances(true, floats(1, 3, 0), floats(4), flags(1, 1, 0)) == (
        pytest.approx([0.375, 0.025])
    )


def test_support_is_compared_exactly():
    """3 of 30 is a tenth, although 0.1 * 30 is not 3 in floating point."""
    true = np.append(floats(3), np.full(9, 3.0))
    assert measures.frequent(true, true, NOTHING, one_in=10).true.all()


def test_precision_and_recall_of_nothing():
    true = floats(3, 1)
    nothing = measures.frequent(true, 0 * true, NOTHING, one_in=2)
    assert (nothing.precision, nothing.recall) == (0, 0)
    unasked = measures.frequent(floats(1, 1, 1), floats(0, 0, 0), NOTHING, one_in=2)
    assert (unasked.precision, unasked.recall) == (1, 1)


def test_difference_ratios_by_hand():
    """Supports 0.5, 0.25, 0.25 become 0.75, 0.25, 0."""
    ratios = measures.difference_ratios(floats(4, 2, 2), floats(3, 1, 0))
    assert ratios.tolist() == [0.5, 0, 1]


def test_the_histogram_of_ratios_is_the_mean_over_releases():
    published = flags(1, 1, 1, 0)
    first, second = floats(0, 0.3, 1.2, 1), floats(0.31, 0.3, 1, 1)
    histogram = measures.ratio_histogram([first, second], [published, published])
    #       0 to 10 %, to 20, 30, 40 %, ...,       100 %, more, missing
    assert histogram.tolist() == [0.5, 0, 1, 0.5, 0, 0, 0, 0, 0, 0.5, 0.5, 1]
    assert histogram.sum() == 4
    assert measures.ratio_histogram([], []).tolist() == [0] * 12


def test_the_upper_end_of_a_bin_belongs_to_it_whatever_the_rounding():
    tenths = 0.1 * np.arange(1, 11)  # the third is 0.30000000000000004
    histogram = measures.ratio_histogram([tenths], [np.ones(10, bool)])
    assert histogram.tolist() == [1] * 10 + [0, 0]


def test_as_many_users_are_drawn_as_there_are():
    samples = list(measures.resample_users(50, resamples=3))
    assert [times.sum() for times in samples] == [50, 50, 50]
    assert not np.array_equal(samples[0], samples[1])
    again = list(measures.resample_users(50, resamples=3))
    assert np.array_equal(samples, again)
