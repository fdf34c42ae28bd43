"""A release: from a request to a published bundle.

Order matters. Everything that can fail without drawing noise comes before the reservation; after
it the budget is spent, whatever happens.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog import __version__
from murmurlog.bundle.certificate import (
    ENTROPY,
    METHOD,
    TEXT_KEYS,
    Certificate,
    TableClaim,
)
from murmurlog.bundle.schema import count_of
from murmurlog.bundle.write import publish
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.log import Log
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import Entropy, SystemEntropy
from murmurlog.publishing.booking import check_noise, state_booking
from murmurlog.publishing.plan import (
    Plan,
    drawn_with,
)
from murmurlog.publishing.preparation import Prepared, prepare
from murmurlog.publishing.request import ReleaseRequest
from murmurlog.publishing.spending import spending
from murmurlog.publishing.tables import Made, make
from murmurlog.publishing.verdict import Verdict, judge


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a release came to. `rows` is empty for a dry run."""

    guarantee: Guarantee
    plans: Mapping[str, Plan]
    rows: Mapping[str, int]
    out: Path
    release_id: str
    booked: bool
    broken: Mapping[str, int]  # for the owner's eyes
    notes: Mapping[str, Mapping[str, Any]]  # public remarks on each table
    certificate: Certificate | None = field(default=None, repr=False)  # None: a dry run
    tables: Mapping[str, pa.Table] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def verdict(self) -> Verdict | None:
        """What the release is good for and what would help; from its public content alone."""
        return None if self.certificate is None else judge(self.certificate, self.tables)

    def as_json(self) -> dict[str, Any]:
        return {
            "guarantee": self.guarantee.as_json(),
            "tables": {
                name: {
                    "rows": self.rows.get(name),
                    "guarantee": plan.guarantee.as_json(),
                    "parameters": plan.mechanism.parameters(),
                    "mechanism": str(plan.mechanism),
                    "passes": plan.passes(),
                    "notes": dict(self.notes.get(name, {})),
                }
                for name, plan in self.plans.items()
            },
            "out": str(self.out) if self.rows else None,
            "release_id": self.release_id if self.rows else None,
            "booked": self.booked,
            "verdict": None if self.verdict is None else self.verdict.as_json(),
        }


def release(
    source: LogSource,
    *,
    out: str | Path,
    epsilon: float | None = None,
    delta: float | None = None,
    tables: Sequence[str] | None = None,
    mechanism: str | Mapping[str, str] | None = None,
    ledger: str | Path | None = None,
    source_name: str | None = None,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
    **keywords: Any,
) -> Outcome:
    """Publishes the tables of a log as a bundle under one guarantee, and books it.

    `source` is a path, or a table of pandas, polars, Arrow, DuckDB or Ibis, which is read as a stream.
    `mechanism` is one for all tables, or one a table. `keywords` are named as the flags of
    `murmurlog release` are (per_user=20, unit="user-day", count="rows", dry_run=True): see
    `ReleaseRequest` for those of every release, a mechanism's page for its own. The bundle appears
    whole or not at all. With a ledger its cost is reserved before any noise is drawn; from then on it
    stays spent even if the release fails.
    """
    request = ReleaseRequest.of(
        source, out=out, epsilon=epsilon, delta=delta, tables=tables, mechanism=mechanism,
        ledger=ledger, source_name=source_name, **keywords,
    )  # fmt: skip
    return carry_out(request, entropy=entropy, say=say)


def carry_out(
    request: ReleaseRequest,
    *,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """The release that is asked for."""
    with ExitStack() as copies:
        return _carry_out(request, copies, entropy=entropy or SystemEntropy(), say=say)


def _carry_out(
    request: ReleaseRequest, copies: ExitStack, *, entropy: Entropy, say: Callable[[str], None]
) -> Outcome:
    asked = prepare(request, copies, say)
    check_noise(entropy, asked.book)
    if request.dry_run:
        return _outcome(asked)
    with spending(asked.spending()):
        return _make(asked, entropy, say)


def _make(asked: Prepared, entropy: Entropy, say: Callable[[str], None]) -> Outcome:
    """Reads, counts, books, draws and writes what was prepared."""
    request = asked.request
    with asked.place.connect() as running:
        log, dropped = _read(asked, running, entropy, say)
        made = make(
            asked.plans, log, asked.view, asked.reading, entropy=entropy,
            set_only=request.content.set_only, reserve=asked.reserve, say=say,
        )  # fmt: skip
        certificate = _certificate(asked, made, engine=running, entropy=entropy)
    say("writing the bundle")
    with asked.booked() as commit:
        publish(asked.target, tables=made.tables, certificate=certificate, ready=commit)
    return _outcome(
        asked,
        rows={kind: table.num_rows for kind, table in made.tables.items()},
        booked=asked.book is not None,
        broken=dropped,
        notes=made.notes,
        certificate=certificate,
        tables=made.tables,
    )


def _read(
    asked: Prepared, engine: Engine, entropy: Entropy, say: Callable[[str], None]
) -> tuple[Log, Mapping[str, int]]:
    """The rows to release, and how many of the source were dropped, by reason."""
    found = asked.source
    urls = "url" in found.columns and not {"click", "log", "left_out"}.isdisjoint(asked.plans)
    log = asked.reading.read(
        found, engine=engine, urls=urls, unit=asked.view.unit, entropy=entropy, say=say
    )
    return log, {**log.broken, **log.screened}


def _outcome(asked: Prepared, **made: Any) -> Outcome:
    """What is told to the owner; of a dry run, nothing was made."""
    nothing: dict[str, Any] = {"rows": {}, "booked": False, "broken": {}, "notes": {}}
    return Outcome(
        guarantee=asked.total, plans=asked.plans, out=asked.target, release_id=asked.release_id,
        **(nothing | made),
    )  # fmt: skip


def _certificate(asked: Prepared, made: Made, *, engine: Engine, entropy: Entropy) -> Certificate:
    plans, view, found, account = asked.plans, asked.view, asked.source, made.account
    stated = asked.request.statements
    return Certificate(
        release_id=asked.release_id,
        published=datetime.now(UTC).date().isoformat(),
        murmurlog=__version__,
        private=not entropy.seeded,
        guarantee=asked.total,
        tables={
            kind: TableClaim(
                rows=made.tables[kind].num_rows,
                mechanism=str(plan.mechanism),
                guarantee=plan.guarantee,
                count=count_of(made.tables[kind]),
                parameters=plan.mechanism.parameters(),
                passes=plan.passes(),
                notes=made.notes[kind],
                counting=made.counting.get(kind),
            )
            for kind, plan in plans.items()
        },
        bound=str(view.way),
        text=asked.reading.as_json()
        | {
            "source": {
                "format": found.shape,
                "format_from": found.settled["format"],
                "columns_from": found.settled["columns"],
            },
            "gap": view.gap if {"pair", "session"} & {*plans} else None,
            "set_size": view.set_size if "itemset" in plans else None,
            "consecutive": view.consecutive if "itemset" in plans else None,
            **(asked.windows.stated or {}),
        },
        engine=engine.version,
        sampler={
            "method": METHOD,
            "entropy": ENTROPY[not entropy.seeded],
            "keys": TEXT_KEYS,
            "delta": drawn_with((plan.mechanism for plan in plans.values()), asked.total),
        },
        by=asked.reading.by,
        declared_users=asked.request.budget.users,
        unprotected=tuple(stated.unprotected),
        after=asked.earlier.as_json(),
        booked=None
        if account is None
        else state_booking(account, asked.total, loss=asked.loss, distance=asked.distance),
        about=dict(stated.about or {}),
    )
