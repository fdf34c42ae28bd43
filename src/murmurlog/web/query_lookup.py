"""Everything a release publishes about one query, and an explanation where it publishes nothing."""

from dataclasses import dataclass

from murmurlog.bundle.label import needs
from murmurlog.web.bundles import Book
from murmurlog.web.index import Amount, Ints, Sheet

SHOWN = 15  # rows of each list
MOST_COUNTS = 100  # of one query, where the tables are split by a column
RELATED = 12
NEAR = 8
LEAST_BEGUN, MOST_BEGUN = 2, 20  # letters of a word by which similar queries are found


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
    known: bool
    counts: list[Line]  # the first ones, where the tables are split by a column
    counted: int  # the number of all counts
    rank: int | None  # among published queries, by noisy count
    of: int
    clicks: Listing | None
    after: Listing | None
    before: Listing | None
    related: list[tuple[str, float]] | None
    absent: str  # why it may be missing
    near: list[str]


def look_up(book: Book, query: str) -> Finding:
    """What the release publishes about a normalised query."""
    index = book.index
    place = index.place(query)
    known = place >= 0
    sheet = index.sheets.get("query")
    own = index.rows("query", "query", place)
    has = {name for name in ("click", "pair") if name in index.sheets}
    return Finding(
        query=query,
        known=known,
        counts=[] if sheet is None else _lines(sheet, own[:MOST_COUNTS], "query"),
        counted=len(own),
        rank=int(own[0]) + 1
        if len(own) and sheet is not None and sheet.values is not None
        else None,
        of=0 if sheet is None else len(sheet),
        clicks=_listing(book, "click", "query", "url", place) if "click" in has else None,
        after=_listing(book, "pair", "query", "next_query", place) if "pair" in has else None,
        before=_listing(book, "pair", "next_query", "query", place) if "pair" in has else None,
        related=index.related(place, RELATED) if "click" in has else None,
        absent="" if known else explain_absence(book, query),
        near=[] if known else similar_queries(book, query),
    )


def _listing(book: Book, table: str, by: str, other: str, place: int) -> Listing:
    sheet, rows = book.index.sheets[table], book.index.rows(table, by, place)
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


def explain_absence(book: Book, query: str) -> str:
    """Why a query is not published, as far as is known without the log."""
    if not query:
        return "No text remains after normalisation."
    certificate = book.certificate
    unit, claim = certificate.guarantee.unit, certificate.tables.get("query")
    if claim is None:
        return "This release has no table of queries."
    wanted = claim.passes.get("0.95")
    if wanted:
        why = f"fewer than about {wanted:,} {unit}s searched for it, or the noise removed it"
    else:
        few = f"too few {unit}s searched for it ({needs(claim, unit)[0]})"
        why = f"{few}, or the noise removed it"
    if certificate.text.get("screen"):
        why += ", or it looked like personal data and was excluded"
    return f"Not in this release: {why}."


def similar_queries(book: Book, query: str) -> list[str]:
    """Published queries that share the longest prefix with this one: by words, then by letters."""
    alike, first = book.index.shared_prefix_length(query), query.partition(" ")[0]
    if len(first) <= alike:
        # The prefix ends with the last shared word: at the end of the query, or before a space.
        end = len(query) if alike == len(query) else query.rfind(" ", 0, alike + 1)
        begun = query[:end]
    else:
        begun = first[: min(alike, len(first) - 1, MOST_BEGUN)]
        if len(begun) < LEAST_BEGUN:
            return []
    return [text for text, _ in book.index.complete(begun, NEAR)]
