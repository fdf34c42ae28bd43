"""The result of an audit that also looks inside: faults, what was checked, and what tests of the noise would show."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from draw_record import StagePower

from murmurlog.auditing.result import Audit

Rows = list[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A condition of the proof that does not hold."""

    setting: str
    what: str

    def as_json(self) -> dict[str, str]:
        return {"setting": self.setting, "what": self.what}


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check without worlds: what it looked at, and what it would have seen."""

    name: str
    what: str
    seen: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


CHECKS = {
    check.name: check
    for check in (
        Check(
            name="repeated noise",
            what="two sources of noise in one process and in two forked ones",
            seen="noise that comes twice",
        ),
        Check(
            name="counting",
            what="the counts of both logs of every pair, with the same randomness",
            seen="one user who moves one count more, or by more, than the bound allows",
        ),
        Check(
            name="the ledger",
            what="random charges against a second account; releases published, stopped and refused",
            seen="an answer or a remainder that is off by 1e-5 of the cap; noise before the booking",
        ),
        Check(
            name="reading and bounds",
            what="text files in small pieces, the screen, --by; bounds and weights of random tables in random partitions",
            seen="one row lost or changed; one item beyond the bound, or chosen by other users' rows",
        ),
        Check(
            name="totals",
            what="epsilon and delta of tables and of the release, from the printed texts",
            seen="a delta that is stated too small by 1e-6 of it",
        ),
        Check(
            name="pools and earlier keys",
            what="every round of keys that somebody or nobody holds; which keys have a row",
            seen="a key without noise, a wrong threshold, a row too many or too few",
        ),
        Check(
            name="rounds",
            what="weights, memory, thresholds, attention, histogram and counts of every round",
            seen="any number that the printed text does not give",
        ),
        Check(
            name="side channels",
            what="every line, size and sum of bundles with and without one user",
            seen="what differs in every release",
        ),
    )
}


@dataclass(kw_only=True)
class WhiteBoxAudit(Audit):
    """The result of the attacks, and of everything that was checked inside."""

    faults: list[Fault] = field(default_factory=list)
    power: list[StagePower] = field(default_factory=list)  # what tests of the noise would show
    checks: list[Check] = field(default_factory=list)  # made without worlds

    def did(self, check: str) -> None:
        """Notes a check by its name."""
        if CHECKS[check] not in self.checks:
            self.checks.append(CHECKS[check])

    def add(self, setting: str, faults: Sequence[str]) -> None:
        """Notes the faults of a setting."""
        self.faults += [Fault(setting=setting, what=what) for what in faults]

    @property
    def violations(self) -> list[str]:
        """One sentence for each fault and each violation."""
        return [*(f"{fault.setting}: {fault.what}" for fault in self.faults), *super().violations]

    def as_json(self) -> dict[str, Any]:
        return {
            **super().as_json(),
            "faults": [each.as_json() for each in self.faults],
            "power": [each.as_json() for each in self.power],
            "checked": [each.as_json() for each in self.checks],
        }


def noise_in_rows(made: WhiteBoxAudit) -> Rows:
    """A head and a row for each table: the weakest and the strongest of its tests."""
    rows: Rows = [("noise of table", "stages", "draws of each", "less noise is seen from")]
    groups: dict[str, list[StagePower]] = {}
    for each in made.power:
        extra = ", pools and earlier keys" if " of " in each.stage and each.table == "query" else ""
        groups.setdefault(each.table + extra, []).append(each)
    for name, some in groups.items():
        draws, parts = [each.draws for each in some], [100 * each.smallest for each in some]
        rows.append(
            (name, str(len(some)), _span(draws, "{:,.0f}"), _span(parts, "{:.1f} %"))
        )  # fmt: skip
    return rows


def _span(values: Sequence[float], form: str) -> str:
    texts = form.format(min(values)), form.format(max(values))
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)
