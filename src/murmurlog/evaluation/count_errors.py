"""How far a table of counts is from the true one: the papers' statistics, on plain arrays.

ZEALOUS, sections 2.3.1, 6 and 7.1; Hong et al., section 6. `true` holds the count of every item of
the log; `counts` the published count at the same place, never below 0, and 0 where nothing was
published; `published` marks where something was; `false` holds the published counts of items that
nobody has. Every measure has a value for an empty release and for an empty log. Two equal tables have
exactly the perfect value: 0 of a distance, 1 of a share. Knows no text, no log and no bundle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SKEW = 0.01  # weight of the truth in the mixture that keeps the KL divergence finite
SEED = 20060804  # of the resampling; nothing published depends on it
NOTHING: Floats = np.empty(0)


def share(part: float, whole: float) -> float:
    """part / whole; 0 of nothing."""
    return float(part / whole) if whole else 0.0


def coverage(published: Flags) -> float:
    """The share of these items that are published at all: of all items, or of the top j."""
    return share(int(published.sum()), len(published))


def volume(true: Floats, published: Flags) -> float:
    """The share of the true counts that belongs to published items."""
    return share(float(true[published].sum()), float(true.sum()))


def top(true: Floats, j: int) -> Ints:
    """The places of the j items with the largest true counts, ties in their order."""
    return np.argsort(-true, kind="stable")[:j]


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Relative frequencies of the same items, true and published, each adding up to 1.

    After the items come entries for what is published and nobody has. An empty release has all of its
    mass there.
    """

    p: Floats  # true
    q: Floats  # published
    items: int  # how many of the entries are items of the log


def shares(true: Floats, counts: Floats, false: Floats = NOTHING) -> Shares:
    """The relative frequencies among these items: of the whole table, or of its top j."""
    outside = np.append(false, 0.0 if counts.any() or false.any() else 1.0)
    p = np.concatenate([true, np.zeros(len(outside))])
    q = np.concatenate([counts, outside])
    return Shares(p=p / (p.sum() or 1.0), q=q / q.sum(), items=len(true))


def average_l1(s: Shares) -> float:
    """(1/j) sum |p - q| (ZEALOUS 6.2), from 0 to 2/j."""
    return share(float(np.abs(s.p - s.q).sum()), s.items)


def total_variation(s: Shares) -> float:
    """(1/2) sum |p - q| (ZEALOUS 7.1): from 0, the same, to 1, nothing in common."""
    return min(float(np.abs(s.p - s.q).sum() / 2), 1.0)  # rounding may exceed 1


def root_mean_square(s: Shares) -> float:
    """sqrt((1/j) sum (p - q)^2) (ZEALOUS 7.1)."""
    return float(np.sqrt(share(float(((s.p - s.q) ** 2).sum()), s.items)))


def divergence(s: Shares, *, skew: float = SKEW) -> float:
    """sum p ln(p / r), r = (1 - skew) q + skew p, in nats: KL, finite where items are missing.

    The paper (ZEALOUS 6.2) does not say what it did about items without a published count, where
    KL is infinite. This is Lee's skew divergence (1999): 0 for the same, ln(1/skew) for nothing
    in common, and the truth is not changed by what makes it finite.
    """
    in_log = s.p > 0
    p, q = s.p[in_log], s.q[in_log]
    # Through q/p, so that it is exactly 0 where p = q.
    return float(-(p * np.log1p((1 - skew) * (q / p - 1))).sum()) + 0.0


def average_l1_of_all(true: Floats, counts: Floats, false: Floats, chosen: Ints) -> float:
    """The average L1 distance at chosen items of shares of the whole tables: ZEALOUS 6.2, literally.

    It rewards silence: a release that keeps a fifth of the volume exactly has five times the right
    share for each of its items, and one that publishes nothing is nearer.
    """
    return share(float(support_distances(true, counts, false, chosen).sum()), len(chosen))


def scaled_differences(true: Floats, counts: Floats, false: Floats) -> tuple[float, float]:
    """Average and root mean square of the differences of counts, scaled to the same total.

    ZEALOUS 7.1, Figure 5: published counts are multiplied by a common factor so that they add up to
    what the true ones do, and differences are averaged over all items of the log. What is published
    and nobody has adds to the differences.
    """
    s, total = shares(true, counts, false), float(true.sum())
    return total * average_l1(s), total * root_mean_square(s)


def doublings(largest: float) -> Ints:
    """1, 2, 4, ... up to the last power of two that is no larger: where groups of counts begin."""
    return 2 ** np.arange(int(max(largest, 1)).bit_length(), dtype=np.int64)


