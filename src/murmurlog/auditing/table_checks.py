"""Checks that every table of a bundle is a possible output of its mechanism."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog.auditing.check import require
from murmurlog.auditing.count_checks import counting_fault
from murmurlog.bundle.certificate import Certificate, TableClaim
from murmurlog.bundle.files import metadata
from murmurlog.bundle.read import read_table
from murmurlog.bundle.table_rules import table_fault
from murmurlog.mechanisms import Limited, Mechanism, Remarking, parse


def check_table(root: Path, certificate: Certificate, *, name: str) -> str:
    """Raises unless a table is a possible output of its mechanism; returns how many rows it has."""
    claim = certificate.tables[name]
    table = read_table(root, name)
    mechanism = parse(claim.mechanism)
    faults = [_too_low(table, claim, mechanism), table_fault(name, table, certificate)]
    require(not any(faults), "; ".join(filter(None, faults)))
    stored = pq.ParquetFile(root / "data" / f"{name}.parquet").schema_arrow
    require(not any(field.metadata for field in _fields(stored)), "a column has its own metadata")
    stated = {k.decode(): v.decode(errors="replace") for k, v in (stored.metadata or {}).items()}
    require(
        stated == metadata(certificate),
        "the dp.* metadata in the file are not the certificate's",
    )
    others = _Tables(root, certificate)
    if isinstance(mechanism, Limited):
        fault = mechanism.fault(table, others)
        require(fault is None, f"{fault}, which {mechanism} cannot give")
    runs = name == "itemset" and bool(certificate.text.get("consecutive"))
    fault = counting_fault(claim, mechanism, table, runs=runs)
    require(fault is None, str(fault))
    _notes(claim, mechanism, table, others)
    return f"{table.num_rows} rows"


def read_checked(root: Path, certificate: Certificate, name: str) -> pa.Table:
    """A table of the bundle; raises where it breaks the rules for every table."""
    table = read_table(root, name)
    fault = table_fault(name, table, certificate)
    require(fault is None, f"data/{name}.parquet {fault}")
    return table


class _Tables(Mapping[str, pa.Table]):
    """The tables of a bundle, each read on access."""

    def __init__(self, root: Path, certificate: Certificate) -> None:
        self.root, self.certificate = root, certificate

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self.certificate.tables:
            raise KeyError(name)
        return read_checked(self.root, self.certificate, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.certificate.tables)

    def __len__(self) -> int:
        return len(self.certificate.tables)


def _fields(schema: pa.Schema) -> Iterator[pa.Field]:
    for field in schema:
        yield field
        if pa.types.is_list(field.type):
            yield field.type.value_field


def _notes(
    claim: TableClaim, mechanism: Mechanism, table: pa.Table, others: Mapping[str, pa.Table]
) -> None:
    """Raises unless the notes on a table follow from it, where they can be derived."""
    if claim.guarantee.notion == "none":
        return  # the certificate claims nothing
    stated = dict(claim.notes)
    if isinstance(mechanism, Remarking):
        follows = mechanism.remarks(table, others)
        same = follows is None or stated == follows
    elif "user" in table.column_names:
        users = pc.count_distinct(table["user"]).as_py()
        same = not users or stated.get("invented users") == users
    else:
        same = not stated
    require(same, "`notes` does not follow from the tables")


def _too_low(table: pa.Table, claim: TableClaim, mechanism: Mechanism) -> str | None:
    """A message if a count is lower than the mechanism can publish."""
    least = mechanism.least_users()
    if least is None or claim.count not in table.column_names:
        return None
    low = pc.min(table[claim.count]).as_py()  # None for an empty table
    if not isinstance(low, int) or low >= least:
        return None
    return f"holds a count of {low}; the mechanism gives {least} or more"
