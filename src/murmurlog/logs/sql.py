"""Names and texts as DuckDB's SQL has them."""

import re
from pathlib import Path

from murmurlog.errors import InputError


def quote(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literal(path: Path) -> str:
    """The SQL of a file name that DuckDB reads literally, without patterns."""
    name = str(path)
    if "\\" in name and any(c in name for c in "*?["):
        raise InputError(
            f"the path of {path.name!r} has a backslash and one of *?[ in it, which DuckDB cannot "
            "tell from a pattern: rename the file or the folder"
        )
    return quote(re.sub(r"[*?\[]", r"[\g<0>]", name))


def identifier(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
