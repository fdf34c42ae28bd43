"""A release: from a request to a published bundle.

Order matters. Everything that can fail without drawing noise comes before the reservation; after
it the budget is spent, whatever happens.
"""

import secrets
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
    ABOUT,
    ENTROPY,
    METHOD,
    TEXT_KEYS,
    Certificate,
    TableClaim,
    check_lines,
)
from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.schema import TABLES, count_of
from murmurlog.bundle.write import check_target, stage
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import EngineError, Refused, UsageError
from murmurlog.logs.addresses import is_uri, mask
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source
from murmurlog.mechanisms import MECHANISMS, OptionContext, View, find_mechanism
from murmurlog.privacy import Guarantee, join_losses
from murmurlog.privacy.sampler import Entropy, SystemEntropy
from murmurlog.publishing.booking import (
    Reservation,
    check_noise,
    open_ledger,
    part_of_cap,
    state_booking,
    unit_columns,
)
from murmurlog.publishing.earlier import Earlier, find_earlier
from murmurlog.publishing.ledger_records import Account
from murmurlog.publishing.plan import (
    MECHANISM,
    Plan,
    bounds_of,
    check_claims,
    chosen_options,
    distance_of,
    drawn_with,
    losses_of,
    mechanisms_for,
    plan_tables,
    prepare_options,
    usual_mechanism,
)
from murmurlog.publishing.request import ReleaseRequest
from murmurlog.publishing.tables import ReleasedTables, TableMaker
from murmurlog.publishing.verdict import Verdict, judge
from murmurlog.publishing.windows import Windows, find_windows


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a release came to. `rows` is empty for a dry run."""

    guarantee: Guarantee
    plans: Mapping[str, Plan]
    out: Path
    release_id: str
    rows: Mapping[str, int] = field(default_factory=dict)
    booked: bool = False
    broken: Mapping[str, int] = field(default_factory=dict)  # for the owner's eyes
    # Public remarks on each table.
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
    """The release that is requested."""
    entropy = entropy or SystemEntropy()
    with ExitStack() as copies:
        # 1. What can be found and checked without a row.
        prepared = prepare(request, copies, say)
        reservation = prepared.reservation
        check_noise(entropy, reservation.ledger)
        if request.dry_run:
            return prepared.outcome()
        with reservation.note_stops():
            with request.running.connect() as engine:
                # 2. Read and count; wrong parameters and a full disk show here at the latest.
                log = _read(prepared, engine, entropy, say)
                maker = TableMaker(
                    plans=prepared.plans, log=log, view=prepared.view, reading=prepared.reading,
                    entropy=entropy, set_only=request.content.set_only, say=say,
                )  # fmt: skip
                counts = maker.count()
                # 3. Reserve: from here on the budget is spent.
                account = reservation.reserve()
                # 4. Draw, and count what waited for published keys.
                released = maker.finish(maker.draw(counts))
                certificate = _certificate(prepared, released, account, engine, entropy)
            # 5. Write. The booking is committed before the bundle appears.
            say("writing the bundle")
            with (
                reservation.explain_errors(),
                stage(prepared.target, tables=released.tables, certificate=certificate) as bundle,
                reservation.commit(bundle.checksum),
            ):
                bundle.put_in_place()
        return prepared.outcome(
            rows={kind: table.num_rows for kind, table in released.tables.items()},
            booked=reservation.ledger is not None,
            broken={**log.broken, **log.screened},
            notes=released.notes,
            certificate=certificate,
            tables=released.tables,
        )


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request with everything found and checked that can be without reading a row."""

    request: ReleaseRequest
    target: Path
    source: Source
    reading: Reading
    view: View
    plans: Mapping[str, Plan]
    guarantee: Guarantee  # of all tables together
    reservation: Reservation
    earlier: Earlier  # what the source published before and this release counts again
    windows: Windows

    def outcome(self, **released: Any) -> Outcome:
        """What is told to the owner; of a dry run nothing was released."""
        return Outcome(
            guarantee=self.guarantee, plans=self.plans, out=self.target,
            release_id=self.reservation.release_id, **released,
        )  # fmt: skip


