"""An index of the tables of one release: rows by text, in any order, with intervals.

Everything slow is computed once. Texts are sorted, so that bisection finds a text or a prefix; the rows of
one text are adjacent, the largest count first. A lookup among a million queries takes about a
millisecond.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from murmurlog.bundle import estimates
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.models.autocomplete import Completer
from murmurlog.bundle.models.click_graph import DECIMALS, places
from murmurlog.bundle.models.derived_tables import Floats, Ints, add_derived_tables, weights
from murmurlog.bundle.read import Release
from murmurlog.bundle.schema import AT_LEAST, LISTS, count_of, flatten_lists, keys_of
from murmurlog.errors import BundleError
from murmurlog.web.answers import AnswerCache

Flags = npt.NDArray[np.bool_]

QUERY_TABLES = ("query", "click", "pair")
QUERY_COLUMNS = ("query", "next_query")
QUESTION_BYTES = 1000  # of a cached question, besides its text and its answer
SORTS = ("count", "text", "error")


class SortedTexts:
    """Distinct texts in order."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        chunks = [chunk for column in columns for chunk in column.chunks]
        texts = pc.unique(pa.chunked_array(chunks, pa.string()))
        self.array: pa.Array = texts.take(pc.sort_indices(texts))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: int) -> str:
        text: str = self.array[place].as_py()
        return text

    def place(self, text: str) -> int:
        """The position of a text, -1 if it is missing."""
        at = bisect_left(range(len(self)), text, key=self.__getitem__)
        return at if at < len(self) and self[at] == text else -1

    def prefix_range(self, prefix: str) -> tuple[int, int]:
        """The positions at which the texts with a prefix start and end."""
        start = bisect_left(range(len(self)), prefix, key=self.__getitem__)
        end = bisect_right(
            range(len(self)), prefix, lo=start, key=lambda at: self[at][: len(prefix)]
        )
        return start, end


