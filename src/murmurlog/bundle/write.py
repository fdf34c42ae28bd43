"""Writes a bundle atomically. Never sees a log.

`publish` writes into a private folder beside the target, forces everything to disk and renames it
into place.
"""

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle import cards
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.files import CERTIFICATE, SUMS, checksum_of, metadata, sums
from murmurlog.bundle.report import make_report
from murmurlog.bundle.schema import in_order
from murmurlog.bundle.scratch import scratch, settle
from murmurlog.errors import UsageError

ROWS_A_GROUP = 100_000


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


def publish(
    out: Path,
    *,
    tables: Mapping[str, pa.Table],
    certificate: Certificate,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Writes a bundle and moves it to `out` in one step.

    `ready` is called just before that step, with the checksum that stands for the whole bundle.
    """
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
        put_in_place(root, out, published=certificate.published, ready=ready)


def put_in_place(
    made: Path, out: Path, *, published: str, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Moves a finished bundle to `out` in one step; `ready` as of `publish`."""
    _plain_marks(made, published)
    check_target(out)
    settle(made, out, ready=lambda: ready(checksum_of(made)))


def _plain_marks(root: Path, published: str) -> None:
    """The times of the files state the day, not when each was written."""
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
    pq.write_table(table, path, compression="zstd", row_group_size=ROWS_A_GROUP)