def prepare(request: ReleaseRequest, copies: ExitStack, say: Callable[[str], None]) -> Prepared:
    """Finds the source, plans the tables and checks all that can fail before a row is read."""
    budget, content, read = request.budget, request.content, request.read
    request.running.check()
    target = _local_path(request.out)
    _check_statements(request)
    check_url_level(read.url)
    check_target(target)
    source = request.running.find(request.source, read, copies, rows=not request.dry_run, say=say)
    mechanism = content.mechanism or usual_mechanism(noise=content.noise, letters=content.letters)
    kinds = _tables(content.tables, source, mechanism)
    by_table = mechanisms_for(kinds, mechanism)
    names = list(dict.fromkeys(by_table.values()))
    options = chosen_options(
        names, request.options, letters=content.letters, set_only=content.set_only or None,
        users=budget.users,
    )  # fmt: skip
    bounds = bounds_of(content.per_user, by_table, content.letters)
    for kind in kinds:
        check(source, kind=kind, unit=budget.unit, by=content.by is not None)
    way = choose_way(content.bound, timed="time" in source.columns)
    if content.consecutive and "itemset" in kinds and way != "first":
        raise UsageError(
            "--consecutive needs the order in which queries were asked: use --bound first, and a log "
            "with a time column"
        )
    reading = Reading.of(read, by=content.by)
    reading.check(source)
    context = OptionContext(
        mechanisms=by_table,
        url=read.url,
        keys=reading.keys,
        by=content.by is not None,
        allowed=reading.allowed,
    )
    options = prepare_options(options, context, log=source.files)
    ledger, account = open_ledger(request.booking)
    earlier = find_earlier(
        content.after, by_table, ledger=ledger, source=account, unit=budget.unit,
        neighbours=budget.neighbours, reading=reading, say=say,
    )  # fmt: skip
    options = earlier.outside(options)
    windows = find_windows(content, read, by_table, source=source)
    plans, guarantee = plan_tables(
        kinds,
        mechanism=mechanism,
        epsilon=budget.epsilon,
        delta=budget.delta,
        shares=budget.shares,
        per_user=bounds,
        noise=content.noise,
        unit=budget.unit,
        neighbours=budget.neighbours,
        letters=content.letters,
        options=options,
        part=part_of_cap(budget, ledger, account),
    )
    _check_engine(request.running.engine, plans)
    check_claims(
        names, plans, guarantee, epsilon=budget.epsilon, delta=budget.delta, users=budget.users,
        accept_delta=budget.accept_delta, accept_no_guarantee=budget.accept_no_guarantee,
        set_only=content.set_only,
    )  # fmt: skip
    composing = [kind for kind, plan in plans.items() if plan.mechanism.composes]
    if composing and read.keys == "canonical":
        raise UsageError(
            f"the {composing[0]} table is composed of published keywords, which need not make canonical "
            "keys: leave --keys canonical out"
        )
    if ledger and guarantee.notion == "none":
        raise Refused(
            f"{', '.join(names)} has no guarantee, so there is no cost that a ledger could book: leave "
            "--ledger out, and publish nothing of it"
        )
    for plan in plans.values():
        plan.passes()  # whatever cannot be computed shows before the budget is spent
    reservation = Reservation(
        release_id=secrets.token_hex(16),
        target=target,
        ledger=ledger,
        source=account,
        cost=guarantee,
        loss=join_losses(losses_of((plan.mechanism, plan.guarantee) for plan in plans.values())),
        distance=distance_of(plan.mechanism for plan in plans.values()),
        tables="; ".join(f"{kind}: {plan.mechanism}" for kind, plan in plans.items()),
        columns=unit_columns(budget.unit, source, windows=windows.stated is not None),
        title=(request.statements.about or {}).get("title", ""),
        new_source=request.booking.new_source,
        same_users=request.booking.same_users,
        step=request.step,
    )
    reservation.check()
    view = View(
        kind="", unit=budget.unit, by=reading.by and reading.by.inside(), way=way, gap=content.gap,
        set_size=content.set_size, consecutive=content.consecutive, options=options,
        earlier=earlier.keys, select_from=windows.select_from, count_from=windows.count_from,
    )  # fmt: skip
    return Prepared(
        request=request, target=target, source=source, reading=reading, view=view, plans=plans,
        guarantee=guarantee, reservation=reservation, earlier=earlier, windows=windows,
    )  # fmt: skip