def count_distribution(counts: Floats, starts: Ints) -> Ints:
    """How many counts are below the first start, and from each start to the next (ZEALOUS Figure 4)."""
    place = np.searchsorted(starts, counts, side="right")
    return np.bincount(place, minlength=len(starts) + 1)


def largest_gap(counts: Floats, others: Floats) -> float:
    """The largest difference of two cumulative distributions of counts (Kolmogorov-Smirnov).

    0 for the same shape, 1 for nothing in common or if one of them is empty.
    """
    if not len(counts) or not len(others):
        return 1.0
    a, b = np.sort(counts), np.sort(others)
    points = np.concatenate([a, b])
    below = [np.searchsorted(values, points, side="right") / len(values) for values in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


def inaccuracy(true: Floats, reported: Flags, *, tau: float, slack: float) -> tuple[int, int]:
    """Very frequent items that are not reported as frequent, and very infrequent ones that are.

    ZEALOUS, Definition 5: #{f > tau + slack, not in the output} and #{f < tau - slack, in the
    output}; their sum is the inaccuracy. Items within the slack do not count.
    """
    missed = (true > tau + slack) & ~reported
    wrong = (true < tau - slack) & reported
    return int(missed.sum()), int(wrong.sum())


@dataclass(frozen=True, kw_only=True)
class Frequent:
    """Which items reach a support in the log and in the release (Hong 6.3)."""

    true: Flags  # S0
    published: Flags  # S, of items of the log
    false: int  # S, of items that nobody has

    @property
    def precision(self) -> float:
        """|S0 and S| / |S|; of an empty S it is 0, unless S0 is empty too."""
        size = int(self.published.sum()) + self.false
        if not size:
            return float(not self.true.any())
        return int((self.true & self.published).sum()) / size

    @property
    def recall(self) -> float:
        """|S0 and S| / |S0|; 1 where there is nothing to find."""
        wanted = int(self.true.sum())
        return int((self.true & self.published).sum()) / wanted if wanted else 1.0


def frequent(true: Floats, counts: Floats, false: Floats, *, one_in: int) -> Frequent:
    """The items with a support of 1/one_in of all counts or more, in the log and in the release."""
    whole = float(counts.sum() + false.sum())
    return Frequent(
        true=(true > 0) & (true * one_in >= true.sum()),
        published=(counts > 0) & (counts * one_in >= whole),
        false=int(((false > 0) & (false * one_in >= whole)).sum()),
    )


def support_distances(true: Floats, counts: Floats, false: Floats, chosen: Flags | Ints) -> Floats:
    """|x/|O| - c/|D|| of chosen items (Hong 5.2, 6.3); reports give their sum and mean."""
    p = true[chosen] / (true.sum() or 1.0)
    q = counts[chosen] / ((counts.sum() + false.sum()) or 1.0)
    return np.asarray(np.abs(p - q))


def difference_ratios(true: Floats, counts: Floats, false: Floats = NOTHING) -> Floats:
    """|x/|O| - c/|D|| / (c/|D|) for every item (Hong, equation 9); 1 where nothing is published."""
    chosen = np.ones(len(true), bool)
    return np.asarray(support_distances(true, counts, false, chosen) / (true / (true.sum() or 1.0)))


def ratio_histogram(
    ratios: Sequence[Floats], published: Sequence[Flags], *, bins: int = 10
) -> Floats:
    """How many items have a difference ratio of 0 to 10 %, ... 90 to 100 %, more; how many are missing.

    The average over releases (Hong 6.5 takes ten). The upper end of a bin belongs to it. What is
    not published has a ratio of 100 % and an entry of its own, the last.
    """
    histograms = np.zeros((len(ratios), bins + 2))
    for row, ratio, flags in zip(histograms, ratios, published, strict=True):
        # Tenths are not exact in floating point: a ratio of 3/10 belongs to the third.
        place = np.ceil(np.round(ratio[flags] * bins, 9)).astype(np.int64) - 1
        row[:-1] = np.bincount(np.clip(place, 0, bins), minlength=bins + 1)
        row[-1] = len(flags) - int(flags.sum())
    means: Floats = histograms.mean(axis=0) if len(histograms) else np.zeros(bins + 2)
    return means


def resample_users(users: int, *, resamples: int) -> Iterator[Floats]:
    """Bootstrap samples of the users: how often each user is in a sample of the same size."""
    rng = np.random.default_rng(SEED)
    for _ in range(resamples):
        yield np.bincount(rng.integers(0, users, users), minlength=users).astype(np.float64)
