"""Cleaning and screening as expressions that every engine can run.

Text is cleaned in Python, on the distinct strings of a column, and joined to the rows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ibis
import pyarrow as pa

from murmurlog.bundle.canonical import changeable
from murmurlog.logs.cleaning import Cleaning, judge
from murmurlog.logs.duckdb_rows import STANDARD
from murmurlog.logs.engines.protocol import Engine


def clean_table(raw: Any, engine: Engine, cleaning: Cleaning) -> Any:
    """The usable rows: user, time, query, url, rank, then the columns kept."""
    table = _with_clean_text(raw, engine, cleaning)
    stays, broken = judge(_TableColumns(table), cleaning)
    names = {f"n{i}": reason for i, reason in enumerate(broken)}
    sums = table.aggregate(**{name: broken[reason] for name, reason in names.items()})
    (counted,) = sums.to_pyarrow().to_pylist()
    cleaning.broken.update({reason: counted[name] or 0 for name, reason in names.items()})
    kept = table.filter(stays)
    kept = kept.select(*STANDARD, **{name: kept[f"k{i}"] for i, name in enumerate(cleaning.keep)})
    if not cleaning.screens:
        return kept
    found = _hits(kept, engine, cleaning.reasons, suspect=cleaning.suspect)
    counts = _rows_by_reason(kept, found)
    cleaning.screened.update(counts)
    return kept.anti_join(found, kept.query == found.hit) if counts else kept


@dataclass(frozen=True)
class _TableColumns:
    """The columns of a table with clean text; `timed` and `linked` say that a value was given."""

    table: Any

    def every(self) -> Any:
        return ibis.literal(True)

    def missing(self, name: str) -> Any:
        return self.table[name].isnull()

    def given(self, name: str) -> Any:
        return self.table[{"time": "timed", "url": "linked"}[name]]

    def before(self, moment: Any) -> Any:
        return self.table.time < ibis.literal(moment)


def _with_clean_text(raw: Any, engine: Engine, cleaning: Cleaning) -> Any:
    """The rows with clean text; `timed` and `linked` say that a time or a url was given."""
    cleaners, skip = cleaning.cleaners, partial(_already_clean, keys=cleaning.keys)
    queries = _map(raw.query, engine, cleaners["query"], skip=skip)
    joined = raw.left_join(queries, raw.query == queries.raw_query)
    columns = {
        "user": raw.user.nullif(""),
        "time": raw.time,
        "query": ibis.ifelse(skip(raw.query), raw.query, queries.clean_query),
        "url": ibis.null("string"),
        "rank": ibis.null("int32"),
        "timed": raw.timed,
        "linked": ibis.literal(False),
    }
    if "url" in cleaners:
        urls = _map(raw.url, engine, cleaners["url"])
        joined = joined.left_join(urls, raw.url == urls.raw_url)
        columns |= {"url": urls.clean_url, "linked": raw.url.nullif("").notnull()}
        columns |= {"rank": raw["rank"]}
    columns |= {name: raw[name].nullif("") for name in raw.columns if re.fullmatch(r"k\d+", name)}
    return engine.materialise(joined.select(**columns))


def _already_clean(text: Any, *, keys: str | None) -> Any:
    """Whether a query is its own key, by functions that all engines define equally."""
    odd = (
        text.re_search(changeable(keys)) | text.startswith(" ") | text.endswith(" ") | (text == "")
    )
    return ~odd


def _map(
    column: Any,
    engine: Engine,
    function: Callable[[str], str | None],
    *,
    skip: Callable[[Any], Any] | None = None,
) -> Any:
    """A table (raw_..., clean_...) of the distinct strings of a column, without those to skip."""
    name = column.get_name()
    schema = pa.schema([(f"raw_{name}", pa.string()), (f"clean_{name}", pa.string())])
    distinct = column.as_table().filter(column.notnull()).distinct()
    if skip:
        distinct = distinct.filter(~skip(distinct[name]))

    def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
        raw = batch.column(0)
        cleaned = pa.array([function(text) for text in raw.to_pylist()], pa.string())
        return pa.RecordBatch.from_arrays([raw, cleaned], schema=schema)

    return engine.map_batches(schema, distinct, clean)


def count_hits(
    rows: Any, engine: Engine, reasons: Callable[[str], list[str]], *, suspect: str | None
) -> dict[str, int]:
    """How many rows have a query with each reason to drop it."""
    return _rows_by_reason(rows, _hits(rows, engine, reasons, suspect=suspect))


def _hits(
    rows: Any, engine: Engine, reasons: Callable[[str], list[str]], *, suspect: str | None
) -> Any:
    """A table (hit, reason) of the distinct queries that there is a reason to drop.

    Queries without any of the characters `suspect` have none.
    """
    schema = pa.schema([("hit", pa.string()), ("reason", pa.string())])
    distinct = rows.select("query").distinct()
    if suspect is not None:
        distinct = distinct.filter(distinct.query.re_search(f"[{re.escape(suspect)}]"))

    def find(batch: pa.RecordBatch) -> pa.RecordBatch:
        pairs = [(q, why) for q in batch.column(0).to_pylist() for why in reasons(q)]
        columns = [pa.array([pair[i] for pair in pairs], pa.string()) for i in (0, 1)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return engine.map_batches(schema, distinct, find)


def _rows_by_reason(rows: Any, found: Any) -> dict[str, int]:
    counted = rows.join(found, rows.query == found.hit).group_by("reason").agg(n=ibis._.count())
    return {row["reason"]: row["n"] for row in counted.order_by("reason").to_pyarrow().to_pylist()}
