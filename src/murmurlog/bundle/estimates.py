"""Sums and ratios of published counts, with intervals. Never sees a log.

Each published row has a draw of its own, so the errors of different rows are independent given
which rows are published, and variances add up. What does not shrink is bias: a count that passed a
threshold is corrected for it, but not perfectly, and what is left has the same sign in many rows.
Rows near a threshold therefore widen the interval by a share of their standard error each, rows
that may be nobody's by their whole count.

What an interval is about: the sum over these rows of how many units hold the item *after bounding*,
where a unit counts for its first few items only. It says nothing about what bounding took away,
nothing about items that are not published, and a unit that holds two of the items counts twice.
Rows must be chosen by their keys. To choose them by their counts is to choose them by their noise.
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
from murmurlog.bundle.consistency import noisy_table
from murmurlog.bundle.schema import LISTS, count_of
from murmurlog.errors import BundleError, MurmurlogError, UsageError
from murmurlog.privacy import noise_sd
from murmurlog.privacy.selection_bias import Selection

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.bool_]
# None: all rows; a pattern or texts for the first key column; patterns or texts by column; or a
# mask or an expression of Arrow.
Texts = str | Iterable[str]
Where: TypeAlias = Texts | Mapping[str, Texts] | pa.Array | pc.Expression | None

STEEPEST = 2.5  # items of n users are at worst as many as n^-2.5; queries of web logs: about n^-2
NEAR_SD = 3.0  # how far above its threshold a row still leans
SHAPE_SD = 24.0  # larger noise leans as noise of this size does
EXCESS = {"geometric": 3.0}  # kurtosis of one draw beyond that of a normal law


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number that was not published as such: its value, an interval and a standard error."""

    value: float
    low: float
    high: float
    stderr: float
    confidence: float
    rows: int  # how many published rows are in it

    def __str__(self) -> str:
        sure = f"{100 * self.confidence:g} %"
        return f"{_short(self.value)} ({sure}: {_short(self.low)} to {_short(self.high)})"

    def as_json(self) -> dict[str, Any]:
        """Its numbers; null where one is not finite."""
        return {n: v if math.isfinite(v) else None for n, v in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of a table as they were drawn, with what is known of their errors."""

    name: str
    values: Floats
    stderr: Floats
    too_high: Floats  # how much too high a row is on average, at most
    too_low: Floats
    excess: float


def counts(name: str, table: pa.Table, claim: TableClaim) -> Counts:
    """The counts of a table. Where they were made consistent, the drawn ones.

    Those have a known law and no error in common. Consistent ones lean on each other, and what a
    sum of them gains or loses by it cannot be told from the table.
    """
    try:
        return _counts(name, table, claim)
    except MurmurlogError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        # The parameters are as somebody wrote them; only `verify` holds them against the mechanism.
        raise BundleError(
            f"privacy.json gives parameters of {name} that cannot be computed with "
            f"({type(error).__name__})"
        ) from None


def _counts(name: str, table: pa.Table, claim: TableClaim) -> Counts:
    table = noisy_table(table)
    counted = count_of(table)
    if counted is None:
        raise UsageError(f"the table {name} has no counts: there is nothing to add up")
    values = table[counted].to_numpy().astype(np.float64)
    stderr = table[f"{counted}_stderr"].to_numpy().astype(np.float64)
    too_high, too_low = np.zeros(len(values)), np.zeros(len(values))
    noise, scale = claim.parameters.get("noise"), claim.parameters.get("scale")
    for T in _thresholds(claim, values):
        high, low = selection_lean(
            str(noise), float(scale or 1.0), T, claim.guarantee.notion != "pdp"
        )
        near = values <= T + NEAR_SD * stderr
        too_high = np.where(near, np.maximum(too_high, high * stderr), too_high)
        too_low = np.where(near, np.maximum(too_low, low * stderr), too_low)
    if "expected_fakes" in claim.parameters:
        too_high = np.where(stderr >= values, np.maximum(too_high, values), too_high)
    return Counts(
        name=name,
        values=values,
        stderr=stderr,
        too_high=np.minimum(too_high, np.maximum(values, 0.0)),  # nobody is the least there is
        too_low=too_low,
        excess=EXCESS.get(str(noise), 0.0),
    )


def _thresholds(claim: TableClaim, values: Floats) -> list[int]:
    """The thresholds that noisy counts themselves had to pass; fresh counts have passed none."""
    given = claim.parameters
    if given.get("noise") is None or "count_scale" in given or not len(values):
        return []
    found = [int(given[n]) for n in ("threshold", "pool_threshold") if given.get(n) is not None]
    if not found and "expected_fakes" in given:  # it follows from other tables
        return [int(values.min())]
    return found


@lru_cache(maxsize=64)
def selection_lean(noise: str, scale: float, T: int, corrected: bool = True) -> tuple[float, float]:
    """How much too high and too low counts near T are on average, at most, in standard errors.

    Exact sums over the law of the noise, for the worst of these populations: all items have the same
    true count, T or up to two standard deviations more; items of n users are equally many for every
    n; or as many as n^-2.5, most of which are below T and pass by luck.
    """
    stretch = max(1.0, noise_sd(noise=noise, scale=scale) / SHAPE_SD)
    scale, T = scale / stretch, max(2, round(T / stretch))
    sd = noise_sd(noise=noise, scale=scale)
    # Items of far fewer users than T pass with chances that are 0 in floating point.
    n = np.arange(max(1, T - int(130 * sd) - 2), T + int(8 * sd) + 2)
    noisy = np.arange(T, n[-1] + int(20 * scale) + 20)
    away = np.abs(noisy[None, :] - n[:, None])
    if noise == "gaussian":
        mass = ndtr((0.5 - away) / scale) - ndtr((-0.5 - away) / scale)
    else:
        mass = np.tanh(0.5 / scale) * np.exp(-away / scale)
    values, stderr = noisy.astype(np.float64), np.full(len(noisy), sd)
    if corrected:
        made = Selection(noise, scale, T).estimates(noisy)
        values, stderr = made.users.astype(np.float64), np.asarray(made.stderr, np.float64)
    near = values <= T + NEAR_SD * stderr
    too_high = mass @ values - mass.sum(axis=1) * n  # on average, and times the chance to pass
    errors = mass[:, near] @ stderr[near]
    alike = np.flatnonzero((n >= T) & (n <= T + 2 * sd))
    with np.errstate(all="ignore"):  # noise of a forged scale may be none at all
        each = [too_high[alike] / errors[alike]]
        for steepness in (0.0, STEEPEST):
            items = n.astype(np.float64) ** -steepness
            each.append(np.array([items @ too_high / (items @ errors)]))
    found = np.concatenate(each)
    return max(0.0, float(found.max())), max(0.0, float(-found.min()))


def match_rows(table: pa.Table, where: Where) -> Rows:
    """Which rows are meant.

    In a pattern `*` stands for any text and `?` for any one character; keys are normalised, so write
    it in lower case. Of a list of queries one has to match.
    """
    if where is None:
        return np.ones(table.num_rows, bool)
    if isinstance(where, pc.Expression):
        row = table.append_column("murmurlog row", pa.array(np.arange(table.num_rows)))
        found = np.zeros(table.num_rows, bool)
        found[row.filter(where)["murmurlog row"].to_numpy()] = True
        return found
    if isinstance(where, pa.Array | pa.ChunkedArray | np.ndarray):
        mask = np.asarray(where)
        if mask.dtype != bool or mask.shape != (table.num_rows,):
            raise UsageError(f"a mask needs a true or false for each of {table.num_rows} rows")
        return mask
    first = table.column_names[0]
    wanted = where if isinstance(where, Mapping) else {first: where}
    found = np.ones(table.num_rows, bool)
    for column, texts in wanted.items():
        found &= _match_column(table, column, texts)
    return found


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
    found = np.zeros(table.num_rows, bool)
    found[row[hit.to_numpy(zero_copy_only=False)]] = True
    return found


def total(of: Counts, rows: Rows, *, confidence: float = 0.95) -> Estimate:
    """The sum of the counts of these rows. A sum of true counts is never negative."""
    value, variance = float(of.values[rows].sum()), _squares(of, rows)
    spread = _quantile(confidence, _excess(of, rows)) * math.sqrt(variance)
    return Estimate(
        value=value,
        low=max(0.0, value - spread - float(of.too_high[rows].sum())),
        high=max(0.0, value + spread + float(of.too_low[rows].sum())),
        stderr=math.sqrt(variance),
        confidence=confidence,
        rows=int(rows.sum()),
    )


def row_intervals(of: Counts, *, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The ends of the interval of every single row: what `total` says of that row alone."""
    spread = _quantile(confidence, of.excess) * of.stderr
    low: Floats = np.maximum(0.0, of.values - spread - of.too_high)
    high: Floats = np.maximum(0.0, of.values + spread + of.too_low)
    return low, high


def ratio(
    of: Counts, rows: Rows, over: Counts, over_rows: Rows, *, confidence: float = 0.95
) -> Estimate:
    """The sum of some counts over that of others, with Fieller's interval.

    It holds every r for which 0 is within the errors of (sum - r times the other sum). Rows that
    are in both sums have one error, not two. Where the lower sum cannot be told from 0 the interval
    has no upper end: `high` is infinite, and `value` too if that sum is not even positive.
    """
    if not over_rows.any():
        raise UsageError("no published row matches what is divided by: widen the pattern")
    a, b = float(of.values[rows].sum()), float(over.values[over_rows].sum())
    shared = rows & over_rows if of.name == over.name else np.zeros(len(of.values), bool)
    va, vb, c = _squares(of, rows), _squares(over, over_rows), _squares(of, shared)
    q = _quantile(confidence, max(_excess(of, rows), _excess(over, over_rows)))
    least, most = a - float(of.too_high[rows].sum()), a + float(of.too_low[rows].sum())
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
    )


def _roots(a: float, b: float, va: float, vb: float, c: float, q: float) -> list[float]:
    """The r with (a - r b)^2 = q^2 (va - 2 r c + r^2 vb)."""
    found = np.roots([b * b - q * q * vb, -2 * (a * b - q * q * c), a * a - q * q * va])
    return [float(r.real) for r in found if abs(r.imag) <= 1e-9 * max(1.0, abs(r))] or [0.0]


def _squares(of: Counts, rows: Rows) -> float:
    return float((of.stderr[rows] ** 2).sum())


def _excess(of: Counts, rows: Rows) -> float:
    """The kurtosis of the sum beyond that of a normal law."""
    squares = _squares(of, rows)
    return of.excess * float((of.stderr[rows] ** 4).sum()) / squares**2 if squares > 0 else 0.0


def _quantile(confidence: float, excess: float) -> float:
    """How many standard errors hold this much, by Cornish and Fisher's expansion."""
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence must lie between 0 and 1, not {confidence!r}")
    z = float(ndtri((1 + confidence) / 2))
    return z + (z**3 - 3 * z) * excess / 24


def _short(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"
