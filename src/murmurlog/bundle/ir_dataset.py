"""A loaded bundle as a dataset with the interface of ir_datasets, without needing that package.

Records have the fields of ir_datasets, and the ids are those of `murmurlog export --to ir-datasets`,
so that results from the files and from here can be joined. A release has no users, times or ranks,
so its query log has its own record type. Never sees a log.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from murmurlog.bundle.graph import rows
from murmurlog.bundle.ids import (
    DOCID_DIGITS,
    QID_DIGITS,
    QUERY_COLUMNS,
    clicks,
    distinct,
    ids,
    relevance,
)
from murmurlog.bundle.read import Release
from murmurlog.bundle.schema import count_of
from murmurlog.errors import UsageError


class Query(NamedTuple):
    """A published query, like GenericQuery."""

    query_id: str
    text: str

    def default_text(self) -> str:
        return self.text


class Doc(NamedTuple):
    """A clicked page, like GenericDoc. Its text is its url: the page is not in a search log."""

    doc_id: str
    text: str

    def default_text(self) -> str:
        return self.text


class Qrel(NamedTuple):
    """A clicked page, graded by the number of users, like TrecQrel. It is not a human judgement."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class LogItem(NamedTuple):
    """A page clicked for a query, with its noisy count; None without counts."""

    doc_id: str
    users: int | None
    rows: int | None


class AggregateQlog(NamedTuple):
    """Everything published about one query, with its noisy count; None where there is none."""

    query_id: str
    query: str
    users: int | None
    rows: int | None
    items: tuple[LogItem, ...]


class Dataset:
    """The queries, pages, clicks and aggregated query log of a release.

    `ir_datasets.Dataset` accepts it as a constituent. Without a click table there are no docs and no
    qrels, and reading them raises.
    """

    def __init__(self, release: Release) -> None:
        if release.certificate.by:
            raise UsageError(
                f"a dataset has no place for the column {release.certificate.by.column!r} that "
                "this release is split by: use its tables"
            )
        self._tables: Mapping[str, pa.Table] = release.tables
        if not distinct(self._tables, *QUERY_COLUMNS):
            raise UsageError(
                f"a dataset needs queries, and this release has only: {', '.join(self._tables)}"
            )

    # --- queries ---

    def queries_iter(self) -> Iterator[Query]:
        """Every query of any table, once."""
        return (Query(qid, text) for text, qid in self._qids.items())

    def queries_cls(self) -> type[Query]:
        return Query

    def queries_count(self) -> int:
        return len(self._qids)

    def queries_lang(self) -> None:
        """Not known."""

    def queries_handler(self) -> "Dataset":
        return self

    # --- pages ---

    def docs_iter(self) -> Iterator[Doc]:
        """Every clicked url, once."""
        return (Doc(docid, url) for url, docid in self._docids.items())

    def docs_cls(self) -> type[Doc]:
        return Doc

    def docs_count(self) -> int:
        return len(self._docids)

    def docs_lang(self) -> None:
        """Not known."""

    def docs_handler(self) -> "Dataset":
        return self

    # --- clicks as grades ---

    def qrels_iter(self) -> Iterator[Qrel]:
        """A grade for each row of the click table."""
        return (
            Qrel(self._qids[query], self._docids[url], relevance(count), "0")
            for query, url, count in clicks(self._click)
        )

    def qrels_cls(self) -> type[Qrel]:
        return Qrel

    def qrels_count(self) -> int:
        return int(self._click.num_rows)

    def qrels_defs(self) -> dict[int, str]:
        """What the grades mean."""
        grades = sorted({qrel.relevance for qrel in self.qrels_iter()})
        few = {1: "clicked: a noisy count of at most 3, or none given"}
        return {
            g: few.get(g, f"clicked: a noisy count of {2**g} to {2 ** (g + 1) - 1}") for g in grades
        }

    def qrels_handler(self) -> "Dataset":
        return self

    # --- the query log ---

    def qlogs_iter(self) -> Iterator[AggregateQlog]:
        """A record for each query: its count and its clicked pages."""
        items: dict[str, list[LogItem]] = {}
        if "click" in self._tables:
            what = count_of(self._click)
            for query, url, count in clicks(self._click):
                item = LogItem(self._docids[url], *_users_and_rows(what, count))
                items.setdefault(query, []).append(item)
        own = self._tables.get("query")
        what = None if own is None else count_of(own)
        counts = {} if own is None else {row["query"]: row.get(what or "") for row in rows(own)}
        return (
            AggregateQlog(
                qid, query, *_users_and_rows(what, counts.get(query)), tuple(items.get(query, ()))
            )
            for query, qid in self._qids.items()
        )

    def qlogs_cls(self) -> type[AggregateQlog]:
        return AggregateQlog

    def qlogs_count(self) -> int:
        return len(self._qids)

    def qlogs_handler(self) -> "Dataset":
        return self

    # ---

    @property
    def _click(self) -> pa.Table:
        if "click" not in self._tables:
            raise UsageError(
                "this release has no click table, so it has no docs and no qrels: it has "
                + ", ".join(self._tables)
            )
        return self._tables["click"]

    @cached_property
    def _qids(self) -> dict[str, str]:
        return ids(distinct(self._tables, *QUERY_COLUMNS), QID_DIGITS)

    @cached_property
    def _docids(self) -> dict[str, str]:
        return ids(distinct({"click": self._click}, "url"), DOCID_DIGITS)


def _users_and_rows(what: str | None, count: int | None) -> tuple[int | None, int | None]:
    """A count as (users, rows); one of them is None."""
    return (count, None) if what != "rows" else (None, count)
