"""All steps on an invented log, from generating it to a verified bundle."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmurlog.auditing.verify import Report, verify
from murmurlog.bundle.estimates import describe_count, published_intervals
from murmurlog.bundle.read import load
from murmurlog.bundle.schema import KEYS
from murmurlog.bundle.write import check_target
from murmurlog.logs.invented import generate as synth
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_filter import CAP_DELTA, CAP_EPSILON
from murmurlog.publishing.release import Outcome, release

SOURCE = "demo"


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The result of the demonstration: its folder, the release and the checks of the bundle."""

    folder: Path
    outcome: Outcome
    report: Report
    log_rows: int

    @property
    def exit_code(self) -> int:
        """0 if the bundle is as it should be; a seeded one should fail as not private, only."""
        failed = [check.name for check in self.report.checks if not check.ok]
        return 0 if failed == ([] if self._private else ["noise"]) else self.report.exit_code

    @property
    def report_page(self) -> Path:
        """The page that shows the bundle."""
        return Path(self.outcome.out) / "report.html"

    @property
    def _private(self) -> bool:
        return load(self.outcome.out).certificate.private

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "report": str(self.report_page),
            "release": self.outcome.as_json(),
            "verify": self.report.as_json(),
        }

    def lines(self) -> list[str]:
        lines = [
            *self.report.lines(),
            "",
            f"From {self.log_rows} invented rows, {self.outcome.guarantee}:",
        ]
        bundle = load(self.outcome.out)
        for name, table in bundle.tables.items():
            lines += ["", f"{name}: {table.num_rows} rows, the first of them"]
            claim = bundle.certificate.tables[name]
            lows, highs = published_intervals(name, table, claim) or ([], [])
            for row, low, high in zip(table.slice(0, 5).to_pylist(), lows, highs, strict=False):
                numbers = (f"{number:,.0f}" for number in (row["users"], low, high))
                count = describe_count(
                    *numbers, of=f"{claim.guarantee.unit}s", meaning=claim.meaning
                )
                lines.append(f"  {'  '.join(row[key] for key in KEYS[name])}: {count}")
        verdict = "a verified bundle" if self._private else "a bundle that is NOT private (seeded)"
        lines += [
            "",
            f"{self.outcome.out} holds {verdict}:",
            f"  {self.outcome.out}/README.md       what it is, in words",
            f"  {self.outcome.out}/privacy.json    the certificate",
            f"  {self.outcome.out}/data            the tables, as Parquet",
            *[f"  murmurlog ledger show --ledger {self.folder}/ledger.db"] * self.outcome.booked,
            "",
            f"Look at it in a browser: {self.report_page}",
        ]
        return lines


def demo(
    *, out: Path, rows: int, seed: int | None = None, say: Callable[[str], None] = lambda _: None
) -> Demo:
    """Generates a log, releases it under a cap, books and verifies it. With a seed nothing is booked."""
    check_target(out)
    say(f"inventing a log of {rows} rows")
    log = synth.invent(rows=rows, seed=1 if seed is None else seed)
    out.mkdir()
    synth.write(log, out / "log.parquet")
    ledger = out / "ledger.db" if seed is None else None
    if ledger is not None:
        Ledger(ledger).cap(SOURCE, epsilon=CAP_EPSILON, delta=CAP_DELTA)
    outcome = release(
        str(out / "log.parquet"),
        out=out / "bundle",
        ledger=ledger,
        source_name=None if ledger is None else SOURCE,
        users=log.users,
        about={"title": "An invented search log", "license": "CC0-1.0"},
        entropy=SystemEntropy() if seed is None else SeededEntropy(seed),
        say=say,
    )
    say("verifying")
    return Demo(
        folder=out,
        outcome=outcome,
        report=verify(out / "bundle", ledger=ledger),
        log_rows=log.rows,
    )
