"""Writes a bundle atomically. Never sees a log.

`stage` writes into a private folder beside the target and forces everything to disk; the result is renamed
into place.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle import cards
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.files import CERTIFICATE, SUMS, checksum_of, metadata, sums
from murmurlog.bundle.report import make_report
from murmurlog.bundle.schema import in_order
from murmurlog.bundle.scratch import flush, move, scratch
from murmurlog.errors import UsageError

GROUP_ROWS = 100_000  # of a row group in a Parquet file


def check_target(out: Path) -> None:
    """Raises unless a bundle can be written there without touching existing files."""
    try:
        str(out.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(f"--out {str(out)!r} is not UTF-8: choose another name") from None
    if out.exists() or out.is_symlink():
        raise UsageError(f"--out {str(out)!r} exists: choose another folder, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f"--out {str(out)!r}: the folder {str(out.parent)!r} cannot be written")


@dataclass(frozen=True, kw_only=True)
class StagedBundle:
    """A bundle that is complete and on disk, in a private folder beside its place."""

    root: Path
    out: Path

    @classmethod
    def of(cls, root: Path, out: Path, *, published: str) -> "StagedBundle":
        """The bundle in a folder, on disk, with the day of its publication as the time of all files."""
        _set_file_times(root, published)
        check_target(out)
        flush(root)
        return cls(root=root, out=out)

    @property
    def checksum(self) -> str:
        """The checksum that stands for the whole bundle."""
        return checksum_of(self.root)

    def put_in_place(self) -> None:
        """Moves the bundle to its place in one step."""
        move(self.root, self.out)


@contextmanager
def stage(
    out: Path, *, tables: Mapping[str, pa.Table], certificate: Certificate
) -> Iterator[StagedBundle]:
    """A bundle that is written beside `out`; it is gone after the block, unless it was put in place."""
    with scratch(out.parent) as folder:
        root = folder / "bundle"
        (root / "data").mkdir(parents=True)
        tables = {name: in_order(table) for name, table in tables.items()}
        for name, table in tables.items():
            _write_parquet(root / "data" / f"{name}.parquet", table, certificate)
        text = json.dumps(certificate.as_json(), indent=2, ensure_ascii=False) + "\n"
        (root / CERTIFICATE).write_text(text, encoding="utf-8")
        for name, card in make_cards(certificate, sums(root), tables).items():
            (root / name).write_text(card, encoding="utf-8")
        lines = [f"{digest}  {name}\n" for name, digest in sums(root).items()]
        (root / SUMS).write_text("".join(lines), encoding="utf-8")
        yield StagedBundle.of(root, out, published=certificate.published)


def publish(out: Path, *, tables: Mapping[str, pa.Table], certificate: Certificate) -> None:
    """Writes a bundle and moves it to `out` in one step."""
    with stage(out, tables=tables, certificate=certificate) as bundle:
        bundle.put_in_place()


def _set_file_times(root: Path, published: str) -> None:
    """The times of the files are the day of publication, not when each was written."""
    day = datetime.fromisoformat(published).replace(tzinfo=UTC).timestamp()
    for path in (*root.rglob("*"), root):
        os.utime(path, (day, day))


def make_cards(
    certificate: Certificate, sha256: Mapping[str, str], tables: Mapping[str, pa.Table]
) -> dict[str, str]:
    """The cards by file name, from the certificate, its checksum and the published data alone."""
    return {
        "README.md": cards.readme(certificate, sha256),
        "croissant.json": cards.croissant(certificate, sha256),
        "datapackage.json": cards.datapackage(certificate, sha256),
        "deployment.yaml": cards.deployment(certificate),
        "report.html": make_report(certificate, tables, sha256),
    }


def _write_parquet(path: Path, table: pa.Table, certificate: Certificate) -> None:
    table = table.replace_schema_metadata(metadata(certificate)).combine_chunks()
    pq.write_table(table, path, compression="zstd", row_group_size=GROUP_ROWS)
