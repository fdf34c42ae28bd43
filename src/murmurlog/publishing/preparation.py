"""A release prepared: its source found, its tables planned, and all checked that can fail before a row is read."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmurlog.bundle.certificate import (
    ABOUT,
    check_lines,
)
from murmurlog.bundle.files import CERTIFICATE
from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.write import check_target
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import check
from murmurlog.errors import DiskError, Refused, UsageError
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source
from murmurlog.mechanisms import Asked, View, named
from murmurlog.privacy import Guarantee, Loss, join_losses
from murmurlog.publishing.booking import open_ledger, part_of_cap, unit_columns
from murmurlog.publishing.claims import check_budget_kept, check_delta, check_guarantee, check_pdp
from murmurlog.publishing.earlier import Earlier, find_earlier
from murmurlog.publishing.ledger import Ledger, committing
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
from murmurlog.publishing.request import ReleaseRequest
from murmurlog.publishing.spending import Spending, publication
from murmurlog.publishing.target import Place, local_path
from murmurlog.publishing.windows import Windows, find_windows


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request with everything found and checked that can be without reading a row."""

    request: ReleaseRequest
    place: Place
    target: Path
    source: Source
    reading: Reading
    view: View
    plans: Mapping[str, Plan]
    total: Guarantee
    book: Ledger | None
    account: str  # its name in the ledger
    release_id: str
    earlier: Earlier  # what the source published before and this release counts again
    windows: Windows

    def spending(self) -> Spending:
        """What to look at if the release is stopped."""
        return Spending(
            book=self.book, release_id=self.release_id, out=str(self.target),
            published=self._published,
        )  # fmt: skip

    @contextmanager
    def booked(self) -> Iterator[Callable[[str], None]]:
        """Around the writing of a bundle. The block commits the booking before the bundle appears."""
        place = self.book.seen_from(self.target) if self.book else ""
        try:
            with committing(self.book, self.release_id, published=self._published) as commit:
                yield lambda checksum: commit(bundle=place, checksum=checksum)
        except (OSError, UsageError) as error:
            spent = f"; its budget stays booked as {self.release_id}" if self.book else ""
            why = error.strerror if isinstance(error, OSError) else error
            public = publication(self._published(), "it")
            raise DiskError(
                f"the bundle could not be written to {str(self.target)!r} ({why}); {public}{spent}. "
                "Free some room or choose another --out, and release again."
            ) from error

    def _published(self) -> bool:
        """Whether the bundle at the target is the one of this release."""
        with suppress(OSError, ValueError):
            stated = json.loads((self.target / CERTIFICATE).read_text(encoding="utf-8"))
            return bool(stated["release_id"] == self.release_id)
        return False

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
            self.account, self.total, release_id=self.release_id, what=what,
            title=(self.request.statements.about or {}).get("title", ""),
            **self._booking,
        )  # fmt: skip

    def check_booking(self) -> None:
        """Raises unless the ledger, if there is one, would book the cost."""
        if self.book is not None:
            self.book.check(self.account, self.total, **self._booking)

    @property
    def _booking(self) -> dict[str, Any]:
        """What decides whether the ledger books the cost."""
        booking, unit = self.request.booking, self.request.budget.unit
        return {
            "columns": unit_columns(unit, self.source, windows=self.windows.stated is not None),
            "new_source": booking.new_source,
            "same_users": booking.same_users,
            "loss": self.loss,
            "distance": self.distance,
            "step": self.request.step,
        }


def prepare(request: ReleaseRequest, copies: ExitStack, say: Callable[[str], None]) -> Prepared:
    """Finds the source, plans the tables and checks all that can fail before a row is read."""
    budget, content, read = request.budget, request.content, request.read
    place = Place(running=request.running)
    target = local_path(request.out)
    _check_statements(request)
    check_url_level(read.url)
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
    book, account = open_ledger(booking)
    earlier = find_earlier(
        content.after, by_table, book=book, source=account, unit=budget.unit,
        neighbours=budget.neighbours, reading=reading, say=say,
    )  # fmt: skip
    chosen = earlier.outside(chosen)
    windows = find_windows(content, read, by_table, source=found)
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
        release_id=secrets.token_hex(16), earlier=earlier,
        windows=windows,
    )  # fmt: skip
    prepared.check_booking()
    return prepared


def _check_statements(request: ReleaseRequest) -> None:
    """Raises if what the owner says cannot stand in a certificate."""
    stated = request.statements
    if unknown := sorted(set(stated.about or {}) - set(ABOUT)):
        raise UsageError(f"--about has no {', '.join(unknown)}: use {', '.join(ABOUT)}")
    check_lines(
        stated.about, stated.unprotected, request.booking.source_name,
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
        check_pdp(plans, budget.users, content.set_only)
    composing = [name for name, each in plans.items() if each.mechanism.composes]
    if composing and request.read.keys == "canonical":
        raise UsageError(
            f"the {composing[0]} table is composed of published keywords, which need not make canonical "
            "keys: leave --keys canonical out"
        )
    check_delta(total, budget.delta, budget.users, budget.accept_delta)


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
