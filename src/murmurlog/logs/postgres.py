"""A table or a query of a PostgreSQL server, as a stream of Arrow batches through ADBC.

Everything is read in one transaction, which is read only and sees one snapshot. Values are turned
into text by the server, so that every type has the text that PostgreSQL gives it. An address can
hold a password, and messages of a server can quote rows: neither is ever printed. The driver comes
with the extra `postgres` and is imported late.
"""

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from murmurlog.errors import EngineError, InputError, MurmurlogError, UsageError
from murmurlog.logs.sql import identifier

FORM = "postgresql://user@host:port/database::table, or ::SELECT ... for a query"
SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL client_encoding = 'UTF8'",  # else the database's own, which Arrow would not notice
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO'",
)
# Years that Python and DuckDB have; outside lies 'infinity', which the driver lets overflow.
FIRST, LAST = "0001-01-01", "9999-12-31"
LEAST, MOST = "-62135596800", "1e19"  # the same as Unix time, in seconds and in nanoseconds

_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[^@:/?#\s\[\],]*)(?::\d*)?"  # and port
_LIKE_ONE = re.compile(r"postgres[a-z0-9+]*:", re.IGNORECASE)
# Stricter than libpq: an unescaped @ is not guessed at, so no part of a password is ever taken for a
# host and named in an error.
_ADDRESS = re.compile(
    r"(postgres(?:ql)?://"
    r"(?:[^@:/?#\s]*(?::[^@:/?#\s]*)?@)?"  # user, password
    rf"{_HOST}(?:,{_HOST})*"
    r"(?:/[^@:/?#\s]*)?"  # database
    r"(?:\?[^@#\s]*?)?)"  # parameters
    r"(?:::(.*))?",
    re.DOTALL,
)
_NAME = r"(?:\"(?:[^\"]|\"\")+\"|[^\s\".,;()'@]+)"
_TABLE = re.compile(rf"(?:({_NAME})\.)?({_NAME})")
_QUERY = re.compile(r"[\s(]*(?:SELECT|WITH)\b", re.IGNORECASE)
_TABLES = """
SELECT n.nspname, c.relname, pg_table_is_visible(c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
  AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1, 2
"""
_WRITES = (
    "the query writes or has another effect, which the read-only transaction does not allow. "
    "Nothing was changed; give a query that only reads."
)
_CLOSED = (
    "the server closed the connection before the last row. Nothing was written; see the server's "
    "log, and run it again."
)
# Errors of the server while rows are read, by a part of their text, and the messages shown instead,
# since the server's own can quote rows.
_ERRORS: Mapping[str, tuple[type[MurmurlogError], str]] = {
    "read-only transaction": (UsageError, _WRITES),
    "read-write mode": (UsageError, _WRITES),
    "permission denied": (InputError, "this user of the database may not read it (GRANT SELECT)."),
    "for encoding": (InputError, "it holds text that is not valid. Convert it, or leave it out."),
    "equivalent in encoding": (InputError, "it holds text that has no form in UTF-8."),
    "statement timeout": (
        InputError,
        "the server's statement_timeout ended it. Raise it: ?options=-cstatement_timeout%3D0",
    ),
    "conflict with recovery": (InputError, "the standby cancelled it. Read from the primary."),
    "closed the connection": (InputError, _CLOSED),
    "terminating connection": (InputError, _CLOSED),
    "could not receive data": (InputError, _CLOSED),
    "no connection": (InputError, _CLOSED),
    "connection has been closed": (InputError, _CLOSED),
}


@dataclass(frozen=True, kw_only=True)
class Address:
    """A server and what is to be read from it."""

    url: str = field(repr=False)  # may hold a password
    what: str  # the given name of a table, or a query
    relation: str  # the same as SQL after FROM; empty: the only table of the database

    def __str__(self) -> str:
        is_query = self.relation.startswith("(")
        return "the PostgreSQL query" if is_query else f"the PostgreSQL table {self.what}"


def looks_like_address(source: str) -> bool:
    """Whether the text is an address of a PostgreSQL server, valid or not."""
    return _LIKE_ONE.match(source) is not None


def parse(source: str) -> Address:
    """The address in `postgresql://...::table` or `postgresql://...::SELECT ...`."""
    # The message repeats no part of the address, which may hold a password anywhere.
    unreadable = UsageError(
        f"the address of the PostgreSQL server cannot be read. Write it as {FORM}. In names and "
        "passwords @ : / ? # are written %40 %3A %2F %3F %23."
    )
    if (match := _ADDRESS.fullmatch(source)) is None:
        raise unreadable
    url, what = match[1], (match[2] or "").strip()
    if not what:
        return Address(url=url, what="", relation="")
    if _QUERY.match(what):
        query = what.rstrip("; \t\r\n")
        return Address(url=url, what=query, relation=f"(\n{query}\n)")
    if table := _TABLE.fullmatch(what):
        parts = [_unquote(part) for part in table.groups() if part]
        return Address(url=url, what=what, relation=".".join(map(identifier, parts)))
    if "@" in what and "@" not in url:  # as in user::word@host, whose password is :word
        raise unreadable
    raise UsageError(
        f"'::{what}' is neither a table nor a query that only reads. A query begins with SELECT or "
        'WITH; a name with other characters is written in double quotes, as "schema"."table".'
    )


def look(address: Address) -> tuple[Address, tuple[str, ...]]:
    """The address with its table, and the names of all columns. Reads no row."""
    with _session(address) as cursor:
        if not address.relation:
            tables = _tables(cursor, address)
            if len(tables) != 1:
                content = f"{len(tables)} tables" if tables else "no table that can be read"
                raise InputError(f"the database has {content}; {_choose(tables)}")
            address = replace(parse(f"postgresql://::{tables[0]}"), url=address.url)
        return address, tuple(_schema(cursor, address).names)


def batches(
    address: Address, *, texts: Mapping[str, str], time: str | None
) -> Generator[pa.RecordBatch, None, None]:
    """The rows as batches, an empty one first; columns are named by the keys of `texts`.

    Also `time`, with its type, and `out_of_range`, whether the time is outside the years 1 to 9999.
    """
    with _session(address) as cursor:
        schema = _schema(cursor, address)
        if missing := [n for n in (*texts.values(), time) if n and n not in schema.names]:
            raise InputError(f'column "{missing[0]}" is gone from {address} since it was found')
        columns = [f"log.{identifier(name)}::text AS {key}" for key, name in texts.items()]
        columns += _time(schema.field(time), address) if time else ["NULL::timestamp AS time"]
        if not time:
            columns.append("false AS out_of_range")
        with _translate_errors(address):
            cursor.execute(f"SELECT {', '.join(columns)} FROM {address.relation} AS log")
            reader = cursor.fetch_record_batch()
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise EngineError(
            "reading from PostgreSQL needs a driver that is not installed: "
            "pip install 'murmurlog[postgres]'"
        ) from None
    return dbapi


@contextmanager
def _session(address: Address) -> Iterator[Any]:
    """A cursor in a transaction that can change nothing; all of it sees one snapshot."""
    dbapi = _driver()
    try:
        connection = dbapi.connect(address.url)
    except dbapi.Error as error:
        raise InputError(
            f"cannot connect to the PostgreSQL server{_why(error, address, 'Failed to connect: ')}. "
            "Check the address; a password can be given in PGPASSWORD or ~/.pgpass."
        ) from None
    try:
        with connection.cursor() as cursor:
            with _translate_errors(address):
                for setting in SETTINGS:
                    cursor.execute(setting)
            yield cursor
    finally:
        connection.close()


def _why(error: Exception, address: Address, after: str) -> str:
    """The first line of the driver's message after a marker, unless it holds a secret."""
    _, marker, text = str(error).partition(after)
    line = " ".join(text.partition("\n")[0].split()).rstrip(".")
    secrets = _secrets(address.url)
    return f": {line}" if marker and line and not any(s in line for s in secrets) else ""


def _secrets(url: str) -> set[str]:
    """Everything in an address or the environment that nobody else may read."""
    parts = urlsplit(url)
    _, _, password = parts.netloc.rpartition("@")[0].partition(":")
    parameters = parse_qs(parts.query)
    passwords = [
        value for name in ("password", "sslpassword") for value in parameters.get(name, [])
    ]
    return {s for s in (password, unquote(password), *passwords, os.environ.get("PGPASSWORD")) if s}


def _schema(cursor: Any, address: Address) -> pa.Schema:
    """The columns and their types, as the server describes the statement without running it."""
    dbapi = _driver()
    try:
        return cursor.adbc_execute_schema(f"SELECT * FROM {address.relation} AS log")
    except dbapi.Error as error:
        state = error.sqlstate or ""
        # Nothing was run, so the message can only quote the query.
        why = _why(error, address, "ERROR:")
        if state == "42P01" and not address.relation.startswith("("):
            raise InputError(
                f"there is no table {address.what} in the database; {_others(address)}"
            ) from None
        if "data-modifying" in str(error):
            raise UsageError(f"{address} cannot be read: {_WRITES}") from None
        kind = UsageError if state == "42601" else InputError
        raise kind(f"the server does not take {address}{why}") from None


def _others(address: Address) -> str:
    # The failed statement has ended its transaction.
    with _session(address) as cursor:
        return _choose(_tables(cursor, address))


def _tables(cursor: Any, address: Address) -> list[str]:
    """The tables that can be read, as they are written after `::`."""
    with _translate_errors(address):
        cursor.execute(_TABLES)
        rows = cursor.fetchall()
    return [
        ".".join(map(_quote_if_needed, (table,) if visible else (schema, table)))
        for schema, table, visible in rows
    ]


def _quote_if_needed(name: str) -> str:
    """The name as it has to be written after `::`."""
    plain = re.fullmatch(_NAME, name) and not name.startswith('"') and not _QUERY.match(name)
    return name if plain else identifier(name)


def _choose(tables: Sequence[str]) -> str:
    more = f" and {len(tables) - 20} more" if len(tables) > 20 else ""
    names = ", ".join(f"::{name}" for name in tables[:20]) + more
    return f"name one of: {names}" if tables else "write ::SELECT ... to read a query"


def _time(field: pa.Field, address: Address) -> list[str]:
    """The SQL of `time` and `out_of_range` for a column of this type."""
    value, kind = f"log.{identifier(field.name)}", field.type
    numeric = getattr(kind, "type_name", None) == "numeric"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        inside = f"{value} >= '{FIRST}' AND {value} < '{LAST}'"
        typed = value if pa.types.is_timestamp(kind) else f"{value}::timestamp"
    elif numeric or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        # NaN is the largest number to PostgreSQL.
        inside = f"{value} >= {LEAST} AND {value} < {MOST}"
        typed = f"{value}::float8"
    elif pa.types.is_string(kind):
        return [f"{value}::text AS time", "false AS out_of_range"]
    else:
        raise InputError(
            f'column "{field.name}" of {address} is not a time: it must be a timestamp, a date, a '
            "number (Unix time) or text. Map another with --columns time=..."
        )
    return [
        f"CASE WHEN {inside} THEN {typed} END AS time",
        f"coalesce(NOT ({inside}), false) AS out_of_range",
    ]


@contextmanager
def _translate_errors(address: Address) -> Iterator[None]:
    """The server's errors as ours: its own messages can quote rows."""
    dbapi = _driver()
    try:
        yield
    except (dbapi.Error, OSError, pa.ArrowException) as error:
        text = str(error)
        for part, (kind, message) in _ERRORS.items():
            if part in text:
                raise kind(f"{address} cannot be read: {message}") from None
        state = getattr(error, "sqlstate", None)
        code = f" with SQLSTATE {state}" if state else ""
        raise InputError(
            f"the server failed while {address} was read{code}. Its message may quote rows, so it "
            "is not shown here: run the same SELECT in psql."
        ) from None
