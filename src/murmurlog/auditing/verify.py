"""Checking a bundle without the log and without believing it.

The guarantee is computed again from the mechanisms' parameters; the cards are made again from the
certificate and tables and compared byte by byte; the tables are held against what the mechanism can produce.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from murmurlog import __version__
from murmurlog.bundle.bundle import (
    SUMS,
    expected_files,
    make_cards,
    metadata,
    read_certificate,
    read_table,
    stated_json,
    stated_sums,
    sums,
)
from murmurlog.bundle.certificate import ABOUT, ENTROPY, METHOD, Certificate, TableClaim
from murmurlog.bundle.consistency import drawn, reconciled
from murmurlog.bundle.schema import NOISY, NOTES, SEVERAL, WAYS, in_order, tied
from murmurlog.bundle.table_rules import table_fault
from murmurlog.errors import BundleError, MurmurlogError
from murmurlog.mechanisms import Limited, Mechanism, Remarking, parse
from murmurlog.privacy import compose
from murmurlog.privacy.safelog import LONGEST
from murmurlog.publishing.ledger import Entry, Ledger
from murmurlog.publishing.plan import PROBABILITIES, drawn_with, total_of

ROUNDING = 1 + 1e-9  # sums of floating-point numbers


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at. `corrupt` failures mean the bundle is not what was written."""

    name: str
    ok: bool
    message: str
    corrupt: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every check of a bundle, in order."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def exit_code(self) -> int:
        """0, 1 if a claim does not hold, 6 if the bundle is corrupt."""
        failed = [check for check in self.checks if not check.ok]
        return 6 if any(check.corrupt for check in failed) else 1 if failed else 0

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [vars(check) for check in self.checks]}


def verify(folder: str | Path, *, ledger: str | Path | None = None) -> Report:
    """The checks of the bundle in a folder, and of its ledger entry if a ledger is given."""
    root = Path(folder)
    book = Ledger(Path(ledger), must_exist=True) if ledger else None
    certificate = read_certificate(root)
    checks = [_check("files", _files, root, certificate, corrupt=True)]
    if checks[0].ok:
        checks.append(_check("certificate", _certificate, root, certificate))
        checks.append(_check("guarantee", _guarantee, root, certificate))
        checks.append(_check("noise", _noise, root, certificate))
        checks += [
            _check(f"table {name}", _table(name), root, certificate) for name in certificate.tables
        ]
        if certificate.consistent:
            checks.append(_check("consistent", _consistent, root, certificate))
        checks.append(_check("cards", _cards, root, certificate))
    if book:
        checks.append(_check("ledger", _booked(book), root, certificate))
    return Report(checks=tuple(checks))


class _Failed(Exception):
    pass


_Look = Callable[[Path, Certificate], str]


def _check(
    name: str, look: _Look, root: Path, certificate: Certificate, *, corrupt: bool = False
) -> Check:
    try:
        with np.errstate(all="ignore"):  # forged numbers may overflow; what they give is refused
            return Check(name=name, ok=True, message=look(root, certificate))
    except _Failed as failure:
        return Check(name=name, ok=False, message=str(failure), corrupt=corrupt)
    except BundleError as error:
        return Check(name=name, ok=False, message=str(error), corrupt=True)
    except MurmurlogError as error:
        return Check(name=name, ok=False, message=str(error))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        # Only a forged bundle gets here: numbers out of all proportion, or no numbers at all.
        return Check(name=name, ok=False, message=f"cannot be computed ({type(error).__name__})")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Failed(message)


def _files(root: Path, certificate: Certificate) -> str:
    for path in root.rglob("*"):
        _require(not path.is_symlink(), f"{path.relative_to(root)} is a link; a bundle has none")
        _require(
            path.is_file() or path.is_dir(), f"{path.relative_to(root)} is neither file nor folder"
        )
    folders = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir()} - {"data"}
    _require(not folders, f"not part of a bundle: {', '.join(sorted(folders))[:200]}")
    found = {str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir()}
    expected = expected_files(certificate)
    _require(found >= expected, f"missing: {', '.join(sorted(expected - found))}")
    _require(found <= expected, f"not part of a bundle: {', '.join(sorted(found - expected))}")
    stated, actual = stated_sums(root), sums(root)
    changed = sorted(name for name in actual if stated.get(name) != actual[name])
    _require(not changed, f"the checksum is wrong: {', '.join(changed)}")
    _require(set(stated) == set(actual), f"{SUMS} lists files that are not there")
    return f"{len(actual)} files match their checksums"


def _certificate(root: Path, certificate: Certificate) -> str:
    stated = stated_json(root)
    extra = sorted(set(stated) - set(certificate.as_json()))
    _require(not extra, f"privacy.json holds keys of no meaning here: {', '.join(extra)}")
    _require(stated == certificate.as_json(), "privacy.json contradicts itself or holds more")
    set_size = certificate.text["set_size"]
    _require(
        set_size is None or set_size <= LONGEST,
        f"privacy.json states sets of {set_size} queries; a release makes sets of at most {LONGEST}",
    )
    strange = sorted(set(certificate.about) - set(ABOUT))
    _require(not strange, f"`about` holds other things than {', '.join(ABOUT)}")
    return f"release {certificate.release_id}, {certificate.published}"


