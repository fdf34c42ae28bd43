"""A release: from a request to a published bundle.

Order matters. Everything that can fail without drawing noise comes before the reservation; after
it the budget is spent, whatever happens.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
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
    Certificate,
    TableClaim,
    check_lines,
)
from murmurlog.bundle.files import CERTIFICATE, SUMS, checksum_of
from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.schema import count_of
from murmurlog.bundle.write import check_target, publish
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import DiskError, EngineError, Refused, UsageError
from murmurlog.logs.addresses import mask
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source
from murmurlog.mechanisms import Asked, View, named
from murmurlog.privacy import Guarantee, Loss, join_losses
from murmurlog.privacy.sampler import Entropy, SystemEntropy
from murmurlog.publishing.booking import part_of_cap, state_booking
from murmurlog.publishing.claims import check_delta, check_guarantee, check_pdp
from murmurlog.publishing.earlier import Earlier, find_earlier
from murmurlog.publishing.ledger import Ledger, committing, opened
from murmurlog.publishing.ledger_records import Account
from murmurlog.publishing.options import chosen_options, prepare_options
from murmurlog.publishing.plan import (
    MECHANISM,
    Plan,
    distance_of,
    drawn_with,
    losses_of,
    mechanisms_for,
    plan_tables,
    usual_mechanism,
)
from murmurlog.publishing.request import ReleaseRequest
from murmurlog.publishing.spending import Spending, spending
from murmurlog.publishing.tables import Made, make
from murmurlog.publishing.target import Place
from murmurlog.publishing.verdict import Verdict, judge
from murmurlog.publishing.windows import Windows, find_windows


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a release came to. `rows` is empty for a dry run."""

    guarantee: Guarantee
    plans: Mapping[str, Plan]
    rows: Mapping[str, int]
    out: Path | str  # the URI of what only Spark reaches
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
            "out": mask(str(self.out)) if self.rows else None,
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
    asked = _prepare(request, copies, say)
    asked.check_entropy(entropy)
    if request.dry_run:
        return asked.outcome()
    with spending(asked.spending()):
        return _make(asked, entropy, say)


def _make(asked: "_Prepared", entropy: Entropy, say: Callable[[str], None]) -> Outcome:
    """Reads, counts, books, draws and writes what was prepared."""
    request = asked.request
    found, reading, target = asked.source, asked.reading, asked.target
    with asked.place.connect() as running, asked.place.landing(running, target) as far:
        urls = "url" in found.columns and not {"click", "log", "left_out"}.isdisjoint(asked.plans)
        log = reading.read(found, engine=running, urls=urls, say=say)
        made = make(
            asked.plans, log, asked.view, reading, entropy=entropy,
            set_only=request.content.set_only, consistent=request.content.consistent,
            reserve=asked.reserve, say=say,
        )  # fmt: skip
        certificate = _certificate(asked, made, engine=running, entropy=entropy)
        if far:
            say("writing the bundle")
            with _booked(target, asked.release_id, asked.book) as commit:
                publish(far.made, tables=made.tables, certificate=certificate)
                commit(checksum_of(far.made))
                far.put(last=SUMS)
                asked.sent.append(target)
    if isinstance(target, Path):
        say("writing the bundle")
        with _booked(target, asked.release_id, asked.book) as commit:
            publish(target, tables=made.tables, certificate=certificate, ready=commit)
    return asked.outcome(
        rows={kind: table.num_rows for kind, table in made.tables.items()},
        booked=asked.book is not None,
        broken={**log.broken, **log.screened},
        notes=made.notes,
        certificate=certificate,
        tables=made.tables,
    )


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """A request with everything found and checked that can be without reading a row."""

    request: ReleaseRequest
    place: Place
    target: Path | str
    source: Source
    reading: Reading
    view: View
    plans: Mapping[str, Plan]
    total: Guarantee
    book: Ledger | None
    account: str  # its name in the ledger
    booked_unit: str
    release_id: str
    earlier: Earlier  # what the source published before and this release counts again
    windows: Windows
    limited: bool = False  # whether its source is accounted by the rule filter
    sent: list[Path | str] = field(default_factory=list)  # the target, once Spark has put it there

    def spending(self) -> Spending:
        """What to look at if the release is stopped."""
        return Spending(
            book=self.book, release_id=self.release_id, out=str(self.target),
            published=self._published,
        )  # fmt: skip

    def _published(self) -> bool:
        """Whether the bundle at the target is the one of this release."""
        if not isinstance(self.target, Path):
            return bool(self.sent)
        with suppress(OSError, ValueError):
            stated = json.loads((self.target / CERTIFICATE).read_text(encoding="utf-8"))
            return bool(stated["release_id"] == self.release_id)
        return False

    def check_entropy(self, entropy: Entropy) -> None:
        """Refuses noise from a known seed on a source whose limits count noise."""
        if entropy.seeded and self.limited:
            raise Refused(
                f'source "{self.account}" is accounted by the rule filter, which counts noise, and noise from '
                "a known seed is none: leave the seed or the ledger out"
            )

    @property
    def loss(self) -> Loss:
        """What all tables cost together."""
        return join_losses(
            losses_of((plan.mechanism, plan.guarantee) for plan in self.plans.values())
        )

    @property
    def distance(self) -> float:
        """The error of the sampler, as a total variation."""
        return distance_of(plan.mechanism for plan in self.plans.values())

    def reserve(self) -> Account | None:
        """Books the cost, if there is a ledger."""
        if self.book is None:
            return None
        what = "; ".join(f"{kind}: {plan.mechanism}" for kind, plan in self.plans.items())
        return self.book.reserve(
            self.account, self.total, release_id=self.release_id, what=what, unit=self.booked_unit,
            title=(self.request.statements.about or {}).get("title", ""),
            new_source=self.request.booking.new_source, loss=self.loss, distance=self.distance,
            step=self.request.step,
        )  # fmt: skip

    def outcome(self, **made: Any) -> Outcome:
        """What is told to the owner; of a dry run, nothing was made."""
        nothing: dict[str, Any] = {"rows": {}, "booked": False, "broken": {}, "notes": {}}
        return Outcome(
            guarantee=self.total, plans=self.plans, out=self.target, release_id=self.release_id,
            **(nothing | made),
        )  # fmt: skip


