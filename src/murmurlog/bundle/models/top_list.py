"""The most frequent queries that match a pattern, such as `fear of *`."""

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.derived_tables import weights


def match_pattern(queries: pa.Table, pattern: str) -> pa.Table:
    """The queries that match the pattern with their `weight`, in descending order, then by text.

    A star matches one character or more; everything else matches itself.
    """
    table = pa.table({"query": queries["query"], "weight": pa.array(weights(queries))})
    matches = table.filter(pc.match_like(table["query"], _like(pattern)))
    return matches.sort_by([("weight", "descending"), ("query", "ascending")])


def _like(pattern: str) -> str:
    """The pattern in the syntax of SQL's LIKE."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, "\\" + special)
    return pattern.replace("*", "_%")
