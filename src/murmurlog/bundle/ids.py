"""Ids of queries and pages in exports, computed as ir_datasets computes those of AOL.

An id depends on the text alone, so it is the same in every release, export and Python adapter.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from murmurlog.bundle.graph import rows
from murmurlog.bundle.schema import count_of
from murmurlog.errors import UsageError

QID_DIGITS, DOCID_DIGITS = 14, 12  # as ir_datasets names the queries and pages of AOL
QUERY_COLUMNS = ("query", "next_query")


def ids(texts: Iterable[str], digits: int) -> dict[str, str]:
    """The id of each text: the first hexadecimal digits of its MD5."""
    texts_by_id: dict[str, str] = {}
    for text in texts:
        name = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:digits]
        if texts_by_id.setdefault(name, text) != text:
            raise UsageError(
                f"two texts have the id {name} ({digits} digits of MD5), so the files could not "
                "tell them apart: use --to tsv or --to graph"
            )
    return {text: name for name, text in texts_by_id.items()}


def relevance(count: int | None) -> int:
    """The grade of a clicked page in qrels: the whole part of log2 of the count, at least 1."""
    return 1 if count is None else max(1, max(1, count).bit_length() - 1)


def texts_of(tables: Mapping[str, pa.Table], *columns: str) -> list[pa.Array]:
    """These columns of all tables that have them."""
    return [
        table[column].combine_chunks()
        for table in tables.values()
        for column in columns
        if column in table.column_names
    ]


def distinct(tables: Mapping[str, pa.Table], *columns: str) -> list[str]:
    """The texts of these columns, each once, in order of appearance."""
    return list(dict.fromkeys(t for array in texts_of(tables, *columns) for t in array.to_pylist()))


def clicks(table: pa.Table) -> Iterator[tuple[str, str, int | None]]:
    """(query, url, count) of the click table."""
    count = count_of(table) or ""
    return ((row["query"], row["url"], row.get(count)) for row in rows(table))
