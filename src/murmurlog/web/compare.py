"""Comparison of two bundles: rows in one of them only, changed counts, and the combined cost."""

import threading
from dataclasses import dataclass

from murmurlog.bundle.compare import Changes, find_changes
from murmurlog.errors import MurmurlogError
from murmurlog.privacy import Guarantee, compose
from murmurlog.web.bundles import ServedBundle
from murmurlog.web.index import QUESTION_BYTES, Sheet


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Changes):
    """The rows of two tables of the same name, by change."""

    before: Sheet
    after: Sheet


@dataclass(frozen=True, kw_only=True)
class CombinedCost:
    """The privacy cost of two releases for a unit that is in both."""

    first: Guarantee
    second: Guarantee
    sum: Guarantee | None  # None: they cannot be composed
    words: str


def shared_tables(a: ServedBundle, b: ServedBundle) -> list[str]:
    """The tables that both have."""
    return [name for name in a.index.tables if name in b.index.tables]


_one_at_a_time = threading.Lock()


def compare_tables(a: ServedBundle, b: ServedBundle, table: str) -> Comparison:
    """The comparison of one table; cached."""
    with _one_at_a_time:
        return a.index.answers.get((a, b, table), lambda: _compare_tables(a, b, table), _size)


def _size(changes: Comparison) -> int:
    """The bytes that a comparison takes besides the tables."""
    arrays = (changes.gained, changes.lost, *changes.common, *changes.rose, *changes.fell)
    return QUESTION_BYTES + sum(rows.nbytes for rows in arrays)


def _compare_tables(a: ServedBundle, b: ServedBundle, table: str) -> Comparison:
    sheets = [bundle.index.sheets[table] for bundle in (a, b)]
    claims = [bundle.certificate.tables.get(table) for bundle in (a, b)]
    before, after = ((s.table, claim, s.keys) for s, claim in zip(sheets, claims, strict=True))
    changes = find_changes(table, before, after)
    return Comparison(before=sheets[0], after=sheets[1], **vars(changes))


def combined_cost(a: ServedBundle, b: ServedBundle) -> CombinedCost:
    """Both guarantees, and their sum where there is one."""
    first, second = a.certificate.guarantee, b.certificate.guarantee
    if a.certificate.release_id == b.certificate.release_id:
        return CombinedCost(
            first=first,
            second=second,
            sum=first,
            words="Both are one release: its cost counts once.",
        )
    try:
        both = None if "none" in (first.notion, second.notion) else compose([first, second])
        reason = "One of them has no guarantee, so there is no total."
    except MurmurlogError as error:
        both, reason = None, f"The costs cannot be added: {error}"
    if both is None:
        return CombinedCost(first=first, second=second, sum=None, words=reason)
    sources = [(bundle.certificate.booked or {}).get("source") for bundle in (a, b)]
    if sources[0] is not None and sources[0] == sources[1]:
        words = f"Both are booked under {sources[0]!r}: they are about the same {first.unit}s."
    else:
        words = (
            f"For a {first.unit} in both logs the costs add up. Only the owner knows whether the logs "
            f"share {first.unit}s."
        )
    return CombinedCost(first=first, second=second, sum=both, words=words)
