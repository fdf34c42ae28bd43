"""What a release says about one query, and what to say when it says nothing."""

from dataclasses import dataclass
from typing import Any

from murmurlog.bundle.label import needs
from murmurlog.web.bundles import Book
from murmurlog.web.index import Amount, Ints, Sheet
from murmurlog.web.template_helpers import Room

SHOWN = 15  # rows of each list
MOST_COUNTS = 100  # of one query, where the tables are split by a column
RELATED = 12
NEAR = 8
LEAST_BEGUN, MOST_BEGUN = 2, 20  # letters of a word by which alike queries are found


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of a list: its text, what it leads to, and its count."""

    text: str
    amount: Amount | None
    also: str = ""  # further keys

    def as_json(self, room: Room) -> dict[str, Any]:
        amount = None if self.amount is None else self.amount.as_json()
        also = {"by": room.text(self.also)} if self.also else {}
        return {"text": room.text(self.text), "count": amount} | also


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The first lines of a list and how many there are."""

    lines: list[Line]
    all: int
    most: float

    def as_json(self, room: Room) -> dict[str, Any]:
        return {"rows": self.all, "first": [line.as_json(room) for line in self.lines]}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Everything published about a query. Lists are None where the release has no such table."""

    query: str
    known: bool
    counts: list[Line]  # the first ones, where the tables are split by a column
    counted: int  # how many there are
    rank: int | None  # among published queries, by noisy count
    of: int
    clicks: Listing | None
    after: Listing | None
    before: Listing | None
    related: list[tuple[str, float]] | None
    absent: str  # why it may not be there
    near: list[str]

    def as_json(self) -> dict[str, Any]:
        room = Room()

        def listed(listing: Listing | None) -> dict[str, Any] | None:
            return None if listing is None else listing.as_json(room)

        return {
            "query": self.query,
            "published": self.known,
            "message": None if self.known else self.absent,
            "counts": [line.as_json(room) for line in self.counts],
            "counts_rows": self.counted,
            "rank": self.rank,
            "clicks": listed(self.clicks),
            "next": listed(self.after),
            "before": listed(self.before),
            "related": None
            if self.related is None
            else [{"query": room.text(text), "share": share} for text, share in self.related],
            "near": [room.text(text) for text in self.near],
        }


def found(book: Book, query: str) -> Finding:
    """What the release says about a normalised query."""
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
        absent="" if known else absent(book, query),
        near=[] if known else near(book, query),
    )


def _listing(book: Book, table: str, by: str, other: str, place: int) -> Listing:
    sheet, rows = book.index.sheets[table], book.index.rows(table, by, place)
    lines = _lines(sheet, rows[:SHOWN], other)
    ends = [line.amount.high or line.amount.value for line in lines if line.amount is not None]
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


def absent(book: Book, query: str) -> str:
    """Why a query is not there, as far as can be said without the log."""
    if not query:
        return "Nothing is left of this text after cleaning."
    certificate = book.certificate
    unit, claim = certificate.guarantee.unit, certificate.tables.get("query")
    if claim is None:
        return "This release has no table of queries."
    wanted = claim.passes.get("0.95")
    if wanted:
        why = f"fewer than about {wanted:,} {unit}s asked it, or chance dropped it"
    else:
        why = f"too few {unit}s asked it ({needs(claim, unit)[0]}), or chance dropped it"
    if certificate.text.get("screen"):
        why += ", or it looks like personal data and was left out"
    return f"Not in this release: {why}."


def near(book: Book, query: str) -> list[str]:
    """Published queries that begin as this one does, for as long as any do: by words, then letters."""
    alike, first = book.index.shared(query), query.partition(" ")[0]
    if len(first) <= alike:
        # The last word of those that are shared: it ends where the query does, or before a space.
        end = len(query) if alike == len(query) else query.rfind(" ", 0, alike + 1)
        begun = query[:end]
    else:
        begun = first[: min(alike, len(first) - 1, MOST_BEGUN)]
        if len(begun) < LEAST_BEGUN:
            return []
    return [text for text, _ in book.index.complete(begun, NEAR)]
