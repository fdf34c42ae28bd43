"""Sums and ratios of published counts, with intervals. Never sees a log.

Each published row has its own draw of noise, so the errors of different rows are independent given
which rows are published, and variances add up. Bias does not average out: a count that passed a
threshold is corrected for selection, but not perfectly, and the remaining bias has the same sign in
many rows. Rows near a threshold therefore widen the interval by a share of their standard error each,
rows that may have no users by their whole count.

An interval is about the sum over these rows of how many units in the log hold the item, if the certificate
says "users in the log". Then all rows of a table share one relative error, which does not average out in
a sum and cancels in a ratio within the table. If it says "at least", a unit counts with some of its
items only: a sum has a lower end and no upper one, and the interval of a ratio is about those counted. A unit
that holds two of the items counts twice. Rows must be chosen by their keys: to choose them by their counts is
to choose them by their noise.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtr, ndtri

from murmurlog.bundle.certificate import TableClaim
from murmurlog.bundle.schema import AT_LEAST, IN_LOG, LISTS, count_of
from murmurlog.errors import BundleError, MurmurlogError, UsageError
from murmurlog.privacy import noise_sd
from murmurlog.privacy.selection_bias import Selection

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.bool_]
# None: all rows; a pattern or texts for the first key column; patterns or texts by column; or an Arrow
# mask or expression.
Texts = str | Iterable[str]
Where: TypeAlias = Texts | Mapping[str, Texts] | pa.Array | pc.Expression | None

CONFIDENCE = 0.95  # of every interval, unless the caller states another
STEEPEST = 2.5  # the number of items with n users falls at most as n^-2.5; in web logs about n^-2
NEAR_SD = 3.0  # standard errors above its threshold up to which a row is biased
SHAPE_SD = 24.0  # noise with a larger standard deviation has the same relative bias as this
EXCESS = {"geometric": 3.0}  # excess kurtosis of one draw


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate derived from published counts: its value, an interval and a standard error."""

    value: float
    low: float
    high: float
    stderr: float
    confidence: float = CONFIDENCE
    rows: int  # how many published rows are in it
    meaning: str | None = None  # of the counts; None in bundles before version 0.2: at least
    of: str = ""  # what a sum is of, such as users; empty for a ratio

    def __str__(self) -> str:
        return describe_count(
            _short(self.value),
            _short(self.low),
            _short(self.high),
            of=self.of,
            meaning=self.meaning if self.of else None,
            rows=self.rows,
            confidence=self.confidence,
        )

    def as_json(self) -> dict[str, Any]:
        """Its numbers; null where one is not finite."""
        return {
            n: None if isinstance(v, float) and not math.isfinite(v) else v
            for n, v in vars(self).items()
        }


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The noisy counts of a table, with bounds on their errors."""

    name: str
    values: Floats
    stderr: Floats  # of each row by itself
    too_high: Floats  # bound on the upward bias of a row
    too_low: Floats  # bound on its downward bias
    excess: float
    common: float = 0.0  # a relative error that all rows share
    meaning: str | None = None
    of: str = ""  # what is counted, such as users

    @property
    def errors(self) -> Floats:
        """The standard error of each row, with the error that all rows share."""
        shared = self.common * np.maximum(self.values, 1.0)
        return np.sqrt(self.stderr**2 + shared**2)


def counts(name: str, table: pa.Table, claim: TableClaim) -> Counts:
    """The noisy counts of a table, with bounds on their errors."""
    try:
        return _counts(name, table, claim)
    except MurmurlogError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        # The parameters may be forged; only `verify` checks them against the mechanism.
        raise BundleError(
            f"privacy.json states parameters of {name} that do not allow a computation "
            f"({type(error).__name__})"
        ) from None


def _counts(name: str, table: pa.Table, claim: TableClaim) -> Counts:
    count = count_of(table)
    if count is None:
        raise UsageError(f"the table {name} has no counts: there is nothing to add up")
    values = table[count].to_numpy().astype(np.float64)
    stderr = table[f"{count}_stderr"].to_numpy().astype(np.float64)
    too_high, too_low = np.zeros(len(values)), np.zeros(len(values))
    noise, scale = claim.parameters.get("noise"), claim.parameters.get("scale")
    for T in _thresholds(claim, values):
        high, low = selection_bias_bounds(
            str(noise), float(scale or 1.0), T, claim.guarantee.notion != "pdp"
        )
        near = values <= T + NEAR_SD * stderr
        too_high = np.where(near, np.maximum(too_high, high * stderr), too_high)
        too_low = np.where(near, np.maximum(too_low, low * stderr), too_low)
    if "expected_fakes" in claim.parameters:
        too_high = np.where(stderr >= values, np.maximum(too_high, values), too_high)
    common = float((claim.counting or {}).get("common_error", 0.0))
    shared = common * np.maximum(values, 1.0)
    return Counts(
        name=name,
        values=values,
        stderr=np.sqrt(np.maximum(stderr**2 - shared**2, 0.0)),
        too_high=np.minimum(too_high, np.maximum(values, 0.0)),  # true counts are not negative
        too_low=too_low,
        excess=EXCESS.get(str(noise), 0.0),
        common=common,
        meaning=claim.meaning,
        of=f"{claim.guarantee.unit}s" if count == "users" else count,
    )


def _thresholds(claim: TableClaim, values: Floats) -> list[int]:
    """The thresholds that the noisy counts themselves passed; none for fresh counts."""
    parameters = claim.parameters
    if parameters.get("noise") is None or "count_scale" in parameters or not len(values):
        return []
    stated = (parameters.get(name) for name in ("threshold", "pool_threshold"))
    thresholds = [int(threshold) for threshold in stated if threshold is not None]
    if not thresholds and "expected_fakes" in parameters:  # it follows from other tables
        return [int(values.min())]
    return thresholds


@lru_cache(maxsize=64)
def selection_bias_bounds(
    noise: str, scale: float, T: int, corrected: bool = True
) -> tuple[float, float]:
    """Bounds on the upward and downward bias of counts near T, in standard errors.

    Exact sums over the law of the noise, for the worst of these populations: all items have the same
    true count, from T to two standard deviations above; the number of items with n users is constant
    in n; or it falls as n^-2.5, so that most items are below T and pass by chance.
    """
    factor = max(1.0, noise_sd(noise=noise, scale=scale) / SHAPE_SD)
    scale, T = scale / factor, max(2, round(T / factor))
    sd = noise_sd(noise=noise, scale=scale)
    # Items with far fewer users than T pass with probability 0 in floating point.
    n = np.arange(max(1, T - int(130 * sd) - 2), T + int(8 * sd) + 2)
    noisy = np.arange(T, n[-1] + int(20 * scale) + 20)
    distance = np.abs(noisy[None, :] - n[:, None])
    if noise == "gaussian":
        mass = ndtr((0.5 - distance) / scale) - ndtr((-0.5 - distance) / scale)
    else:
        mass = np.tanh(0.5 / scale) * np.exp(-distance / scale)
    values, stderr = noisy.astype(np.float64), np.full(len(noisy), sd)
    if corrected:
        estimates = Selection(noise, scale, T).estimates(noisy)
        values = estimates.users.astype(np.float64)
        stderr = np.asarray(estimates.stderr, np.float64)
    near = values <= T + NEAR_SD * stderr
    too_high = mass @ values - mass.sum(axis=1) * n  # mean error times the probability to pass
    errors = mass[:, near] @ stderr[near]
    equal_counts = np.flatnonzero((n >= T) & (n <= T + 2 * sd))
    with np.errstate(all="ignore"):  # a forged scale may mean no noise at all
        biases = [too_high[equal_counts] / errors[equal_counts]]
        for steepness in (0.0, STEEPEST):
            items = n.astype(np.float64) ** -steepness
            biases.append(np.array([items @ too_high / (items @ errors)]))
    bias = np.concatenate(biases)
    return max(0.0, float(bias.max())), max(0.0, float(-bias.min()))


def match_rows(table: pa.Table, where: Where) -> Rows:
    """The rows that match `where`.

    In a pattern `*` matches any text and `?` any one character; keys are normalised, so write it in
    lower case. A list of queries matches if one of them does.
    """
    if where is None:
        return np.ones(table.num_rows, bool)
    if isinstance(where, pc.Expression):
        row = table.append_column("murmurlog row", pa.array(np.arange(table.num_rows)))
        mask = np.zeros(table.num_rows, bool)
        mask[row.filter(where)["murmurlog row"].to_numpy()] = True
        return mask
    if isinstance(where, pa.Array | pa.ChunkedArray | np.ndarray):
        mask = np.asarray(where)
        if mask.dtype != bool or mask.shape != (table.num_rows,):
            raise UsageError(f"a mask needs a true or false for each of {table.num_rows} rows")
        return mask
    patterns = where if isinstance(where, Mapping) else {table.column_names[0]: where}
    mask = np.ones(table.num_rows, bool)
    for column, texts in patterns.items():
        mask &= _match_column(table, column, texts)
    return mask


def _match_column(table: pa.Table, column: str, texts: Texts) -> Rows:
    keys = [f.name for f in table.schema if pa.types.is_string(f.type) or f.name in LISTS]
    if column not in keys:
        raise UsageError(f"there is no key column {column!r}: use {', '.join(keys)}")
    text, row = table[column].combine_chunks(), np.arange(table.num_rows)
    if column in LISTS:
        row, text = pc.list_parent_indices(text).to_numpy(), text.flatten()
    if isinstance(texts, str):
        for sign in "\\%_":
            texts = texts.replace(sign, "\\" + sign)
        hit = pc.match_like(text, texts.replace("*", "%").replace("?", "_"))
    else:
        hit = pc.is_in(text, value_set=pa.array(list(texts), pa.string()))
    mask = np.zeros(table.num_rows, bool)
    mask[row[hit.to_numpy(zero_copy_only=False)]] = True
    return mask


def total(counts: Counts, rows: Rows, *, confidence: float = CONFIDENCE) -> Estimate:
    """The sum of the counts of these rows. A sum of true counts is never negative.

    It has no upper end if the log may have any number of units more than were counted.
    """
    value = float(counts.values[rows].sum())
    variance = _squares(counts, rows) + (counts.common * value) ** 2
    spread = quantile(confidence, _excess(counts, rows)) * math.sqrt(variance)
    high = max(0.0, value + spread + float(counts.too_low[rows].sum()))
    return Estimate(
        value=value,
        low=max(0.0, value - spread - float(counts.too_high[rows].sum())),
        high=math.inf if counts.meaning == AT_LEAST else high,
        stderr=math.sqrt(variance),
        confidence=confidence,
        rows=int(rows.sum()),
        meaning=counts.meaning,
        of=counts.of,
    )


def published_intervals(
    name: str, table: pa.Table, claim: TableClaim
) -> tuple[Floats, Floats] | None:
    """The ends of the 95 % interval of every row; None where the table has no noisy counts.

    Every page, file and chart that has intervals takes them from here. The upper end is infinite where
    the log may have any number of units more than were counted.
    """
    count = count_of(table)
    if count is None or claim.count is None or f"{count}_stderr" not in table.column_names:
        return None
    if f"{count}_low" in table.column_names:
        low = table[f"{count}_low"].to_numpy().astype(np.float64)
        high = pc.fill_null(table[f"{count}_high"].cast(pa.float64()), math.inf).to_numpy()
        return low, high
    return row_intervals(counts(name, table, claim))


def describe_interval(low: str, high: str | None, confidence: float = CONFIDENCE) -> str:
    """An interval in words, the same on every page; without an upper end if `high` is None."""
    if high is None:
        return f"at least {low}, {100 * confidence:g} % sure"
    return f"{100 * confidence:g} % interval {low} to {high}"


def describe_count(
    value: str,
    low: str,
    high: str,
    *,
    of: str,
    meaning: str | None,
    rows: int = 1,
    confidence: float = CONFIDENCE,
) -> str:
    """A count in words: how many units of the log it is about, and how sure that is.

    Counts of bundles before version 0.2 have no meaning: they are of units after bounding.
    """
    units = f" {of} in the log" + (f", added up over {rows:,} rows" if rows > 1 else "")
    if meaning == AT_LEAST:
        return f"at least {low}{units}, {100 * confidence:g} % sure ({value} counted)"
    units = units if meaning == IN_LOG else ""
    return f"{value}{units} ({describe_interval(low, high, confidence)})"


def row_intervals(counts: Counts, *, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """The ends of the interval of every row: the `total` of that row alone."""
    spread = quantile(confidence, counts.excess) * counts.errors
    low: Floats = np.maximum(0.0, counts.values - spread - counts.too_high)
    high: Floats = np.maximum(0.0, counts.values + spread + counts.too_low)
    return low, high


def ratio(
    counts: Counts, rows: Rows, over: Counts, over_rows: Rows, *, confidence: float = CONFIDENCE
) -> Estimate:
    """The sum of some counts over that of others, with Fieller's interval.

    The interval holds every r for which 0 is within the errors of (sum - r times the other sum). Rows
    in both sums have one error, not two. Where the divisor does not differ significantly from 0 the
    interval has no upper end: `high` is infinite, and so is `value` if the divisor is not positive.
    """
    if not over_rows.any():
        raise UsageError("no published row matches the divisor: widen the pattern")
    a, b = float(counts.values[rows].sum()), float(over.values[over_rows].sum())
    va, vb = _squares(counts, rows), _squares(over, over_rows)
    if counts.name == over.name:
        c = _squares(counts, rows & over_rows)
    else:  # within one table the common error cancels
        c, va, vb = 0.0, va + (counts.common * a) ** 2, vb + (over.common * b) ** 2
    q = quantile(confidence, max(_excess(counts, rows), _excess(over, over_rows)))
    least, most = a - float(counts.too_high[rows].sum()), a + float(counts.too_low[rows].sum())
    under_most = b + float(over.too_low[over_rows].sum())
    under_least = b - float(over.too_high[over_rows].sum())
    low = 0.0
    if least > q * math.sqrt(va):
        low = min((r for r in _roots(least, under_most, va, vb, c, q) if r > 0), default=0.0)
    high = math.inf
    if under_least > q * math.sqrt(vb):
        high = max(0.0, *_roots(most, under_least, va, vb, c, q))
    value = a / b if b > 0 else math.inf
    error = math.sqrt(max(0.0, va - 2 * value * c + value**2 * vb)) / b if b > 0 else math.inf
    return Estimate(
        value=value,
        low=low,
        high=high,
        stderr=error,
        confidence=confidence,
        rows=int(rows.sum()),
        meaning=counts.meaning,
    )


def _roots(a: float, b: float, va: float, vb: float, c: float, q: float) -> list[float]:
    """The r with (a - r b)^2 = q^2 (va - 2 r c + r^2 vb)."""
    roots = np.roots([b * b - q * q * vb, -2 * (a * b - q * q * c), a * a - q * q * va])
    return [float(r.real) for r in roots if abs(r.imag) <= 1e-9 * max(1.0, abs(r))] or [0.0]


def _squares(counts: Counts, rows: Rows) -> float:
    return float((counts.stderr[rows] ** 2).sum())


def _excess(counts: Counts, rows: Rows) -> float:
    """The excess kurtosis of the sum."""
    squares = _squares(counts, rows)
    if squares == 0:
        return 0.0
    return counts.excess * float((counts.stderr[rows] ** 4).sum()) / squares**2


def quantile(confidence: float, excess: float) -> float:
    """The half-width of an interval in standard errors, by the Cornish-Fisher expansion."""
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence must lie between 0 and 1, not {confidence!r}")
    z = float(ndtri((1 + confidence) / 2))
    return z + (z**3 - 3 * z) * excess / 24


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
