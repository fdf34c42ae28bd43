"""Keys that earlier releases of the same source published: which bundles count, and their keys.

What a booked release published is public and paid for, so a later release of the same source counts
it again without selecting it. Only bundles are read here, never a log. Proof:
docs/explanation/published-keys.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.canonical import cleaner
from murmurlog.bundle.certificate import Certificate
from murmurlog.bundle.files import checksum_of, stated_sums, sums
from murmurlog.bundle.read import read_certificate, sound_table
from murmurlog.bundle.schema import in_order, keys_of, keys_schema
from murmurlog.counting.public_sets.sets import Listed, distinct
from murmurlog.errors import BundleError, OtherVersion, UsageError
from murmurlog.logs.reading import Reading
from murmurlog.mechanisms import find_mechanism
from murmurlog.mechanisms.protocol import ITEMS
from murmurlog.mechanisms.public_pools import PublicPool
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_records import Entry

WITH_URLS = {"click", "log"}  # tables whose keys hold urls
CLEANED = {"query": True, "next_query": True, "keyword": False}  # by the rules of --keys, or not
NAMING = ("click", "pair", "log")  # tables whose keys name queries
LEDGER = "ledger"  # in the place of a folder: all bundles of the source that are at hand


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The releases whose keys are counted again, and these keys; fixed before the log is read."""

    releases: tuple[str, ...] = ()
    keys: Mapping[str, pa.Table] = field(default_factory=dict)  # of each table

    def as_json(self) -> dict[str, Any] | None:
        """For the certificate; None if no bundle was asked for."""
        if not self.releases:
            return None
        counts = {table: keys.num_rows for table, keys in self.keys.items()}
        return {"releases": list(self.releases), "keys": counts}

    def outside(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The mechanisms' options with pools that list none of the keys: each key has one row."""
        pools = options.get("pool")
        if not isinstance(pools, Mapping):
            return dict(options)
        left = {table: tuple(self._outside(table, some)) for table, some in pools.items()}
        return {**options, "pool": left}

    def _outside(self, table: str, pools: Sequence[PublicPool]) -> Iterator[PublicPool]:
        public = self.keys.get(table)
        for pool in pools:
            if public is None or not isinstance(pool.keys, Listed):
                yield pool
                continue
            keys = pool.keys.table
            left = keys.join(public, keys.column_names, join_type="left anti")
            if left.num_rows:
                yield replace(pool, keys=Listed(table=in_order(left)))


def find_earlier(
    after: Sequence[str | Path],
    mechanisms: Mapping[str, str],
    *,
    ledger: Ledger | None,
    source: str,
    unit: str,
    neighbours: str,
    reading: Reading,
    say: Callable[[str], None] = lambda _: None,
) -> Earlier:
    """The keys for the tables of a release; raises unless every bundle is one of the source's own.

    `mechanisms` are those of the tables.
    """
    if not after:
        return Earlier()
    if ledger is None:
        raise UsageError("--after is about releases of a source: give --ledger and --source")
    if other := [name for name in mechanisms.values() if not find_mechanism(name).takes_earlier]:
        raise UsageError(f"--after is for rounds, not for {other[0]}: leave --after out")
    entries = {entry.release_id: entry for entry in ledger.entries(source)}
    bundles = _EarlierBundles([table for table in mechanisms if table in ITEMS])
    away = 0
    for root, release_id in _places(after, entries, ledger.folder):
        if release_id is not None and bundles.has_keys_of(release_id):
            continue
        if release_id is not None and _id_at(root) != release_id:
            away += 1
            continue
        certificate = _read_published(root, entries, ledger)
        _check_alike(root, certificate, entries[certificate.release_id], unit, neighbours, reading)
        bundles.add(root, certificate)
    if away:
        say(
            f"warning: {away} bundle{'s' * (away != 1)} of this source moved since the release: give "
            "--after with the folder, or their keys are selected anew"
        )
    keys = {table: bundles.keys(table, reading) for table in bundles.tables}
    return Earlier(
        # In the order of their bookings.
        releases=tuple(name for name in entries if name in bundles.releases),
        keys={table: some for table, some in keys.items() if some is not None and some.num_rows},
    )


def _places(
    after: Sequence[str | Path], entries: Mapping[str, Entry], folder: Path
) -> Iterator[tuple[Path, str | None]]:
    """Where bundles are; of `ledger`, where the ledger says so, with their ids, the latest first."""
    yield from ((Path(folder), None) for folder in after if str(folder) != LEDGER)
    if LEDGER in map(str, after):
        for entry in reversed(list(entries.values())):
            # Others are not published, are profiles, or were booked before ledgers recorded bundles.
            if entry.state == "committed" and entry.bundle is not None:
                yield folder / entry.bundle, entry.release_id


class _EarlierBundles:
    """Bundles whose keys are taken, and the releases whose keys these have.

    A bundle has a row for every key of the releases that it was made after, so of a long series the
    last bundle is enough.
    """

    def __init__(self, tables: Sequence[str]) -> None:
        self.tables = tables
        self.releases: set[str] = set()
        self.bundles: list[tuple[Path, Certificate]] = []
        self.covered: dict[str, set[str]] = {table: set() for table in tables}

    def has_keys_of(self, release_id: str) -> bool:
        """Whether a bundle has all keys of a release, for every table."""
        return all(release_id in some for some in self.covered.values())

    def add(self, root: Path, certificate: Certificate) -> None:
        before = (certificate.after or {"releases": []})["releases"]
        self.releases |= {certificate.release_id, *before}
        self.bundles.append((root, certificate))
        for table, some in self.covered.items():
            some.add(certificate.release_id)
            some.update(before if table in certificate.tables else ())

    def keys(self, table: str, reading: Reading) -> pa.Table | None:
        """The distinct keys of a table that may be published today; None if no bundle has any."""
        parts = [part for bundle in self.bundles for part in _keys(table, *bundle, reading)]
        if parts and table == "itemset":
            raise UsageError(
                "--after names bundles with an itemset table, whose keys cannot be counted again: leave "
                "itemset out of --tables"
            )
        if not parts:
            return None
        return in_order(reading.allowed(distinct(_clean(pa.concat_tables(parts), reading))))


def _id_at(root: Path) -> str | None:
    """The id of the release in a folder; None if there is no bundle."""
    try:
        return read_certificate(root).release_id
    except BundleError:
        return None


def _read_published(root: Path, entries: Mapping[str, Entry], ledger: Ledger) -> Certificate:
    """The certificate of a bundle that is, byte for byte, one that the source published."""
    try:
        certificate = read_certificate(root)
        entry = entries.get(certificate.release_id)
        if entry is None:
            raise _refusal(root, _why_unknown(certificate.release_id, ledger))
        if entry.state != "committed":
            raise _refusal(root, "the ledger has not booked it as published")
        if not certificate.private:
            raise _refusal(root, "its noise came from a known seed, so its keys are not private")
        if entry.checksum is None:
            raise _refusal(
                root, "it was booked by a version of murmurlog that did not record its checksum"
            )
        if checksum_of(root) != entry.checksum or stated_sums(root) != sums(root):
            raise _refusal(root, "its files are not those that were published")
    except (BundleError, OtherVersion) as error:
        raise _refusal(root, str(error)) from None
    return certificate


def _why_unknown(release_id: str, ledger: Ledger) -> str:
    """Why a release is not among the entries of the source."""
    other = ledger.find(release_id)
    if other is None:
        return f"the ledger {ledger.path.name} has no entry {release_id}"
    return f'it is booked on source "{other.source}": only keys of the same source are paid for already'


def _check_alike(
    root: Path,
    certificate: Certificate,
    entry: Entry,
    unit: str,
    neighbours: str,
    reading: Reading,
) -> None:
    """Raises unless the keys of a bundle mean what the keys of this release will."""
    if (entry.unit, entry.neighbours) != (unit, neighbours):
        raise _refusal(
            root, f"it protects one {entry.unit} ({entry.neighbours}), not {unit} ({neighbours})"
        )
    now, then = reading.as_json(), dict(certificate.text)
    for text in (now, then):  # texts are normalised again, by the Unicode of today
        text["normaliser"] = text["normaliser"].partition(" (")[0]
    with_urls = not WITH_URLS.isdisjoint(certificate.tables)
    for name, what in (("normaliser", "text rules"), ("keys", "--keys"), ("url", "--url")):
        if then.get(name) != now[name] and (name != "url" or with_urls):
            old, new = then.get(name) or "normalised", now[name] or "normalised"
            raise _refusal(root, f"its keys were made with {what} {old}, not {new}")
    if certificate.by != reading.by:
        raise _refusal(root, "its keys have another --by column, or other public values")


def _keys(table: str, root: Path, certificate: Certificate, reading: Reading) -> Iterator[pa.Table]:
    """The keys that a bundle published for a table, under the names that columns have inside.

    A published click or pair makes its queries known, too.
    """
    inside = reading.by and reading.by.inside()
    schema = keys_schema(keys_of(table, inside))
    by = [certificate.by.column] if certificate.by else []
    for name in certificate.tables:
        columns = []
        if name == table:
            columns = [list(keys_of(table, certificate.by))]
        elif table == "query" and name in NAMING:
            queries = ("query", "next_query") if name == "pair" else ("query",)
            columns = [[column, *by] for column in queries]
        if columns:
            published = sound_table(root, certificate, name)
            for some in columns:
                yield published.select(some).rename_columns(schema.names).cast(schema)


def _clean(keys: pa.Table, reading: Reading) -> pa.Table:
    """The keys by the text rules of today, as keys of a pool are; those of which nothing is left, left out."""
    for name, rules in CLEANED.items():
        if name in keys.column_names:
            clean = cleaner(reading.keys if rules else None)
            texts = keys[name].combine_chunks().dictionary_encode()
            new = pa.array([clean(text) for text in texts.dictionary.to_pylist()], pa.string())
            place = keys.column_names.index(name)
            keys = keys.set_column(place, name, new.take(texts.indices))
    return keys.drop_null()


def _refusal(root: Path, why: str) -> UsageError:
    return UsageError(f"--after {str(root)!r}: {why}. Nothing was booked.")