def _guarantee(root: Path, certificate: Certificate) -> str:
    total = certificate.guarantee
    _require(total.notion != "none", "this bundle has NO privacy guarantee and claims none")
    _require(total.delta < 1, "a delta of 1 promises nothing")
    for name, claim in certificate.tables.items():
        mechanism = parse(claim.mechanism)
        _require(
            str(mechanism) == claim.mechanism,
            f"{name}: {claim.mechanism} is not how the mechanism {mechanism} is written",
        )
        _require(name in mechanism.tables, f"{name}: {mechanism} makes no such table")
        _require(
            {str(p): n for p in PROBABILITIES if (n := mechanism.passes(p)) is not None}
            == dict(claim.passes),
            f"{name}: `passes` is not what {mechanism} gives",
        )
        _require(
            set(claim.notes) <= NOTES
            and all(n is None or type(n) in (int, float) for n in claim.notes.values()),
            f"{name}: `notes` holds other remarks than numbers of a known name",
        )
        _require(
            mechanism.parameters() == dict(claim.parameters),
            f"{name}: the parameters are not those of {claim.mechanism}",
        )
        stated = claim.guarantee
        proved = mechanism.guarantee(
            epsilon=stated.epsilon, unit=total.unit, neighbours=total.neighbours
        )
        _require(proved.notion == stated.notion, f"{name}: {claim.mechanism} is {proved.notion}")
        _require(
            proved.delta <= stated.delta * ROUNDING
            and proved.plain_delta <= stated.plain_delta * ROUNDING,
            f"{name}: {claim.mechanism} has delta {proved.delta:.4g} at epsilon "
            f"{stated.epsilon:.6g} per {total.unit}, not {stated.delta:.4g}",
        )
        _require(
            set(proved.assumptions) <= set(total.assumptions),
            f"{name}: the proof needs assumptions that privacy.json does not state",
        )
    public = set(certificate.tables) & set(SEVERAL)
    _require(
        not certificate.by or not (public or "A4" in total.assumptions),
        "tables of this kind are never split by a column",
    )
    if total.notion == "pdp":
        declared, needed = (
            certificate.declared_users,
            [parse(claim.mechanism).parameters()["users"] for claim in certificate.tables.values()],
        )
        _require(
            declared is not None and all(declared <= users for users in needed),
            "probabilistic DP is computed for fewer users than are declared",
        )
    summed = compose([claim.guarantee for claim in certificate.tables.values()])
    if len(certificate.tables) > 1 and summed.epsilon > total.epsilon * ROUNDING:
        claims = certificate.tables.values()
        parts = [(parse(claim.mechanism), claim.guarantee) for claim in claims]
        summed = total_of(parts, total.epsilon) or summed
    _require(
        summed.unit == total.unit and summed.neighbours == total.neighbours,
        "the tables' unit or neighbours are not the release's",
    )
    _require(
        summed.notion == total.notion
        and summed.epsilon <= total.epsilon * ROUNDING
        and summed.delta <= total.delta * ROUNDING
        and summed.plain_delta <= total.plain_delta * ROUNDING,
        f"the tables add up to {summed}, more than the stated {total}",
    )
    return f"recomputed: {total}"


def _noise(root: Path, certificate: Certificate) -> str:
    _require(certificate.private, "the noise was drawn from a known seed: this is NOT private")
    _require(
        certificate.sampler.get("entropy") == ENTROPY[certificate.private],
        "what is said of the noise contradicts itself",
    )
    said = {name: type(value) for name, value in certificate.sampler.items()}
    _require(
        said == {"method": str, "entropy": str, "delta": float},
        "what is said of the noise is not its method, its entropy and its delta",
    )
    proved = drawn_with(
        [parse(c.mechanism) for c in certificate.tables.values()], certificate.guarantee
    )
    _require(
        certificate.sampler["method"] == METHOD
        and math.isclose(certificate.sampler["delta"], proved, rel_tol=ROUNDING - 1),
        "the noise is not said to be drawn as murmurlog draws it, or at another delta",
    )
    _require(certificate.bound in WAYS, f"there is no bound {certificate.bound!r:.40}")
    return "drawn from the operating system's entropy, as stated"


def _table(name: str) -> _Look:
    def look(root: Path, certificate: Certificate) -> str:
        claim = certificate.tables[name]
        table = read_table(root, name)
        mechanism = parse(claim.mechanism)
        faults = [_too_low(table, claim, mechanism), table_fault(name, table, certificate)]
        _require(not any(faults), "; ".join(filter(None, faults)))
        stored = pq.ParquetFile(root / "data" / f"{name}.parquet").schema_arrow
        _require(
            not any(field.metadata for field in _fields(stored)), "a column has metadata of its own"
        )
        said = {k.decode(): v.decode(errors="replace") for k, v in (stored.metadata or {}).items()}
        _require(said == metadata(certificate), "the file's own dp.* metadata differ")
        others = _Drawn(root, certificate)
        if isinstance(mechanism, Limited):
            fault = mechanism.fault(drawn(table), others)
            _require(fault is None, f"{fault}, which {mechanism} cannot give")
        _notes(claim, mechanism, table, others)
        return f"{table.num_rows} rows"

    return look


