"""The rows of a source as they stand in it, with what was wrong with the others.

DuckDB's own SQL, because rows that it rejects have no form in Ibis. Every line is cut, decoded and
judged on its own (A8).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from murmurlog.engine import OUT_OF_MEMORY, DuckEngine, identifier, quoted
from murmurlog.errors import EngineError, InputError
from murmurlog.fields import typed
from murmurlog.postgres import Address, batches
from murmurlog.shapes import Shape, blocks, day_of, fields_sql, pieces, time_sql
from murmurlog.source import Source

LINES_A_BATCH = 20_000
ROWS_A_WORD = 1_000_000  # read between two words about it
STANDARD = ("user", "time", "query", "url", "rank")
REJECTED = {
    "MISSING COLUMNS": "too few columns",
    "TOO MANY COLUMNS": "too many columns",
    "UNQUOTED VALUE": "quote not closed",
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "line too long",
    "INVALID STATE": "quote not closed",
}


def raw_rows(
    source: Source,
    engine: DuckEngine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Any:
    """Every row as it stands in the source: user, query, url, time, whether one was given (timed),
    rank, then the columns kept as k0, k1 and so on."""
    try:
        if source.server:
            _from_server(source, source.server, engine, where, keep, say)
        elif source.lines:
            _from_lines(source, source.lines, engine, broken, where, keep)
        else:
            # Text is parsed once; columnar sources are cheap to scan again, so are not copied.
            kind = "VIEW" if source.format in ("parquet", "duckdb") else "TABLE"
            select = select_sql(source, _relation(source, engine, broken), where, keep)
            engine.sql(f"CREATE {kind} raw AS {select}")
    except duckdb.OutOfMemoryException:
        raise EngineError(OUT_OF_MEMORY) from None
    except duckdb.Error as error:
        raise InputError(f"cannot read {source.name}: {_why(error)}") from None
    raw = engine.backend.table("raw")
    if source.format == "csv":
        # One line may break in two ways; it is one broken row.
        for reason, n in engine.sql(
            "SELECT reason, count(*) FROM (SELECT file_id, line, min(error_type::VARCHAR) AS reason"
            " FROM reject_errors GROUP BY ALL) GROUP BY ALL"
        ).fetchall():
            name = REJECTED.get(reason, reason.lower())
            broken[name] = broken.get(name, 0) + n
    if source.lines or source.server or source.format == "jsonl":
        for reason, n in engine.sql(
            "SELECT fault, count(*) FROM raw WHERE fault IS NOT NULL GROUP BY ALL"
        ).fetchall():
            broken[reason] = broken.get(reason, 0) + n
        raw = raw.filter(raw.fault.isnull())
    return shown(raw)


def shown(raw: Any) -> Any:
    """The rows with typed fields, in the order of columns that all engines give them."""
    kept = [name for name in raw.columns if re.fullmatch(r"k\d+", name)]
    return raw.select("user", "query", "url", *kept, **typed(raw))


def select_sql(
    source: Source, relation: str, where: Mapping[str, str], keep: Sequence[str], day: str = ""
) -> str:
    """The rows of a relation where all is as asked; broken ones pass, to be counted."""
    columns = [_column(source, role, day) for role in STANDARD]
    columns += [f"{_text(source, name)} AS k{i}" for i, name in enumerate(keep)]
    passes = "false"
    if source.lines or source.server:
        columns.append("fault")
        passes = "fault IS NOT NULL"
    elif source.format == "jsonl":
        columns.append("CASE WHEN row IS NULL THEN 'not JSON' END AS fault")
        passes = "row IS NULL"
    tests = [f"coalesce({_text(source, name)}, '') = {quoted(v)}" for name, v in where.items()]
    fine = " AND ".join(tests) or "true"
    return f"SELECT {', '.join(columns)} FROM {relation} WHERE {passes} OR ({fine})"


def _from_server(
    source: Source,
    server: Address,
    engine: DuckEngine,
    where: Mapping[str, str],
    keep: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Fills the table `raw` from a server, batch by batch, with the columns that matter."""
    roles = [name for role, name in source.columns.items() if role != "time"]
    texts = {_text(source, name): name for name in dict.fromkeys((*roles, *where, *keep))}
    fault = "CASE WHEN out_of_range THEN 'time out of range' END AS fault"
    select = select_sql(source, f"(SELECT *, {fault} FROM incoming)", where, keep)
    rows, made = 0, False
    with closing(batches(server, texts=texts, time=source.columns.get("time"))) as stream:
        for batch in stream:
            engine.backend.con.register("incoming", batch)
            engine.sql(f"INSERT INTO raw {select}" if made else f"CREATE TABLE raw AS {select}")
            engine.backend.con.unregister("incoming")
            made = True
            if rows // ROWS_A_WORD < (rows := rows + batch.num_rows) // ROWS_A_WORD:
                say(f"reading {source.name}: {rows:,} rows")