def _local_path(out: str | Path) -> Path:
    """The path of a bundle; raises for an address, to which nothing is written."""
    if not isinstance(out, str | Path):
        raise UsageError(f"out is the path of a folder, not {out!r:.60}")
    if isinstance(out, str) and is_uri(out):
        raise UsageError(
            f"--out {mask(out)!r} is an address: a bundle is written to a folder of this machine. Name one, "
            "and copy the finished bundle with the tools of the store"
        )
    return Path(out)


def _check_statements(request: ReleaseRequest) -> None:
    """Raises if what the owner says cannot stand in a certificate."""
    statements = request.statements
    if unknown := sorted(set(statements.about or {}) - set(ABOUT)):
        raise UsageError(f"--about has no {', '.join(unknown)}: use {', '.join(ABOUT)}")
    check_lines(
        statements.about, statements.unprotected, request.booking.source_name,
        request.read.where, names=request.content.by,
    )  # fmt: skip


def _tables(
    tables: Sequence[str] | None, source: Source, mechanism: str | Mapping[str, str] | None
) -> tuple[str, ...]:
    """The tables that are requested, or the usual ones of the mechanism."""
    if tables is not None:
        return tuple(tables)
    if isinstance(mechanism, Mapping):
        return tuple(mechanism)
    able = find_mechanism(mechanism or MECHANISM).tables
    usual = ("query", "click") if "url" in source.columns else ("query",)
    return tuple(table for table in usual if table in able) or able[:1]


def _check_engine(engine: str, plans: Mapping[str, Plan]) -> None:
    """Raises if a table cannot be made there: what brings rows to this process is not made on Spark."""
    for kind, plan in plans.items():
        if engine not in plan.mechanism.engines:
            able = [name for name, other in MECHANISMS.items() if engine in other.engines]
            raise EngineError(
                f"a {kind} table by {plan.mechanism.name} is not made on Spark, which makes tables by "
                f"{', '.join(able)}: use --engine duckdb"
            )


def _read(prepared: Prepared, engine: Engine, entropy: Entropy, say: Callable[[str], None]) -> Log:
    """The rows to release."""
    with_urls = {"click", "log", "left_out"} & {*prepared.plans}
    return prepared.reading.read(
        prepared.source, engine=engine, urls="url" in prepared.source.columns and bool(with_urls),
        unit=prepared.view.unit, entropy=entropy, say=say,
    )  # fmt: skip


def _certificate(
    prepared: Prepared,
    released: ReleasedTables,
    account: Account | None,
    engine: Engine,
    entropy: Entropy,
) -> Certificate:
    """What the bundle states; `account` is that of the ledger before this release."""
    request, plans, view, source = prepared.request, prepared.plans, prepared.view, prepared.source
    reservation = prepared.reservation
    return Certificate(
        release_id=reservation.release_id,
        published=datetime.now(UTC).date().isoformat(),
        murmurlog=__version__,
        private=not entropy.seeded,
        guarantee=prepared.guarantee,
        tables={
            kind: TableClaim(
                rows=released.tables[kind].num_rows,
                mechanism=str(plan.mechanism),
                guarantee=plan.guarantee,
                count=count_of(released.tables[kind]),
                parameters=plan.mechanism.parameters(),
                passes=plan.passes(),
                notes=released.notes[kind],
                counting=released.counting.get(kind),
            )
            for kind, plan in plans.items()
        },
        bound=str(view.way),
        text=prepared.reading.as_json()
        | {
            "source": {
                "format": source.shape,
                "format_from": source.settled["format"],
                "columns_from": source.settled["columns"],
            },
            "gap": view.gap if any(TABLES[kind].in_sequence for kind in plans) else None,
            "set_size": view.set_size if "itemset" in plans else None,
            "consecutive": view.consecutive if "itemset" in plans else None,
            **(prepared.windows.stated or {}),
        },
        engine=engine.version,
        sampler={
            "method": METHOD,
            "entropy": ENTROPY[not entropy.seeded],
            "keys": TEXT_KEYS,
            "delta": drawn_with((plan.mechanism for plan in plans.values()), prepared.guarantee),
        },
        by=prepared.reading.by,
        declared_users=request.budget.users,
        unprotected=tuple(request.statements.unprotected),
        after=prepared.earlier.as_json(),
        booked=None
        if account is None
        else state_booking(
            account, prepared.guarantee, loss=reservation.loss, distance=reservation.distance
        ),
        about=dict(request.statements.about or {}),
    )
