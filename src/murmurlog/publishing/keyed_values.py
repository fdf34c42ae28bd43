"""How many different values a row of a log brings to a release, which limits how many rows one may have.

Texts, their combinations and lists are known by keys of 128 bits, and every stated delta covers `MOST_VALUES`
different ones. Everything here follows from the options of the release, which are public
(docs/explanation/guarantee.md#keys-of-texts).
"""

from collections.abc import Mapping
from typing import Any

from murmurlog.counting.items import MOST_WORDS
from murmurlog.counting.subsequences import items_for, sets_of
from murmurlog.errors import EngineError
from murmurlog.logs.log import Log
from murmurlog.mechanisms import View
from murmurlog.privacy.safelog import subsequences_a_session
from murmurlog.privacy.sampler import MOST_LISTED, MOST_VALUES
from murmurlog.publishing.plan import Plan

READ = 6  # a user and a unit, a query and a url: these two as they are in the source, and clean


def check_values(log: Log, plans: Mapping[str, Plan], view: View) -> None:
    """Raises if these tables of so many rows may have more values than the stated delta covers."""
    most = most_rows(plans, view)
    if log.keyed > most:
        raise EngineError(
            f"{log.source.name} has {log.keyed:,} rows, more than the {most:,} for which the keys of texts are "
            f"proved with {', '.join(plans)}: release a part of it with --since and --until, or fewer tables"
        )


def most_rows(plans: Mapping[str, Plan], view: View) -> int:
    """How many rows a log may have."""
    # As much as for tables is left for labels (10,000 at most) and the values of --by.
    return (MOST_VALUES - 2 * MOST_LISTED) // values_a_row(plans, view)


def values_a_row(plans: Mapping[str, Plan], view: View) -> int:
    """How many different values a row brings at most; of what is made of several rows each brings a share."""
    tables = (_of_table(kind, plan.mechanism.parameters(), view) for kind, plan in plans.items())
    return READ + (view.by is not None) + sum(tables)


def _of_table(kind: str, parameters: Mapping[str, Any], view: View) -> int:
    """The values of a table beyond those that are read."""
    match kind:
        case "query" | "pair" | "click" | "left_out":
            # A query or a pair with its value of --by, a query with its url, and a query that is looked up.
            return 2
        case "keyword":  # with --by each with its value, too
            return MOST_WORDS * (1 if view.by is None else 2)
        case "session" if "queries_per_session" in parameters:
            # A session of l rows is a list and has 2^l - l - 1 others; the share of a row grows with l.
            longest = int(parameters["queries_per_session"])
            return 1 + -(-subsequences_a_session(longest) // longest)
        case "itemset":  # n rows have n queries at most; the share of a row grows with n
            n = items_for(parameters["per_user"], view.set_size, consecutive=view.consecutive)
            return 1 + -(-sets_of(n, view.set_size, consecutive=view.consecutive) // n)
        case "log" if parameters.get("per_user"):
            # Clicks, and every two of a unit's published ones.
            return 3 + int(parameters["per_user"]) // 2
        case "session" | "log":  # by reference methods without a guarantee
            return 2
    raise NotImplementedError(f"how many values a row brings to a {kind} table is not proved")
