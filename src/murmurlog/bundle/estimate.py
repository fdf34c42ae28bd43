"""`murmurlog.estimate`: sums and ratios of published counts, with an interval."""

from pathlib import Path

from murmurlog.bundle.estimates import Estimate
from murmurlog.bundle.read import Release, load
from murmurlog.errors import UsageError


def estimate(
    bundle: str | Path | Release,
    *,
    table: str = "query",
    match: str = "*",
    column: str | None = None,
    over: str | None = None,
    over_table: str | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """The sum of the published counts that match, or its ratio to another sum.

    `match` is a pattern for the key column `column` (the first by default): "fear of *"; ? is one
    character. With `over`, the sum is divided by that of the rows which match `over`, of `over_table`
    if that is another table.
    """
    if over_table and over is None:
        raise UsageError("--over-table says whose rows --over is about: give --over, too")
    release = bundle if isinstance(bundle, Release) else load(bundle)
    where = {column: match} if column else match
    if over is None:
        return release.total(table, where, confidence=confidence)
    under = {column: over} if column and not over_table else over
    return release.ratio(table, where, over_table or table, under, confidence=confidence)
