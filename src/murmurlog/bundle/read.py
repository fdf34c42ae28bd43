"""Reads a bundle from any publisher: its certificate and its tables. Never sees a log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog.bundle import estimates
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.estimates import Estimate
from murmurlog.bundle.files import CERTIFICATE, MOST_JSON_BYTES, is_own_file
from murmurlog.bundle.graph import Graph, graph
from murmurlog.bundle.schema import KEYS, lists_of, with_lists
from murmurlog.bundle.table_rules import table_fault
from murmurlog.errors import BundleError, EngineError, OtherVersion, UnknownTable, UsageError
from murmurlog.privacy import Guarantee

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from murmurlog.bundle.models.autocomplete import Completer
    from murmurlog.bundle.models.click_graph import Walker
    from murmurlog.bundle.models.search import Searcher
    from murmurlog.bundle.models.suggestion import Suggester


MOST_COUNTED = 1 << 53  # sum of all counts of a table, exact in floating point
MOST_TIMES = 200  # limit on a table's size in memory over its file's size; about ten is usual
LITTLE = 1 << 24
MOST_BATCHES = 200


def stated_json(root: Path) -> Any:
    """The parsed privacy.json; raises where a key is repeated, since its meaning is ambiguous."""

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            raise ValueError("a key is repeated")
        return members

    return json.loads(
        (root / CERTIFICATE).read_text(encoding="utf-8"), object_pairs_hook=read_object
    )


def read_certificate(root: Path) -> Certificate:
    """The certificate of the bundle in a folder."""
    path = root / CERTIFICATE
    try:
        if not is_own_file(root, CERTIFICATE):
            reason = "there is no such folder"
            if root.is_dir():
                reason = f"there is no {CERTIFICATE} in it"
            raise BundleError(
                f"{str(root)!r} is no bundle: {reason}. Name the folder that 'murmurlog release' wrote."
            )
        if path.stat().st_size > MOST_JSON_BYTES:
            raise BundleError(f"{CERTIFICATE} is larger than a certificate can be")
        return Certificate.from_json(stated_json(root))
    except OtherVersion as error:
        raise OtherVersion(f"the bundle {root.name!r} was {error}") from None
    except OSError as error:
        raise BundleError(f"{CERTIFICATE} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{CERTIFICATE} is damaged: {str(error)[:200]}") from None


class Tables(dict[str, pa.Table]):
    """The tables of a bundle by name."""

    def __missing__(self, name: str) -> pa.Table:
        raise UnknownTable(f"there is no table {name!r:.80} here: use {', '.join(self)}")


@dataclass(frozen=True)
class Release:
    """A loaded bundle: its certificate and its tables as Arrow."""

    path: Path
    certificate: Certificate

    @property
    def guarantee(self) -> Guarantee:
        return self.certificate.guarantee

    @cached_property
    def tables(self) -> Tables:
        """The tables by name; raises where one breaks the rules for tables."""
        return Tables(
            (name, sound_table(self.path, self.certificate, name))
            for name in self.certificate.tables
        )

    def __repr__(self) -> str:
        rows = ", ".join(
            f"{name} {claim.rows:,}" for name, claim in self.certificate.tables.items()
        )
        return f"Release({str(self.path)!r}, rows: {rows}; {self.guarantee})"

    def _repr_html_(self) -> str:
        """The label and the first rows, for notebooks."""
        from murmurlog.bundle.display import as_html

        return as_html(self.certificate, self.tables)

    def top(self, n: int = 10, table: str | None = None) -> pa.Table:
        """The first rows of a table, by default of the first one; those with the largest counts."""
        if n < 0:
            raise UsageError(f"n must be at least 0, not {n}")
        return self._table(table).slice(0, n)

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """A table as a frame of pandas, by default the first one."""
        chosen = self._table(table)
        try:
            frame: pd.DataFrame = chosen.to_pandas()
        except ImportError:
            raise EngineError("to_pandas needs pandas: pip install pandas") from None
        return frame

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """A table as a frame of polars, by default the first one."""
        try:
            import polars as pl
        except ImportError:
            raise EngineError("to_polars needs polars: pip install polars") from None
        return pl.DataFrame(self._table(table))

    def total(
        self, table: str, where: estimates.Where = None, *, confidence: float = 0.95
    ) -> Estimate:
        """The sum of the counts of some rows, with an interval: total("query", "fear of *").

        `where` is a pattern or a list of texts for the first key column, a mapping of columns to
        these ({"query": "fear of *", "url": ["a.com"]}), or an Arrow mask or expression.
        """
        chosen = estimates.match_rows(self._table(table), where)
        return estimates.total(self._counts(table), chosen, confidence=confidence)

    def ratio(
        self,
        table: str,
        where: estimates.Where,
        over: str,
        over_where: estimates.Where = None,
        *,
        confidence: float = 0.95,
    ) -> Estimate:
        """The sum of some rows over the sum of others, with an interval; `where` as in `total`."""
        return estimates.ratio(
            self._counts(table),
            estimates.match_rows(self._table(table), where),
            self._counts(over),
            estimates.match_rows(self._table(over), over_where),
            confidence=confidence,
        )

    def _table(self, name: str | None) -> pa.Table:
        return self.tables[next(iter(self.certificate.tables)) if name is None else name]

    def _counts(self, name: str) -> estimates.Counts:
        return estimates.counts(name, self._table(name), self.certificate.tables[name])

    def graph(self) -> Graph:
        """The query-click graph: query and url nodes, click and reformulation edges."""
        return graph(self.tables)

    def suggest(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """Queries asked after a query, each with its share; if there are none, related queries."""
        self._need("suggest", "pair", "click")
        text = self._normalise(query, k)
        suggestions = self._suggester.suggest(text, k, lam=0.0)
        if suggestions or "click" not in self._all_tables:
            return suggestions
        return self._walker.related(text, k)

    def complete(self, prefix: str, k: int = 10) -> list[tuple[str, float]]:
        """The most frequent published queries with a prefix, and their noisy counts."""
        self._need("complete", "query")
        text = self._normalise(prefix, k)
        # A trailing space marks the end of a word; normalising removes it.
        return self._completer.complete(text + " " * bool(text and prefix[-1].isspace()), k)

    def search(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """Urls for a query, with the probability that a walk on published clicks and pairs stops there."""
        self._need("search", "click")
        return self._searcher.rank(self._normalise(query, k), k)

    def related(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """Queries with clicks on the same urls, with the probability that a walk there and back ends there."""
        self._need("related", "click")
        return self._walker.related(self._normalise(query, k), k)

    def _normalise(self, text: str, k: int) -> str:
        """A text as a key of this bundle, empty if nothing is left; checks k too."""
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}")
        return self.certificate.clean(text)

    @cached_property
    def _all_tables(self) -> dict[str, pa.Table]:
        from murmurlog.bundle.models.derived_tables import add_derived_tables

        return add_derived_tables(self.tables)

    @cached_property
    def _suggester(self) -> Suggester:
        from murmurlog.bundle.models.suggestion import Suggester

        return Suggester(self._all_tables)

    @cached_property
    def _completer(self) -> Completer:
        from murmurlog.bundle.models.autocomplete import Completer

        return Completer(self._all_tables)

    @cached_property
    def _searcher(self) -> Searcher:
        from murmurlog.bundle.models.search import Searcher

        return Searcher(self._all_tables)

    @cached_property
    def _walker(self) -> Walker:
        from murmurlog.bundle.models.click_graph import Walker

        return Walker(self._all_tables)

    def _need(self, name: str, *tables: str) -> None:
        """Raises unless one of these tables is published or can be derived."""
        if not set(tables) & set(self._all_tables):
            needs = " or ".join(tables)
            has = (
                n if lists_of(t) == "queries" else f"{n} (lists of {lists_of(t)})"
                for n, t in self.tables.items()
            )
            raise UsageError(f"{name} needs a {needs} table; this release has {', '.join(has)}")


def load(folder: str | Path) -> Release:
    """Loads the bundle in a folder. Checks its form, not its claims: use `verify` for those."""
    root = Path(folder)
    return Release(root, read_certificate(root))


def sound_table(root: Path, certificate: Certificate, name: str) -> pa.Table:
    """One table of a bundle; raises where it breaks the rules for tables."""
    table = read_table(root, name)
    if fault := table_fault(name, table, certificate):
        raise BundleError(f"data/{name}.parquet {fault}. Get the bundle again from its publisher")
    return with_lists(table, certificate.tables[name].mechanism)


def read_table(root: Path, name: str) -> pa.Table:
    """One table of a bundle; follows no link and refuses files that decompress to a huge size."""
    file = f"data/{name}.parquet"
    if name not in KEYS or not is_own_file(root, file):
        raise BundleError(f"{file!r:.80} is no table of a bundle, or is not there")
    path = root / file
    most = MOST_TIMES * path.stat().st_size + LITTLE
    try:
        batches, left = [], most
        stored, parts = _batches(path)
        for size, part in parts:
            left -= size
            if left < 0:
                raise BundleError(f"{file} unpacks to more than {MOST_TIMES} times its size")
            batches.append(part())
        table = pa.Table.from_batches(batches, stored)
        if len(batches) > MOST_BATCHES:  # work on many small ones takes long
            table = table.combine_chunks()
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise BundleError(f"{file} cannot be read: {str(error)[:200]}") from None
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        raise BundleError(f"{file} holds text that is not UTF-8, or is damaged") from None
    for column in (c for c in table.columns if pa.types.is_integer(c.type)):
        if (pc.sum(pc.abs(column.cast(pa.float64(), safe=False))).as_py() or 0) >= MOST_COUNTED:
            raise BundleError(f"{file} holds counts that are too large for any log")
    for column in (c for c in table.columns if pa.types.is_floating(c.type)):
        sound = pc.and_(pc.greater_equal(column, 0), pc.less(column, float(MOST_COUNTED)))
        if pc.all(sound).as_py() is False:  # NaN is neither
            raise BundleError(
                f"{file} holds standard errors that are negative, too large or no numbers"
            )
    return table


def _batches(
    path: Path,
) -> tuple[pa.Schema, Iterator[tuple[int, Callable[[], pa.RecordBatch]]]]:
    """The schema of a file and its batches: the size of each in bytes, and a function that reads it.

    A file may hold a long text once and refer to it in every row. So texts are read dictionary-encoded,
    and decoded only once their total size is known.
    """
    schema = pq.read_schema(path)
    leaves = pq.ParquetFile(path).schema
    columns = [leaves.column(place) for place in range(len(leaves))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    file = pq.ParquetFile(path, read_dictionary=texts)
    if not all(map(_is_measured, schema.types, file.schema_arrow.types)):
        raise pa.ArrowInvalid("it has a column of an unexpected type")

    def parts() -> Iterator[tuple[int, Callable[[], pa.RecordBatch]]]:
        for batch in file.iter_batches():
            size = sum(_size(column) for column in batch.columns)
            yield size, partial(batch.cast, schema)

    return schema, parts()


def _is_measured(stored: pa.DataType, read: pa.DataType) -> bool:
    """Whether the decoded size of values of this type can be computed before decoding."""
    if stored == pa.list_(pa.string()):
        return bool(pa.types.is_list(read) and _is_measured(pa.string(), read.value_type))
    if pa.types.is_string(stored) or pa.types.is_dictionary(stored):
        return bool(pa.types.is_dictionary(read) and pa.types.is_string(read.value_type))
    return bool(pa.types.is_primitive(stored))


def _size(column: pa.Array) -> int:
    """The size of a column after decoding, in bytes."""
    if pa.types.is_list(column.type):
        return 4 * len(column) + _size(column.flatten())
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return 4 * len(column) + int(pc.sum(lengths.take(column.indices)).as_py() or 0)
