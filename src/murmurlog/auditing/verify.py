"""Verifies a bundle without the log and without trusting its statements.

The guarantee is recomputed from the mechanisms' parameters. The tables are compared with what the
mechanism can produce. The cards are compared, byte by byte, with what certificate and tables give if
this version wrote them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from murmurlog.auditing.card_checks import check_cards
from murmurlog.auditing.certificate_checks import (
    check_after,
    check_budget,
    check_certificate,
    check_guarantee,
    check_noise,
    check_windows,
)
from murmurlog.auditing.check import ROUNDING, Check, CheckFailed, require, require_value
from murmurlog.auditing.table_checks import check_table
from murmurlog.bundle.certificate import WINDOWS, Certificate
from murmurlog.bundle.files import SUMS, expected_files, stated_sums, sums
from murmurlog.bundle.read import read_certificate
from murmurlog.errors import BundleError, MurmurlogError
from murmurlog.privacy import Amounts
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_records import Entry

Step = Callable[[Path, Certificate], str]  # raises, or returns what it checked


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

    def lines(self) -> list[str]:
        """A line for each check."""
        return [f"{'ok    ' if c.ok else 'FAILED'} {c.name}: {c.message}" for c in self.checks]

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [vars(check) for check in self.checks]}


def verify(folder: str | Path, *, ledger: str | Path | None = None) -> Report:
    """The checks of the bundle in a folder, and of its ledger entry if a ledger is given."""
    root = Path(folder)
    open_ledger = Ledger(Path(ledger), must_exist=True) if ledger else None
    certificate = read_certificate(root)
    files = _check("files", _files, root, certificate, corrupt=True)
    steps = _steps(certificate) if files.ok else {}
    if open_ledger:
        steps["ledger"] = partial(_check_ledger, ledger=open_ledger)
    others = (_check(name, step, root, certificate) for name, step in steps.items())
    return Report(checks=(files, *others))


def _steps(certificate: Certificate) -> dict[str, Step]:
    """The checks of a bundle with this certificate, in order; not those of files and ledger."""
    steps: dict[str, Step] = {"certificate": check_certificate, "guarantee": check_guarantee}
    if certificate.booked is not None and "rule" in certificate.booked:
        steps["budget"] = check_budget
    if not certificate.text.keys().isdisjoint(WINDOWS):
        steps["windows"] = check_windows
    if certificate.after is not None:
        steps["after"] = check_after
    steps["noise"] = check_noise
    for name in certificate.tables:
        steps[f"table {name}"] = partial(check_table, name=name)
    return steps | {"cards": check_cards}


def _check(
    name: str, step: Step, root: Path, certificate: Certificate, *, corrupt: bool = False
) -> Check:
    """The result of a check, which returns a message or raises."""
    try:
        with np.errstate(all="ignore"):  # forged numbers may overflow; their results are rejected
            return Check(name=name, ok=True, message=step(root, certificate))
    except CheckFailed as failure:
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
        # Only a forged bundle reaches this: extreme numbers, or values that are no numbers.
        return Check(name=name, ok=False, message=f"cannot be computed ({type(error).__name__})")


def _files(root: Path, certificate: Certificate) -> str:
    for path in root.rglob("*"):
        require(not path.is_symlink(), f"{path.relative_to(root)} is a link; a bundle has none")
        require(
            path.is_file() or path.is_dir(), f"{path.relative_to(root)} is neither file nor folder"
        )
    folders = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir()} - {"data"}
    require(not folders, f"not part of a bundle: {', '.join(sorted(folders))[:200]}")
    actual_files = {str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir()}
    expected = expected_files(certificate)
    require(actual_files >= expected, f"missing: {', '.join(sorted(expected - actual_files))}")
    require(
        actual_files <= expected,
        f"not part of a bundle: {', '.join(sorted(actual_files - expected))}",
    )
    stated, actual = stated_sums(root), sums(root)
    changed = sorted(name for name in actual if stated.get(name) != actual[name])
    require(not changed, f"the checksum is wrong: {', '.join(changed)}")
    require(set(stated) == set(actual), f"{SUMS} lists files that are not there")
    return f"{len(actual)} files match their checksums"


def _before(ledger: Ledger, entry: Entry) -> list[Entry]:
    """The entries that the ledger holds for the same source before this one."""
    entries = ledger.entries(entry.source)
    return entries[: [e.release_id for e in entries].index(entry.release_id)]


def _check_filter(
    ledger: Ledger, entry: Entry, stated: Mapping[str, Any], releases_before: int
) -> None:
    """What a certificate states about a source under the rule filter, against the ledger."""
    require(
        stated["source"] == entry.source
        and stated["releases_before"] == releases_before
        and Amounts(**stated["part"]) == entry.amounts,
        f"the certificate states {stated['releases_before']} earlier releases of {stated['source']!r:.60} and "
        f'a part {stated["part"]}; the ledger holds {releases_before} for source "{entry.source}", and '
        f"{entry.amounts}",
    )
    limits, cap = Amounts(**stated["rectangle"]), stated["cap"]
    caps = [
        {"epsilon": change.epsilon, "delta": change.delta, "keys_share": change.keys_share}
        for change in ledger.cap_history(entry.source)
        if change.limits == limits
    ]
    require(cap in caps, f'source "{entry.source}" never had the cap that the certificate states')


def _check_ledger(root: Path, certificate: Certificate, *, ledger: Ledger) -> str:
    """Raises unless the ledger has the release as the bundle states it; returns its state."""
    entry = require_value(
        ledger.find(certificate.release_id), f"no entry carries the id {certificate.release_id}"
    )
    total = certificate.guarantee
    require(
        entry.epsilon * ROUNDING >= total.epsilon
        and entry.delta * ROUNDING >= total.delta
        and (entry.unit.partition(" (")[0], entry.neighbours) == (total.unit, total.neighbours),
        f"the entry books epsilon {entry.epsilon:.6g}, delta {entry.delta:.3g} per "
        f"{entry.unit}, the bundle states {total}",
    )
    stated = require_value(
        certificate.booked,
        "the ledger has an entry for this release, and the certificate states none",
    )
    before = _before(ledger, entry)
    published = {earlier.release_id for earlier in before if earlier.state == "committed"}
    after = (certificate.after or {"releases": []})["releases"]
    require(
        published.issuperset(after),
        f'`after` names releases that source "{entry.source}" had not published before',
    )
    require(
        (entry.amounts is None) == ("rule" not in stated),
        "the certificate states another rule of the source than the ledger",
    )
    if entry.amounts is not None:
        _check_filter(ledger, entry, stated, len(before))
        return f'{entry.state} on source "{entry.source}"'
    require(
        stated["source"] == entry.source
        and stated["releases_before"] == len(before)
        and all(
            math.isclose(stated[name], sum(spent), rel_tol=ROUNDING - 1)
            for name, spent in (
                ("epsilon_before", [e.epsilon for e in before]),
                ("delta_before", [e.delta for e in before]),
            )
        ),
        f"the certificate states {stated['releases_before']} earlier releases of "
        f"{stated['source']!r:.60} with epsilon {stated['epsilon_before']:.6g}; the ledger holds "
        f'{len(before)} for source "{entry.source}" with epsilon '
        f"{sum(e.epsilon for e in before):.6g}",
    )
    return f'{entry.state} on source "{entry.source}"'