def _sound(root: Path, certificate: Certificate, name: str) -> pa.Table:
    table = read_table(root, name)
    fault = table_fault(name, table, certificate)
    _require(fault is None, f"data/{name}.parquet {fault}")
    return table


class _Drawn(Mapping[str, pa.Table]):
    """The tables of a bundle as they were drawn, each read when it is asked for."""

    def __init__(self, root: Path, certificate: Certificate) -> None:
        self.root, self.certificate = root, certificate

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self.certificate.tables:
            raise KeyError(name)
        return drawn(_sound(self.root, self.certificate, name))

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
    """Raises unless the remarks on a table are what follows from it, where something does."""
    if claim.guarantee.notion == "none":
        return  # nothing is claimed
    said = dict(claim.notes)
    if isinstance(mechanism, Remarking):
        follows = mechanism.remarks(drawn(table), others)
        same = follows is None or said == follows
    elif "user" in table.column_names:
        users = pc.count_distinct(table["user"]).as_py()
        same = not users or said.get("invented users") == users
    else:
        same = not said
    _require(same, "`notes` is not what follows from the tables")


def _too_low(table: pa.Table, claim: TableClaim, mechanism: Mechanism) -> str | None:
    """That a count is lower than the mechanism gives, if one is."""
    least = mechanism.least_users()
    if least is None or claim.count not in table.column_names:
        return None
    low = pc.min(drawn(table)[claim.count]).as_py()  # None of no rows
    if not isinstance(low, int) or low >= least:
        return None
    return f"holds a count of {low}; the mechanism gives {least} or more"


def _consistent(root: Path, certificate: Certificate) -> str:
    stored = {
        name: _sound(root, certificate, name)
        for name, claim in certificate.tables.items()
        if tied(name, claim.count, claim.parameters)
    }
    made = reconciled({name: drawn(table) for name, table in stored.items()})
    for name, table in stored.items():
        _require(
            in_order(made[name]).equals(table),
            f"{name}: `users` is not what the drawn counts of all tables come to",
        )
    moved = sum(pc.sum(pc.not_equal(t["users"], t[NOISY])).as_py() or 0 for t in stored.values())
    return f"made again from the drawn counts: {moved} rows moved"


def _cards(root: Path, certificate: Certificate) -> str:
    tables = {name: _sound(root, certificate, name) for name in certificate.tables}
    made = certificate.murmurlog
    why = (
        ""
        if made == __version__
        else f"; it was made by murmurlog {made}, this is {__version__}, so it cannot be compared and "
        "is not believed: verify with that version"
    )
    for name, text in make_cards(certificate, sums(root), tables).items():
        wanted, path = text.encode(errors="replace"), root / name
        same = path.stat().st_size == len(wanted) and path.read_bytes() == wanted
        _require(same, f"{name} is not what the certificate gives{why}")
    return "equal to what the certificate gives, byte by byte"


def _before(book: Ledger, entry: Entry) -> list[Entry]:
    """What was booked on the same source before this entry."""
    every = book.entries(entry.source)
    return every[: [e.release_id for e in every].index(entry.release_id)]


def _booked(book: Ledger) -> _Look:
    def look(root: Path, certificate: Certificate) -> str:
        entry = book.find(certificate.release_id)
        _require(entry is not None, f"no entry carries the id {certificate.release_id}")
        assert entry is not None
        total = certificate.guarantee
        _require(
            entry.epsilon * ROUNDING >= total.epsilon
            and entry.delta * ROUNDING >= total.delta
            and (entry.unit.partition(" (")[0], entry.neighbours) == (total.unit, total.neighbours),
            f"the entry books epsilon {entry.epsilon:.6g}, delta {entry.delta:.3g} per "
            f"{entry.unit}, the bundle states {total}",
        )
        _require(
            certificate.booked is not None,
            "the ledger has an entry, and the certificate says nothing of one",
        )
        assert certificate.booked is not None
        said, before = certificate.booked, _before(book, entry)
        _require(
            said["source"] == entry.source
            and said["releases_before"] == len(before)
            and all(
                math.isclose(said[name], sum(spent), rel_tol=ROUNDING - 1)
                for name, spent in (
                    ("epsilon_before", [e.epsilon for e in before]),
                    ("delta_before", [e.delta for e in before]),
                )
            ),
            f"the certificate says that {said['releases_before']} releases of "
            f"{said['source']!r:.60} were booked before it at epsilon {said['epsilon_before']:.6g}; in "
            f'the ledger it is on source "{entry.source}" after {len(before)}, at epsilon '
            f"{sum(e.epsilon for e in before):.6g}",
        )
        return f'{entry.state} on source "{entry.source}"'

    return look
