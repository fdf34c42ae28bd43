"""Single statements of DuckDB that read no rows of a log: what a file or a sample is like, and generated logs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from murmurlog.errors import EngineError

SETTINGS: dict[str, Any] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}


def run_statement(
    statement: str, *, file: Path | None = None, tables: Mapping[str, Any] | None = None
) -> pa.Table:
    """The result of a statement over Arrow tables by name, or over the tables of a DuckDB file.

    Raises EngineError, without the words of DuckDB, which can quote the content of a file.
    """
    path = ":memory:" if file is None else str(file.resolve())
    try:
        with duckdb.connect(path, read_only=file is not None, config=SETTINGS) as connection:
            connection.execute("SET enable_progress_bar = false")
            for name, table in (tables or {}).items():
                connection.register(name, table)
            return connection.execute(statement).to_arrow_table()
    except (duckdb.Error, RuntimeError, UnicodeError) as error:
        if str(error) == "Query interrupted":
            raise
        raise EngineError(f"DuckDB failed with {type(error).__name__}") from error
