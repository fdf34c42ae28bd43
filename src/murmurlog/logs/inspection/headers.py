"""Whether the first record of a text holds names of columns, or is a row."""

from collections.abc import Mapping, Sequence

from murmurlog.logs.inspection.roles import Facts, facts_of, is_known
from murmurlog.logs.inspection.times import likely

TYPED = 0.9  # of a column's values, for the column to have a type


def has_header(first: Sequence[str], facts: Mapping[int, Facts]) -> bool | None:
    """Whether the first record is a header; None if nothing tells. `facts` are of the other records."""
    names = [name.strip() for name in first]
    if "" in names or len(set(names)) < len(names):
        return False
    own = {place: facts_of([name], times=_time(name)) for place, name in enumerate(names)}
    if any(each.numbers or each.urls or each.times for each in own.values()):
        return False
    if any(map(is_known, names)):
        return True
    typed = [
        place
        for place, each in facts.items()
        for share in (each.numbers, each.urls, each.times)
        if share >= TYPED
    ]
    return True if typed else None


def _time(text: str) -> float:
    return float(len(likely([text])) > 1)
