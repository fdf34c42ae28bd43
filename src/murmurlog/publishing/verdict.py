"""The verdict on a release: how much of it can be relied on, why it is small, and what would help.

A function of the certificate and the published tables alone, so it costs no privacy: logs with equal
published tables have equal verdicts. It solves thresholds for other settings and draws nothing; the
rows that a lower threshold lets through follow from the published counts (`bundle/popularity.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from murmurlog.bundle.certificate import Certificate, TableClaim
from murmurlog.bundle.label import merge_sentences, needs
from murmurlog.bundle.popularity import FEW, Popularity
from murmurlog.errors import MurmurlogError
from murmurlog.mechanisms import Accounted, Mechanism, Pool, Rounds, parse
from murmurlog.publishing.plan import LEFT_OUT, plan_tables

SOLVED = ("rounds", "threshold", "korolova", "left-out")  # mechanisms solved for other settings
LARGER = 2  # times the epsilon, and times the users
# What a pool of 100,000 public keys added in simulations where it listed 60 % of the published items.
POOL_GAIN, POOL_COVER = (1.3, 1.5), 0.6
TEN = math.sqrt(10)  # units with ten candidates each give an item this part less weight


@dataclass(frozen=True, kw_only=True)
class Lever:
    """A change of the release, and the forecast of the rows it would have then."""

    change: str
    rows: int
    caveat: str = ""

    def __str__(self) -> str:
        return f"{self.change}: about {self.rows:,}{self.caveat}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a published release is good for, and what would make it larger."""

    rows: Mapping[str, int]
    reliable: Mapping[str, int | None]  # None: the table has no counts
    volume: float | None  # share of the searches; None: no private number of it was released
    needed: Mapping[str, str]  # what an item needs to be published
    table: str | None = None  # the table of the forecast
    basis: str = ""  # what the forecast is based on, or why there is none
    levers: Sequence[Lever] = field(default=())  # the one that helps most first

    def lines(self) -> list[str]:
        """The verdict in at most eight lines."""
        sizes = []
        for name, n in self.rows.items():
            text = f"{name}: {n:,} row{'s' * (n != 1)}" if n else f"{name}: nothing was published"
            if n and self.reliable[name] is not None:
                text += f", {self.reliable[name]:,} reliable"
            sizes.append(text)
        volume = (
            "share of the searches: no private number of it was released; --tables query,left_out "
            f"measures it for {100 * LEFT_OUT:g} % of the budget"
            if self.volume is None
            else f"share of the searches: about {100 * self.volume:.0f} %"
        )
        lines = ["; ".join(sizes), volume]
        if self.needed:
            lines.append(" ".join(merge_sentences(self.needed)))
        if self.basis:
            lines.append(self.basis)
        best = [" (helps most)", *[""] * len(self.levers)]
        return lines + [f"- {lever}{mark}" for lever, mark in zip(self.levers, best, strict=False)]

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": dict(self.rows),
            "reliable": dict(self.reliable),
            "volume": self.volume,
            "needed": dict(self.needed),
            "forecast": {
                "table": self.table,
                "from": self.basis,
                "levers": [
                    {"change": lever.change, "rows": lever.rows, "caveat": lever.caveat.strip(", ")}
                    for lever in self.levers
                ],
            },
        }


def judge(certificate: Certificate, tables: Mapping[str, pa.Table]) -> Verdict:
    """The verdict on a bundle with this certificate and these published tables."""
    claims, unit = certificate.tables, certificate.guarantee.unit
    counted = {name: claim for name, claim in claims.items() if name != "left_out"}
    left_out = (
        claims["left_out"].notes.get("searches left out, %") if "left_out" in claims else None
    )
    sizes: dict[str, Any] = {
        "rows": {name: claims[name].rows for name in counted},
        "reliable": {name: _reliable(tables[name]) for name in counted},
        "volume": None if left_out is None else 1 - left_out / 100,
    }
    if certificate.guarantee.notion == "none":
        return Verdict(**sizes, needed={})
    sizes["needed"] = {name: needs(claim, unit)[0] for name, claim in counted.items()}
    table = "query" if "query" in counted else next(iter(counted))
    forecast = _Forecast(certificate, table, tables[table])
    if forecast.level is None:
        name = parse(claims[table].mechanism).name
        return Verdict(**sizes, basis=f"no forecast is available for {name}")
    levers = [lever for lever in forecast.levers() if lever.rows > claims[table].rows]
    levers.sort(key=lambda lever: -lever.rows)
    basis = (
        forecast.basis if levers else f"no change that was tried would publish more {table} rows"
    )
    return Verdict(**sizes, table=table, basis=basis, levers=tuple(levers))