def _prepare(request: ReleaseRequest, copies: ExitStack, say: Callable[[str], None]) -> _Prepared:
    """Finds the source, plans the tables and checks all that can fail before a row is read."""
    budget, content, read = request.budget, request.content, request.read
    place = Place(running=request.running)
    target = place.target(request.out)
    _check_statements(request)
    check_url_level(read.url)
    if isinstance(target, Path):
        check_target(target)
    found = place.find(request.source, read, copies, rows=not request.dry_run, say=say)
    mechanism = content.mechanism or usual_mechanism(noise=content.noise, letters=content.letters)
    kinds = _tables(content.tables, found, mechanism)
    by_table = mechanisms_for(kinds, mechanism)
    names = list(dict.fromkeys(by_table.values()))
    chosen = chosen_options(
        names, request.options, set_only=content.set_only or None, users=budget.users
    )
    for kind in kinds:
        check(found, kind=kind, unit=budget.unit, by=content.by is not None)
    way = choose_way(content.bound, timed="time" in found.columns)
    reading = Reading.of(read, by=content.by)
    reading.check(found)
    asked = Asked(
        mechanisms=by_table,
        url=read.url,
        keys=reading.keys,
        by=content.by is not None,
        allowed=reading.allowed,
    )
    chosen = prepare_options(chosen, asked, log=found.files)
    per_user = content.per_user
    booking = request.booking
    book, account = opened(booking.ledger, booking.source_name, new_source=booking.new_source)
    booked_unit = reading.unit(budget.unit, gap=content.gap)
    earlier = find_earlier(
        content.after, by_table, book=book, source=account, unit=booked_unit,
        neighbours=budget.neighbours, reading=reading, say=say,
    )  # fmt: skip
    chosen = earlier.outside(chosen)
    windows = find_windows(content, read, by_table, source=found, unit=budget.unit)
    plans, total = plan_tables(
        kinds,
        mechanism=mechanism,
        epsilon=budget.epsilon,
        delta=budget.delta,
        shares=budget.shares,
        per_user=dict.fromkeys(kinds, per_user) if isinstance(per_user, int) else per_user,
        noise=content.noise,
        unit=budget.unit,
        neighbours=budget.neighbours,
        letters=content.letters,
        options=chosen,
        part=part_of_cap(budget, book, account),
    )
    place.check(plans)
    _check_claims(request, plans, total, names)
    if book and total.notion == "none":
        raise Refused(
            f"{', '.join(names)} has no guarantee, so there is no cost that a ledger could book: leave "
            "--ledger out, and publish nothing of it"
        )
    for each in plans.values():
        each.passes()  # whatever cannot be computed shows before the budget is spent
    view = View(
        kind="", unit=budget.unit, by=reading.by and reading.by.inside(), way=way, gap=content.gap,
        set_size=content.set_size, consecutive=content.consecutive, options=chosen,
        earlier=earlier.keys, select_from=windows.select_from, count_from=windows.count_from,
    )  # fmt: skip
    prepared = _Prepared(
        request=request, place=place, target=target, source=found, reading=reading, view=view,
        plans=plans, total=total, book=book, account=account,
        booked_unit=booked_unit, release_id=secrets.token_hex(16), earlier=earlier,
        windows=windows,
    )  # fmt: skip
    if book is None:
        return prepared
    known = book.check(
        account, total, unit=prepared.booked_unit, new_source=booking.new_source,
        loss=prepared.loss, distance=prepared.distance, step=request.step,
    )  # fmt: skip
    return replace(prepared, limited=known.limits is not None)