class Key:
    """One key column of a table: the rows of each text, in the order of the table."""

    def __init__(self, column: pa.ChunkedArray, texts: SortedTexts | None = None) -> None:
        self.texts = texts or SortedTexts([column])
        self.codes = places(column, self.texts.array).astype(np.int32)
        self.rows = np.argsort(self.codes, kind="stable").astype(np.int32)
        sizes = np.bincount(self.codes, minlength=len(self.texts))
        self.starts = np.concatenate([[0], np.cumsum(sizes)])

    def at(self, place: int) -> Ints:
        """The rows of a text by its position; none for -1."""
        if place < 0:
            return np.empty(0, np.int64)
        return self.rows[self.starts[place] : self.starts[place + 1]].astype(np.int64)

    def of(self, places: Ints) -> tuple[Ints, Ints]:
        """The rows of several texts, text by text, and the number of rows of each."""
        starts = self.starts[places]
        times = self.starts[places + 1] - starts
        first = np.repeat(starts - np.cumsum(times) + times, times)
        return self.rows[first + np.arange(len(first))].astype(np.int64), times

    def rows_of_range(self, start: int, end: int) -> Ints:
        """The rows of a range of texts, in the order of the table."""
        return np.sort(self.rows[self.starts[start] : self.starts[end]]).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A published count: the unit that it counts, its interval, and whether it is reliable.

    `low` and `high` are None where the law of its noise is unknown. `high` alone is None where the log
    may have any number of units more than were counted.
    """

    value: float
    counted: str
    low: float | None
    high: float | None
    reliable: bool
    meaning: str | None = None  # "users in the log" or "at least"; None before version 0.2

    @property
    def most(self) -> float:
        """The larger of the count and its upper end."""
        return self.value if self.high is None else max(self.value, self.high)

    def as_json(self) -> dict[str, Any]:
        """What the script shows of it."""
        return {"value": self.value, "low": self.low, "high": self.high, "reliable": self.reliable}


class Sheet:
    """An indexed table. Rows are positions in the table, the largest count first."""

    def __init__(
        self, name: str, table: pa.Table, certificate: Certificate, answers: AnswerCache
    ) -> None:
        self.name, self.table, self._answers = name, table, answers
        claim = certificate.tables.get(name)
        keys = keys_of(name, certificate.by)
        self.keys = tuple(key for key in keys if key in table.column_names)
        count = count_of(table)
        self.values: Floats | None = None
        self.low: Floats | None = None
        self.high: Floats | None = None
        self.stderr: Floats | None = None
        self.reliable: Flags | None = None
        self.counted = ""
        self.meaning = None if claim is None else claim.meaning
        if count is not None:
            self.counted = f"{certificate.guarantee.unit}s" if count == "users" else count
            self.values = table[count].to_numpy().astype(np.float64)
        ends = None if claim is None else estimates.published_intervals(name, table, claim)
        if claim is not None and ends is not None:
            counts = estimates.counts(name, table, claim)
            self.values, self.stderr = counts.values, counts.errors
            self.low, self.high = ends
            self.reliable = table["reliable"].to_numpy(zero_copy_only=False).astype(bool)
            if self.meaning == AT_LEAST:
                self.high = None
            if not all(np.isfinite(end).all() for end in (self.low, self.high) if end is not None):
                raise BundleError(f"privacy.json gives parameters of {name} that have no intervals")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def most(self) -> float:
        """The largest count, or the largest upper end of an interval."""
        ends = self.high if self.high is not None else self.values
        return float(ends.max(initial=1.0)) if ends is not None else 1.0

    def amount(self, row: int) -> Amount | None:
        """The count of a row; None where the table has none."""
        if self.values is None:
            return None
        return Amount(
            value=float(self.values[row]),
            counted=self.counted,
            low=None if self.low is None else float(self.low[row]),
            high=None if self.high is None else float(self.high[row]),
            reliable=self.reliable is None or bool(self.reliable[row]),
            meaning=self.meaning,
        )

    @property
    def head(self) -> str:
        """The head of a column of counts."""
        if self.meaning is None:
            return self.counted
        return f"{self.counted} {'counted' if self.meaning == AT_LEAST else 'in the log'}"

    def first(self, most: int) -> Ints:
        """The first rows, at most so many."""
        return np.arange(min(most, len(self)))

    def texts(self, rows: Ints) -> list[dict[str, Any]]:
        """The keys of some rows."""
        keys = self.table.select(list(self.keys)).take(pa.array(rows))
        texts: list[dict[str, Any]] = keys.to_pylist()
        return texts

    @cached_property
    def key(self) -> Key | None:
        """The first key column by text; None for lists of texts."""
        return None if self.keys[0] in LISTS else Key(self.table[self.keys[0]])

    def find(self, match: str, *, column: str, sort: str, falling: bool) -> Ints:
        """The matching rows in order. A text without * or ? is a prefix of the key."""
        question = (self, match, column, sort, falling)
        with self._lock:  # a question asked twice at the same time is answered once
            return self._answers.get(
                question,
                lambda: self._select(match, column, sort, falling),
                lambda rows: rows.nbytes + 4 * len(match) + QUESTION_BYTES,
            )

    def _select(self, match: str, column: str, sort: str, falling: bool) -> Ints:
        rows = self._match(match, column)
        if sort == "count":
            return rows if falling else rows[::-1]
        ranks = self._text_ranks if sort == "text" else self._error_ranks
        rows = rows[np.argsort(ranks[rows], kind="stable")]
        return rows[::-1] if falling else rows

    def _match(self, match: str, column: str) -> Ints:
        if not match:
            return np.arange(len(self))
        if not set(match) & set("*?"):
            if column == self.keys[0] and self.key is not None:
                return self.key.rows_of_range(*self.key.texts.prefix_range(match))
            match += "*"
        return np.flatnonzero(estimates.match_rows(self.table, {column: match}))

    @cached_property
    def _text_ranks(self) -> Ints:
        """The rank of each row by text."""
        flat = flatten_lists(self.table.select(list(self.keys)))
        by = [(key, "ascending") for key in self.keys]
        return _ranks(pc.sort_indices(flat, sort_keys=by).to_numpy())

    @cached_property
    def _error_ranks(self) -> Ints:
        """The rank of each row by relative error."""
        if self.stderr is None or self.values is None:
            return np.arange(len(self))
        error = self.stderr / np.maximum(self.values, 1.0)
        return _ranks(np.argsort(error, kind="stable"))


def _ranks(order: Ints) -> Ints:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


class Index:
    """All lookups in one release."""

    def __init__(self, release: Release, answers: AnswerCache | None = None) -> None:
        self.certificate = release.certificate
        self.answers = answers or AnswerCache()
        # One chunk each: selecting a few rows of a table with many chunks would copy all of it.
        derived = _with_derived(release.tables)
        tables = {name: table.combine_chunks() for name, table in derived.items()}
        self.sheets = {
            name: Sheet(name, table, self.certificate, self.answers)
            for name, table in tables.items()
        }
        columns = {
            (name, column): tables[name][column]
            for name in QUERY_TABLES
            if name in tables
            for column in QUERY_COLUMNS
            if column in tables[name].column_names
        }
        self.queries = SortedTexts(list(columns.values())) if columns else None
        self._keys = {at: Key(column, self.queries) for at, column in columns.items()}
        if "query" in tables:
            self.sheets["query"].__dict__["key"] = self._keys["query", "query"]
        if "click" in tables:
            self._keys["click", "url"] = Key(tables["click"]["url"])
            self._weights = weights(tables["click"])
            codes = self._keys["click", "url"].codes
            self._url_weights = np.bincount(codes, self._weights)
        self._completer = Completer(tables) if "query" in tables else None
        self._walk = lru_cache(maxsize=4096)(self._walk_from)

    @property
    def tables(self) -> list[str]:
        """The published tables that can be listed."""
        return [name for name in self.certificate.tables if name not in ("log", "left_out")] or [
            name for name in self.sheets if name in QUERY_TABLES
        ]

    def complete(self, prefix: str, k: int) -> list[tuple[str, float]]:
        """The most frequent published queries with a prefix."""
        return self._completer.complete(prefix, k) if self._completer else []

    def amount(self, query: str) -> Amount | None:
        """The count of a query; None where it has none, or several."""
        rows = self.rows("query", "query", self.place(query))
        return self.sheets["query"].amount(int(rows[0])) if len(rows) == 1 else None

    def place(self, query: str) -> int:
        """The position of a query, -1 if nothing is published about it."""
        return self.queries.place(query) if self.queries is not None else -1

    def rows(self, table: str, column: str, place: int) -> Ints:
        """The rows of a table that have this query in this column."""
        key = self._keys.get((table, column))
        return np.empty(0, np.int64) if key is None else key.at(place)

    def related(self, place: int, k: int) -> list[tuple[str, float]]:
        """Queries with clicks on the same urls, as `Release.related` gives them."""
        if self.queries is None:
            return []
        return [(self.queries[code], score) for code, score in self._walk(place, k)]

    def _walk_from(self, place: int, k: int) -> tuple[tuple[int, float], ...]:
        """The queries that a walk to a clicked url and back ends at, with the probabilities."""
        if ("click", "url") not in self._keys or place < 0:
            return ()
        by_query, by_url = self._keys["click", "query"], self._keys["click", "url"]
        clicks = by_query.at(place)
        clicks = clicks[self._weights[clicks] > 0]
        urls = by_url.codes[clicks].astype(np.int64)
        share = self._weights[clicks] / self._weights[clicks].sum() / self._url_weights[urls]
        back, times = by_url.of(urls)
        code, inverse = np.unique(by_query.codes[back], return_inverse=True)
        probability = np.repeat(share, times) * self._weights[back]
        score = np.round(np.bincount(inverse, probability, len(code)), DECIMALS)
        score[code == place] = 0.0
        best = np.lexsort((code, -score))[:k]
        return tuple((int(code[at]), float(score[at])) for at in best if score[at] > 0)

    def shared_prefix_length(self, text: str) -> int:
        """The length of the longest prefix of a text that a published query begins with."""
        return self._completer.shared_prefix_length(text) if self._completer else 0


def _with_derived(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables, with queries, clicks and pairs derived from synthetic logs and sessions."""
    derived = add_derived_tables({n: tables[n] for n in tables if n in ("log", "session")})
    return tables | {n: t for n, t in derived.items() if n in QUERY_TABLES and n not in tables}
