"""A release prepared: its source found, its tables planned, and all checked that can fail before a row is read."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from murmurlog.bundle.certificate import (
    ABOUT,
    check_lines,
)
from murmurlog.bundle.files import CERTIFICATE
from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.write import check_target
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import DiskError, EngineError, Refused, UsageError
from murmurlog.logs.addresses import mask
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source
from murmurlog.logs.state import TABLES as STATE_TABLES
from murmurlog.logs.state import UNITS as STATE_UNITS
from murmurlog.logs.state import State
from murmurlog.mechanisms import Asked, View, named
from murmurlog.privacy import Guarantee, Loss, join_losses
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.booking import part_of_cap
from murmurlog.publishing.claims import check_budget_kept, check_delta, check_guarantee, check_pdp
from murmurlog.publishing.earlier import Earlier, find_earlier
from murmurlog.publishing.ledger import Ledger, committing, opened
from murmurlog.publishing.ledger_records import Account
from murmurlog.publishing.options import bounds_of, chosen_options, prepare_options
from murmurlog.publishing.plan import (
    MECHANISM,
    Plan,
    distance_of,
    losses_of,
    mechanisms_for,
    plan_tables,
    usual_mechanism,
)
from murmurlog.publishing.remote_target import Landing
from murmurlog.publishing.request import ReleaseRequest
from murmurlog.publishing.spending import Spending, publication
from murmurlog.publishing.store_target import StoreLanding
from murmurlog.publishing.target import Place
from murmurlog.publishing.windows import Windows, find_windows


@dataclass(frozen=True, kw_only=True)
class Prepared:
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
    state: State | None = None
    limited: bool = False  # whether its source is accounted by the rule filter
    # Whether a bundle was put to a URI; None while it is being put there, and if nobody can say.
    sent: list[bool | None] = field(default_factory=list)

    def spending(self) -> Spending:
        """What to look at if the release is stopped."""
        return Spending(
            book=self.book, release_id=self.release_id, out=str(self.target),
            published=self._published,
        )  # fmt: skip

    @contextmanager
    def sending(self, far: Landing | StoreLanding) -> Iterator[None]:
        """Around the copying to a URI. If it does not come to its end, the target itself is asked."""
        try:
            self.sent[:] = [None]
            yield
        except BaseException:
            self.sent[:] = [far.is_there()]
            raise
        self.sent[:] = [True]

    @contextmanager
    def booked(self) -> Iterator[Callable[[str], None]]:
        """Around the writing of a bundle. The block commits the booking before the bundle appears."""
        target = self.target
        place = "" if isinstance(target, Path) else mask(target)
        if isinstance(target, Path) and self.book:
            place = self.book.seen_from(target)
        try:
            with committing(self.book, self.release_id, published=self._published) as commit:
                yield lambda checksum: commit(bundle=place, checksum=checksum)
        except (OSError, UsageError, EngineError) as error:
            spent = f"; its budget stays booked as {self.release_id}" if self.book else ""
            why = error.strerror if isinstance(error, OSError) else error
            public = publication(self._published(), "it")
            raise DiskError(
                f"the bundle could not be written to {mask(str(target))!r} ({why}); {public}{spent}. "
                f"{_remedy(target)} or choose another --out, and release again."
            ) from error

    def _published(self) -> bool | None:
        """Whether the bundle at the target is the one of this release; None: nobody can say."""
        if not isinstance(self.target, Path):
            return self.sent[0] if self.sent else False
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


def prepare(request: ReleaseRequest, copies: ExitStack, say: Callable[[str], None]) -> Prepared:
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
        names, request.options, letters=content.letters, set_only=content.set_only or None,
        users=budget.users,
    )  # fmt: skip
    bounds = bounds_of(content.per_user, by_table, content.letters)
    for kind in kinds:
        check(found, kind=kind, unit=budget.unit, by=content.by is not None)
    way = choose_way(content.bound, timed="time" in found.columns)
    if content.consecutive and "itemset" in kinds and way != "first":
        raise UsageError(
            "--consecutive needs the order in which queries were asked: use --bound first, and a log "
            "with a time column"
        )
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
        per_user=bounds,
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
    prepared = Prepared(
        request=request, place=place, target=target, source=found, reading=reading, view=view,
        plans=plans, total=total, book=book, account=account,
        booked_unit=booked_unit, release_id=secrets.token_hex(16), earlier=earlier,
        windows=windows, state=_state(request, by_table, reading),
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
    check_budget_kept(total, budget.epsilon, budget.delta)
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


def _remedy(target: Path | str) -> str:
    return "Free some room" if isinstance(target, Path) else "Repair the connection"


def _state(
    request: ReleaseRequest, mechanisms: Mapping[str, str], reading: Reading
) -> State | None:
    """The state to release from; raises where its distinct rows would not make the same tables."""
    if (folder := request.content.state) is None:
        return None
    unfit = (
        {f"the {kind} table": kind not in STATE_TABLES for kind in mechanisms}
        | {f"--mechanism {name}": not named(name).takes_windows for name in mechanisms.values()}
        | {
            f"--unit {request.budget.unit}": request.budget.unit not in STATE_UNITS,
            "--by": bool(request.content.by),
            "--since": bool(reading.since),
            "--until": bool(reading.until),
            "--engine spark": request.running.engine != "duckdb",
        }
    )
    if found := [what for what, given in unfit.items() if given]:
        raise UsageError(
            f"--state keeps the distinct queries and clicks of each user and day, from which {found[0]} cannot "
            "be applied: leave one of the two out. Windows are given by --select-from and --count-from"
        )
    return State(folder, reading)


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
