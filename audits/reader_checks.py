"""murmurlog's reader beside the plain one: what each makes of a file, and where they differ."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from old_readers import CHANGES, by_parallel_csv
from plain_reader import Refused, time_of
from plain_reader import read as read_plainly
from reader_neighbours import Pair, is_added
from reader_samples import LARGEST, Outcome, Sample

from murmurlog.errors import InputError, MurmurlogError
from murmurlog.logs import formats as shapes
from murmurlog.logs import records
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.rows import Column
from murmurlog.logs.rows import Rows as LogRows
from murmurlog.logs.screen import Screen, load
from murmurlog.logs.source import find
from murmurlog.logs.typed_rows import Selection, read_batches

Rows = Counter[tuple[Any, ...]]
USER = "user"  # a column that is kept: the user's name
ERROR = -1  # the line of an outcome that is no refusal


class Reader:
    """murmurlog, or a twin of it, with one engine and a folder for files."""

    def __init__(
        self, engine: Any, folder: Path, twin: str | None = None, server: Any = None
    ) -> None:
        self.engine = engine
        self.folder = folder
        self.twin = twin
        self.server = server  # of PostgreSQL, as the tests start it
        self._connection = duckdb.connect()  # one for all samples: opening takes longer than a file
        self._connection.execute("SET TimeZone = 'UTC'")
        self._threads = 0

    def outcome(self, sample: Sample) -> Outcome:
        """The rows of a sample as they stand in it, or that it is refused."""
        if change := CHANGES.get(self.twin or ""):
            sample = change(sample)
        path = self._written(sample)
        with self._settings(sample):
            if self.twin == "csv-parallel":
                return by_parallel_csv(sample, self.folder, self._connection.execute)
            try:
                source = find(path, SourceOptions(**sample.options, time_format=sample.time_format))
                broken: dict[str, int] = {}
                batches = read_batches(
                    source, Selection(keep=source.column_names, urls=True),
                    connection=self._connection, broken=broken,
                )  # fmt: skip
                kept = [f"k{i}" for i in range(len(source.column_names))]
                times = ["time"] if sample.time_format else []
                found = _counted(batches, ["user", "query", "url", *kept, *times], source.nothing)
            except InputError as error:
                return _refused(error)
            except Exception as error:
                return Outcome(refused=f"{type(error).__name__}: {error!s:.200}", line=ERROR)
        return Outcome(columns=source.column_names, rows=_none_for_empty(found), broken=broken)

    def others(self, one: Pair, *, added: bool) -> Rows | str:
        """The clean rows of everybody but the added user, or why there are none."""
        sample = one.sample(added=added)
        try:
            if one.form == "postgresql":
                self.server.execute("DROP TABLE IF EXISTS log")
                self.server.load("log", one.table(added=added))
                return self.clean(one, find(f"{self.server.url()}::log"))
            if one.form == "parquet":
                path = str(self.folder / "log.parquet")
                pq.write_table(one.table(added=added), path, row_group_size=3)
                return self.clean(one, find(path))
            if change := CHANGES.get(self.twin or ""):
                sample = change(sample)
            path = self._written(sample)
            with self._settings(sample):
                source = find(path, SourceOptions(**sample.options))
                return self.clean(one, source)
        except MurmurlogError as error:
            return Counter() if "no usable rows" in str(error) else f"refused: {error}"
        except Exception as error:
            return f"error: {type(error).__name__}: {error!s:.200}"

    def clean(self, one: Pair, source: Any) -> Rows:
        """What `log.read` makes of a source, without the added user."""
        log = read(
            source,
            engine=self.engine,
            url=one.options.url,
            keep={
                USER: source.columns["user"],
                **{f"kept{i}": name for i, name in enumerate(one.options.keep)},
            },
            where=one.options.where,
            screen=_screen() if one.options.screen else None,
        )
        found = Counter(row for part in log.partitions.results(plain_rows) for row in part)
        return Counter({row[1:]: n for row, n in found.items() if not is_added(row[1])})

    def _written(self, sample: Sample) -> str:
        """Writes the files and says how a user would name them."""
        for old in self.folder.iterdir():
            old.unlink()
        for file in sample.files:
            (self.folder / file.full_name).write_bytes(file.packed)
        if len(sample.files) > 1:
            return str(self.folder / "*")
        return str(self.folder / sample.files[0].full_name)

    @contextmanager
    def _settings(self, sample: Sample) -> Iterator[None]:
        """The sizes and the threads that a sample asks for."""
        before = shapes.BLOCK, records.LONGEST_RECORD, records.MOST_HELD
        if self._threads != sample.threads:
            self._connection.execute(f"SET threads = {sample.threads}")
            self._threads = sample.threads
        shapes.BLOCK = sample.block
        records.LONGEST_RECORD, records.MOST_HELD = sample.longest, sample.largest
        try:
            yield
        finally:
            shapes.BLOCK, records.LONGEST_RECORD, records.MOST_HELD = before


def plain_rows(rows: LogRows) -> list[tuple[Any, ...]]:
    """The rows of a partition: key and name of the user, query, time, url, rank, kept columns."""
    columns = [
        *(rows.kept_columns.values()),
        rows.query,
        *([rows.url] if rows.url else []),
    ]
    texts = [_texts(rows, column) for column in columns]
    numbers = [rows.time] if rows.rank is None else [rows.time, rows.rank]
    keys = [tuple(key) for key in rows.user_keys[rows.unit].tolist()]
    return list(zip(keys, *texts, *(each.tolist() for each in numbers), strict=True))


def _texts(rows: LogRows, column: Column) -> list[str | None]:
    texts = [*rows.texts.take(column.ids).to_pylist(), None]
    return [texts[code] for code in column.codes]


def _counted(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], nothing: Sequence[str]
) -> Rows:
    """How often each row comes; of urls, which are cleaned later, `nothing` stands for none."""
    rows: Rows = Counter()
    for batch in batches:
        columns = {
            name: batch[name].to_pylist() if name in batch.schema.names else [None] * len(batch)
            for name in names
        }
        columns["url"] = [None if url in nothing else url for url in columns["url"]]
        rows.update(zip(*columns.values(), strict=True))
    return rows


@cache
def _screen() -> Screen:
    return load()


def _refused(error: Exception) -> Outcome:
    found = re.search(r"\bline (\d+)", str(error))
    return Outcome(refused=str(error), line=int(found[1]) if found else None)


def _none_for_empty(rows: Counter[tuple[str | None, ...]]) -> Counter[tuple[str | None, ...]]:
    """JSON has a text of no characters, which the log takes for none."""
    made: Counter[tuple[str | None, ...]] = Counter()
    for row, n in rows.items():
        made[tuple(value or None for value in row)] += n
    return made


def expected(sample: Sample) -> Outcome:
    """What the plain reader says."""
    try:
        found = read_plainly(
            [(file.full_name, file.packed) for file in sample.files],
            **sample.options,
            longest=sample.longest,
            largest=sample.largest,
        )
    except Refused as error:
        # Of several faults any may be found first: in several files, or in a record too large.
        only = len(sample.files) == 1 and sample.largest == LARGEST
        line = error.line if only else None
        return Outcome(refused=str(error), line=line)
    rows: Counter[tuple[Any, ...]] = Counter(found.chosen(found.columns))
    if form := sample.time_format:
        times = [time_of(text, form) for text in found.texts("time")]
        rows = Counter(
            (*row, time) for row, time in zip(found.chosen(found.columns), times, strict=True)
        )
    return Outcome(columns=found.columns, rows=rows, broken=found.broken)


def difference(wanted: Outcome, found: Outcome) -> str:
    """The first thing in which two outcomes differ; empty if they agree."""
    if found.line == ERROR:
        return f"error: {found.refused}"
    if (wanted.refused is None) != (found.refused is None):
        return f"refusal: {_short(found)} instead of {_short(wanted)}"
    if wanted.refused is not None:
        if wanted.line not in (None, found.line):
            return f"line: {_short(found)} instead of {_short(wanted)}"
        return ""
    if wanted.columns != found.columns:
        return f"columns: {found.columns} instead of {wanted.columns}"
    if wanted.rows != found.rows and _plain_numbers(wanted.rows) != _plain_numbers(found.rows):
        more, less = found.rows - wanted.rows, wanted.rows - found.rows
        return f"rows: {_few(more)} instead of {_few(less)}"
    have = {reason: n for reason, n in found.broken.items() if n}
    want = {reason: n for reason, n in wanted.broken.items() if n}
    return "" if have == want else f"broken: {have} instead of {want}"


def _plain_numbers(rows: Rows) -> Rows:
    """The rows with numbers of JSON by their value: 1e3 may be written 1000.0."""
    made: Rows = Counter()
    for row, n in rows.items():
        made[tuple(map(_by_value, row))] += n
    return made


def _by_value(text: str | None) -> Any:
    if text and re.fullmatch(r"-?[0-9][0-9.eE+-]*", text):
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _short(outcome: Outcome) -> str:
    if outcome.refused is not None:
        return f"refused ({outcome.refused:.120})"
    return f"{outcome.rows.total()} rows"


def _few(rows: Rows) -> str:
    listed = [f"{row!r}" + (f" x {n}" if n > 1 else "") for row, n in list(rows.items())[:3]]
    return (", ".join(listed) or "none")[:600] + (" ..." if len(rows) > 3 else "")


def moved(reader: Reader, one: Pair) -> tuple[str, int]:
    """How the rows of others change by the added user's, and how many there are."""
    before, after = reader.others(one, added=False), reader.others(one, added=True)
    if isinstance(before, str):
        return f"base: {before}", 0  # every pair is one that can be read
    if isinstance(after, str):
        return f"moved: {after}", before.total()
    if before == after:
        return "", before.total()
    return f"moved: {_few(after - before)} instead of {_few(before - after)}", before.total()