def _check_statements(request: ReleaseRequest) -> None:
    """Raises if what the owner says cannot stand in a certificate."""
    stated = request.statements
    if unknown := sorted(set(stated.about or {}) - set(ABOUT)):
        raise UsageError(f"--about has no {', '.join(unknown)}: use {', '.join(ABOUT)}")
    check_lines(
        stated.about, stated.unprotected, stated.planned_by, request.booking.source_name,
        request.read.where, names=request.content.by,
    )  # fmt: skip


def _check_claims(
    request: ReleaseRequest, plans: Mapping[str, Plan], total: Guarantee, names: Sequence[str]
) -> None:
    """Refuses guarantees that say nothing, unless the owner accepts that."""
    budget, content = request.budget, request.content
    check_guarantee(total, ", ".join(names), budget.accept_no_guarantee)
    if total.notion == "pdp":
        check_pdp(plans, budget.users, content.set_only or content.consistent)
    composing = [name for name, each in plans.items() if each.mechanism.composes]
    if composing and request.read.keys == "canonical":
        raise UsageError(
            f"the {composing[0]} table is composed of published keywords, which need not make canonical "
            "keys: leave --keys canonical out"
        )
    if content.consistent and total.notion == "none":
        raise UsageError("--consistent is for noisy counts, and these are exact: leave it out")
    check_delta(total, budget.delta, budget.users, budget.accept_delta)


@contextmanager
def _booked(
    target: Path | str, release_id: str, book: Ledger | None
) -> Iterator[Callable[[str], None]]:
    """Around the writing of a bundle. The block commits the booking before the bundle appears."""
    place = "" if isinstance(target, Path) else mask(target)
    if isinstance(target, Path) and book:
        place = book.seen_from(target)
    try:
        with committing(book, release_id) as commit:
            yield lambda checksum: commit(bundle=place, checksum=checksum)
    except (OSError, UsageError, EngineError) as error:
        spent = f"; its budget stays booked as {release_id}" if book else ""
        why = error.strerror if isinstance(error, OSError) else error
        raise DiskError(
            f"the bundle could not be written to {mask(str(target))!r} ({why}); nothing was "
            f"published{spent}. {_remedy(target)} or choose another --out, and release again."
        ) from error


def _remedy(target: Path | str) -> str:
    return "Free some room" if isinstance(target, Path) else "Repair the connection"


def _tables(
    tables: Sequence[str] | None, found: Source, mechanism: str | Mapping[str, str] | None
) -> tuple[str, ...]:
    if tables is not None:
        return tuple(tables)
    if isinstance(mechanism, Mapping):
        return tuple(mechanism)
    able = named(mechanism or MECHANISM).tables
    usual = ("query", "click") if "url" in found.columns else ("query",)
    return tuple(table for table in usual if table in able) or able[:1]


def _certificate(asked: _Prepared, made: Made, *, engine: Engine, entropy: Entropy) -> Certificate:
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
            # Of what is protected, too, where that is a session.
            "gap": view.gap if {"pair", "session"} & {view.unit, *plans} else None,
            "set_size": view.set_size if "itemset" in plans else None,
            "consecutive": view.consecutive if "itemset" in plans else None,
            **(asked.windows.stated or {}),
        },
        engine=engine.version,
        sampler={
            "method": METHOD,
            "entropy": ENTROPY[not entropy.seeded],
            "delta": drawn_with((plan.mechanism for plan in plans.values()), asked.total),
        },
        by=asked.reading.by,
        declared_users=asked.request.budget.users,
        unprotected=tuple(stated.unprotected),
        consistent=asked.request.content.consistent,
        after=asked.earlier.as_json(),
        planned_by=stated.planned_by,
        booked=None
        if account is None
        else state_booking(account, asked.total, loss=asked.loss, distance=asked.distance),
        about=dict(stated.about or {}),
    )
