"""Exports several bundles as one file for each table: a row for each release and key."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle.cards import columns_of, statement
from murmurlog.bundle.export import (
    README,
    Exported,
    check_files,
    check_outside,
    csv_file,
    new_folder,
    seal,
    wrap,
)
from murmurlog.bundle.series import DESCRIPTIONS, Series, load_series
from murmurlog.bundle.write import check_target
from murmurlog.errors import MurmurlogError
from murmurlog.privacy import compose

PARQUET = "Parquet, texts as published; the metadata of each file has the statements, too."
SUMS_OF_USERS = (
    "Counts are of one release each. A sum over releases adds numbers of users by period: it is no number "
    "of distinct users. A key without a row in a release has an unknown count there, not zero."
)


def export_series(bundles: Sequence[str | Path], *, to: str, out: Path) -> Exported:
    """Writes the tables of several bundles to a new folder."""
    check_target(out)
    for bundle in bundles:
        check_outside(Path(bundle), out)
    series = load_series(bundles)
    for release in series.releases:
        check_files(release)
    names = [name for name in series.tables if name != "log"]
    notes = ["Not in this form: logs of invented users."] if len(names) < len(series.tables) else []
    if not all(period.start or period.end for period in series.periods):
        notes.append(
            "Not every release states its period (--since, --until): those without have none, and all are "
            "numbered in the order in which they were given."
        )
    with new_folder(out) as root:
        files = {
            f"{name}.{to}": _write(root / f"{name}.{to}", series.table(name), series)
            for name in names
        }
        seal(root, _readme(series, to, files, notes))
    return Exported(to=to, out=out, files=files, notes=tuple(notes))


def _write(path: Path, table: pa.Table, series: Series) -> int:
    if path.suffix == ".csv":
        return csv_file(path, table)
    statements = [statement(release.certificate) for release in series.releases]
    metadata = {"privacy": json.dumps([*statements, combined_cost(series)], ensure_ascii=False)}
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")
    return int(table.num_rows)


def combined_cost(series: Series) -> str:
    """What all releases of a series cost together, in a sentence."""
    certificates = [release.certificate for release in series.releases]
    unit = certificates[0].guarantee.unit
    bookings = [certificate.booked or {} for certificate in certificates]
    caps = [booking["cap"] for booking in bookings if "cap" in booking]
    if len(caps) == len(bookings) and len({booking["source"] for booking in bookings}) == 1:
        most = max(caps, key=lambda cap: float(cap["epsilon"]))
        return (
            f"All releases together: the publisher books them on one source, whose releases all together stay "
            f"within epsilon {most['epsilon']:g}, delta {most['delta']:.3g} per {unit}."
        )
    try:
        total = compose([certificate.guarantee for certificate in certificates])
    except MurmurlogError as error:
        return f"All releases together: their costs cannot be added ({error})."
    return (
        f"All releases together, for a {unit} in the logs of all of them: {total}. Other releases of the same "
        "people add to it."
    )


def _readme(series: Series, to: str, files: dict[str, int], notes: Sequence[str]) -> str:
    """README.txt: each release with its guarantee, all together, the files and their columns."""
    meanings = dict(DESCRIPTIONS)
    for release in series.releases:
        for table in release.certificate.tables:
            meanings |= columns_of(release.certificate, table) if table != "log" else {}
    releases = [
        f"{place}. {release.certificate.title} ({release.certificate.release_id}, "
        f"{release.certificate.published}). {statement(release.certificate)}"
        for place, release in enumerate(series.releases, 1)
    ]
    parts = [
        f"A series of {len(series)} releases",
        *map(wrap, releases),
        wrap(combined_cost(series)),
        "\n".join(f"{name}: {n} rows" for name, n in files.items()),
        wrap(PARQUET if to == "parquet" else README[to]),
        wrap(SUMS_OF_USERS),
        "\n".join(f"{name}: {text}" for name, text in meanings.items()),
        *map(wrap, notes),
        wrap(
            f"Made by murmurlog export --to {to}. SHA256SUMS finds accidents; the guarantee can be "
            "checked on the bundles themselves (murmurlog verify), not on this copy."
        ),
    ]
    return "\n\n".join(parts) + "\n"