def _reliable(table: pa.Table) -> int | None:
    if "reliable" not in table.column_names:
        return None
    return int(table["reliable"].to_pylist().count(True))


class _Forecast:
    """Forecasts for one table of a release, whose published counts are given."""

    def __init__(self, certificate: Certificate, table: str, published: pa.Table) -> None:
        self.certificate, self.table = certificate, table
        self.published = certificate.tables[table].rows
        mechanism = parse(certificate.tables[table].mechanism)  # a row of a log is no item
        self.takes_pool = (
            table in Pool.tables and isinstance(mechanism, Rounds) and not mechanism.pools
        )
        self.level = None if table == "log" else _level(mechanism)  # users for even odds
        self.popularity = Popularity.of(certificate, published, level=self.level or 1.0)
        most = " at most" if published.num_rows < FEW else ""
        self.basis = f"forecast of {table} rows{most}, from {self.popularity.basis}:"

    def rows(self, factor: float) -> int:
        """The expected rows if an item needs `factor` times as many users as now."""
        return self.popularity.rows(self.popularity.level * factor)

    def levers(self) -> list[Lever]:
        """The changes that help, each with its forecast."""
        epsilon, others = self.certificate.guarantee.epsilon, len(self.certificate.tables) - 1
        changes = {}
        if others:
            many = "two tables" if others == 1 else f"{others + 1} tables"
            changes[f"{self.table} alone instead of {many}"] = self._factor([self.table], epsilon)
        more = f"epsilon {epsilon * LARGER:.3g} instead of {epsilon:.3g}"
        changes[more] = self._factor(list(self.certificate.tables), epsilon * LARGER)
        changes["twice as many users"] = 1 / LARGER
        levers = [
            Lever(change=change, rows=self.rows(factor))
            for change, factor in changes.items()
            if factor is not None and factor < 1
        ]
        if self.takes_pool:
            low, high = (f"{100 * (gain - 1):.0f}" for gain in POOL_GAIN)
            levers.append(
                Lever(
                    change=f"--pool with public keys that list {100 * POOL_COVER:.0f} % of these rows",
                    rows=round(self.published * sum(POOL_GAIN) / 2),
                    caveat=f", in simulations {low} to {high} % more",
                )
            )
        return levers

    def _factor(self, names: list[str], epsilon: float) -> float | None:
        """How many times as many users an item needs if only these tables are made, at this epsilon."""
        try:
            then = _level(self._plan(names, epsilon))
        except (MurmurlogError, ArithmeticError):  # no noise can be certified for this setting
            return None
        return None if self.level is None or then is None else then / self.level

    def _plan(self, names: list[str], epsilon: float) -> Mechanism:
        claims = {name: self.certificate.tables[name] for name in names}
        mechanisms = {name: parse(claim.mechanism).name for name, claim in claims.items()}
        if unsolved := set(mechanisms.values()) - set(SOLVED):
            raise MurmurlogError(f"{', '.join(unsolved)} is not solved for other settings")
        mechanisms.pop("left_out", None)
        g = self.certificate.guarantee
        plans, _ = plan_tables(
            names,
            mechanism=mechanisms,
            epsilon=epsilon,
            delta=g.plain_delta,
            shares=_shares(claims),
            per_user={name: claim.parameters["per_user"] for name, claim in claims.items()},
            unit=g.unit,
            neighbours=g.neighbours,
            options=_options(claims),
        )
        return plans[self.table].mechanism


def _level(mechanism: Mechanism) -> float | None:
    """The users of an item that is published with even odds; of rounds, with ten candidates each."""
    if (users := mechanism.passes(0.5)) is not None:
        return users or None
    return mechanism.needed_weight() * TEN if isinstance(mechanism, Accounted) else None


def _shares(claims: Mapping[str, TableClaim]) -> dict[str, float] | None:
    """The shares of the budget; None if they are the default ones."""
    epsilons = {name: claim.guarantee.epsilon for name, claim in claims.items()}
    usual = [epsilon for name, epsilon in epsilons.items() if name != "left_out"]
    if max(usual) <= min(usual) * 1.05:
        return None
    return {name: epsilon / sum(epsilons.values()) for name, epsilon in epsilons.items()}


def _options(claims: Mapping[str, TableClaim]) -> dict[str, Any]:
    """The options of rounds, as far as the certificate has them."""
    rounds = [claim for claim in claims.values() if parse(claim.mechanism).name == "rounds"]
    if not rounds:
        return {}
    parameters = rounds[0].parameters
    counts = {"count_share": 0.0} if rounds[0].count is None else {}
    return {"rounds": len(parameters["thresholds"]), **counts}
