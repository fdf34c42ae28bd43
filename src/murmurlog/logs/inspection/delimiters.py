"""The delimiter of a text, its quotes and its header, as DuckDB's sniffer sees them in its first lines."""

from collections.abc import Iterable
from dataclasses import dataclass

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import EngineError
from murmurlog.logs.duckdb_statements import run_statement
from murmurlog.logs.sql import quote

NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}
SNIFFED = 1 << 20  # bytes of the text
LONGEST = 1 << 16  # bytes of a line; the sniffer fails on a longer one


@dataclass(frozen=True, kw_only=True)
class Delimiter:
    """A delimiter, and what it makes of the lines."""

    character: str
    fields: int
    quoted: bool
    header: bool  # the first line is unlike the others, or all columns are text

    @property
    def name(self) -> str:
        """In words."""
        return NAMES.get(self.character, self.character)


def detect(blocks: Iterable[bytes], character: str | None = None) -> Delimiter | None:
    """The delimiter of a text in UTF-8, or what `character` makes of it; None if lines have one field.

    A space is tried last, since queries have spaces. Lines that do not fit are ignored only where not all
    lines fit: the sniffer is less sure then.
    """
    text = next(iter(blocks), b"")[:SNIFFED]
    lines = text[: text.rfind(b"\n") + 1].splitlines()
    options = [f"delim = {quote(character)}, "] if character else ["", "delim = ' ', "]
    with scratch() as folder:
        file = folder / "lines.csv"
        file.write_bytes(
            b"".join(line + b"\n" for line in lines if line.strip() and len(line) < LONGEST)
        )
        for tolerance in ("", "ignore_errors = true, "):
            for option in options:
                select = f"""SELECT Delimiter, len(Columns) AS fields, Quote, HasHeader
                    FROM sniff_csv({quote(str(file))}, {option}{tolerance}comment = '')"""
                try:
                    (row,) = run_statement(select).to_pylist()
                except EngineError:  # no delimiter fits
                    continue
                if row["fields"] > 1:
                    return Delimiter(
                        character=row["Delimiter"], fields=row["fields"],
                        quoted=row["Quote"] == '"', header=row["HasHeader"],
                    )  # fmt: skip
    return None
