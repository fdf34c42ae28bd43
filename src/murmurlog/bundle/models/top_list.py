"""The most asked queries of a shape, such as `fear of *`: a list that a study would print."""

import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle.models.derived_tables import weights


def matching(queries: pa.Table, pattern: str) -> pa.Table:
    """The queries like the pattern with their `weight`, the heaviest first, then by text.

    A star stands for one character or more; everything else for itself.
    """
    table = pa.table({"query": queries["query"], "weight": pa.array(weights(queries))})
    found = table.filter(pc.match_like(table["query"], _like(pattern)))
    return found.sort_by([("weight", "descending"), ("query", "ascending")])


def _like(pattern: str) -> str:
    """The pattern as SQL's LIKE has it."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, "\\" + special)
    return pattern.replace("*", "_%")