def _from_lines(
    source: Source,
    shape: Shape,
    engine: DuckEngine,
    broken: dict[str, int],
    where: Mapping[str, str],
    keep: Sequence[str],
) -> None:
    """Fills the table `raw` from lines whose fields are cut at tabs."""
    skipped = ["", "\ufeff"]
    if shape.header and shape.name != "tsv":
        # Where files of a well-known shape were put together, headers stand between the rows.
        skipped += [mark + "\t".join(shape.columns) for mark in skipped]
    lines = f"SELECT line FROM incoming WHERE line NOT IN ({', '.join(map(quoted, skipped))})"
    parts = f"SELECT string_split(line, chr(9)) AS parts FROM ({lines})"
    relation = f"(SELECT {fields_sql(shape)} FROM ({parts}))"
    made = False
    for file, compression, encoding in zip(
        source.files, source.compressions, source.encodings, strict=True
    ):
        select = select_sql(source, relation, where, keep, day_of(file))
        first = shape.header
        for block in blocks(file, compression=compression, encoding=encoding, broken=broken):
            rest = block.partition(b"\n")[2] if first else block
            first = False
            engine.backend.con.register("incoming", _lines(rest))
            engine.sql(f"INSERT INTO raw {select}" if made else f"CREATE TABLE raw AS {select}")
            engine.backend.con.unregister("incoming")
            made = True


def _lines(block: bytes) -> pa.Table:
    """The lines of a block, without their ends, as a column `line` in a few batches."""
    block = block.replace(b"\r\n", b"\n")
    feeds = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.concatenate([[0], feeds - np.arange(len(feeds))]).astype(np.int32)
    text = pa.py_buffer(block.translate(None, b"\n"))
    lines = pa.StringArray.from_buffers(len(feeds), pa.py_buffer(offsets), text)
    schema = pa.schema([("line", pa.string())])
    batch = pa.RecordBatch.from_arrays([lines], schema=schema)
    return pa.Table.from_batches(
        [batch.slice(i, LINES_A_BATCH) for i in range(0, len(feeds), LINES_A_BATCH)], schema
    )


def _relation(source: Source, engine: DuckEngine, broken: dict[str, int]) -> str:
    if source.format == "duckdb":
        engine.sql(f"ATTACH {quoted(str(source.files[0]))} AS source (READ_ONLY)")
        return f"source.main.{identifier(source.table or '')}"
    compression = source.compressions[0]
    paths = source.files
    if set(source.encodings) != {"utf-8"}:
        paths, compression = _in_utf8(source, engine, broken), None
    elif compression:
        for file in paths:  # the engine would unpack whatever it is to its end, or stop in silence
            for _ in pieces(file, compression):
                pass
    files = "[" + ", ".join(quoted(str(file)) for file in paths) + "]"
    if source.format == "parquet":
        return f"read_parquet({files}, union_by_name=true, hive_partitioning=false)"
    packed = f", compression={quoted(compression)}" if compression else ""
    if source.format == "jsonl":
        return f"read_ndjson_objects({files}, ignore_errors=true{packed}) AS t(row)"
    types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in source.found)
    return (
        f"read_csv({files}, columns={{{types}}}, header=true, auto_detect=false, delim=',', "
        f"quote='\"', escape='\"', nullstr='', store_rejects=true{packed})"
    )


def _in_utf8(source: Source, engine: DuckEngine, broken: dict[str, int]) -> tuple[Path, ...]:
    """The files copied to the engine's private folder, unpacked and in UTF-8."""
    copies = []
    for i, (file, compression, encoding) in enumerate(
        zip(source.files, source.compressions, source.encodings, strict=True)
    ):
        copy = engine.folder / f"source{i}.{source.format}"
        with copy.open("xb") as out:
            for block in blocks(file, compression=compression, encoding=encoding, broken=broken):
                out.write(block)
        copies.append(copy)
    return tuple(copies)


def _text(source: Source, name: str) -> str:
    """The SQL of one column of the source, as text."""
    if source.lines or source.server:
        return f"c{source.found.index(name)}"
    if source.format == "jsonl":
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")  # a path would know wildcards
        return f"json_extract_string(row, {quoted(pointer)})"
    # A column of a database may call texts equal that are not (COLLATE NOACCENT).
    exact = " COLLATE C" if source.format == "duckdb" else ""
    return f"{identifier(name)}::VARCHAR{exact}"


def _column(source: Source, role: str, day: str) -> str:
    """The SQL of one role, as text (a time keeps its type if it has one)."""
    if role not in source.columns:
        return f"NULL::{'TIMESTAMP' if role == 'time' else 'VARCHAR'} AS {role}"
    name = source.columns[role]
    if role == "time" and source.server:
        return "time"
    if role == "time" and source.format in ("parquet", "duckdb"):
        return f"{identifier(name)} AS time"
    if role == "time":
        return f"{time_sql(source.shape, _text(source, name), day)} AS time"
    return f"{_text(source, name)} AS {role}"


def _why(error: Exception) -> str:
    """What is wrong, without DuckDB's words: they can quote the log."""
    line = re.search(r"\bLine: (\d+)", str(error), re.IGNORECASE)
    where = f"line {line[1]} cannot be parsed" if line else "it could not be read to its end"
    return f"{where}; it is damaged, or not of the form that its name says"
