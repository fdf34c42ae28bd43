"""Everything a release publishes about one query, and an explanation where it publishes nothing."""

from dataclasses import dataclass

from murmurlog.bundle.label import needs
from murmurlog.bundle.models.derived_tables import Ints
from murmurlog.web.bundles import ServedBundle
from murmurlog.web.index import Amount, Index, Sheet

SHOWN = 15  # rows of each list
MOST_COUNTS = 100  # of one query, where the tables are split by a column
RELATED = 12
SIMILAR = 8
LEAST_PREFIX, MOST_PREFIX = 2, 20  # characters of a word that similar queries share


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of a list: its text and its count."""

    text: str
    amount: Amount | None
    also: str = ""  # further keys


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The first lines of a list and its full length."""

    lines: list[Line]
    all: int
    most: float


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Everything published about a query. A list is None where the release has no such table."""

    query: str
    published: bool
    counts: list[Line]  # several where the tables are split by a column: the first of them
    counted: int  # the number of all counts
    rank: int | None  # among published queries, by noisy count
    of: int
    clicks: Listing | None
    after: Listing | None
    before: Listing | None
    related: list[tuple[str, float]] | None
    absence: str  # why it may be missing
    similar: list[str]


def look_up(bundle: ServedBundle, query: str) -> Finding:
    """What the release publishes about a normalised query."""
    index = bundle.index
    place = index.place(query)
    published = place >= 0
    sheet = index.sheets.get("query")
    rows = index.rows("query", "query", place)
    has_rank = len(rows) and sheet is not None and sheet.values is not None
    return Finding(
        query=query,
        published=published,
        counts=[] if sheet is None else _lines(sheet, rows[:MOST_COUNTS], "query"),
        counted=len(rows),
        rank=int(rows[0]) + 1 if has_rank else None,
        of=0 if sheet is None else len(sheet),
        clicks=_listing(index, "click", "query", "url", place),
        after=_listing(index, "pair", "query", "next_query", place),
        before=_listing(index, "pair", "next_query", "query", place),
        related=index.related(place, RELATED) if "click" in index.sheets else None,
        absence="" if published else explain_absence(bundle, query),
        similar=[] if published else similar_queries(index, query),
    )


def _listing(index: Index, table: str, by: str, other: str, place: int) -> Listing | None:
    """The rows of a table with a query; None without such a table."""
    if table not in index.sheets:
        return None
    sheet, rows = index.sheets[table], index.rows(table, by, place)
    lines = _lines(sheet, rows[:SHOWN], other)
    ends = [line.amount.most for line in lines if line.amount is not None]
    return Listing(lines=lines, all=len(rows), most=max([1.0, *ends]))


def _lines(sheet: Sheet, rows: Ints, column: str) -> list[Line]:
    more = [key for key in sheet.keys if key not in ("query", "url", "next_query")]
    return [
        Line(
            text=keys[column],
            amount=sheet.amount(int(row)),
            also=", ".join(str(keys[key]) for key in more),
        )
        for row, keys in zip(rows, sheet.texts(rows), strict=True)
    ]


def explain_absence(bundle: ServedBundle, query: str) -> str:
    """Why a query is not published, as far as is known without the log."""
    if not query:
        return "No text remains after normalisation."
    certificate = bundle.certificate
    unit, claim = certificate.guarantee.unit, certificate.tables.get("query")
    if claim is None:
        return "This release has no table of queries."
    if needed := claim.passes.get("0.95"):
        reason = f"fewer than about {needed:,} {unit}s searched for it"
    else:
        reason = f"too few {unit}s searched for it ({needs(claim, unit)[0]})"
    reason += ", or the noise removed it"
    if certificate.text.get("screen"):
        reason += ", or it looked like personal data and was excluded"
    return f"Not in this release: {reason}."


def similar_queries(index: Index, query: str) -> list[str]:
    """Published queries that share the longest prefix with a query: by words, then by characters."""
    length, first = index.shared_prefix_length(query), query.partition(" ")[0]
    if len(first) <= length:
        # The prefix ends with the last shared word: at the end of the query, or before a space.
        end = len(query) if length == len(query) else query.rfind(" ", 0, length + 1)
        prefix = query[:end]
    else:
        prefix = first[: min(length, len(first) - 1, MOST_PREFIX)]
        if len(prefix) < LEAST_PREFIX:
            return []
    return [text for text, _ in index.complete(prefix, SIMILAR)]
