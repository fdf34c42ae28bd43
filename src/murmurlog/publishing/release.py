"""The whole road in one function: from a log to a published bundle.

Order matters. Everything that can fail without drawing noise comes before the reservation; after
it the budget is spent, whatever happens.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from murmurlog import __version__
from murmurlog.bundle.certificate import (
    ABOUT,
    ENTROPY,
    METHOD,
    Certificate,
    TableClaim,
    check_lines,
)
from murmurlog.bundle.files import SUMS
from murmurlog.bundle.keys import check_url_level
from murmurlog.bundle.schema import By, count_of
from murmurlog.bundle.write import check_target, publish
from murmurlog.counting.bound import choose_way
from murmurlog.counting.items import GAP, check
from murmurlog.counting.public_sets.labels import read_labels
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import DiskError, EngineError, Refused, UsageError
from murmurlog.logs.engines.duckdb import Engine
from murmurlog.logs.reading import Reading
from murmurlog.logs.screen import load as load_screen
from murmurlog.logs.screen import load_deny
from murmurlog.logs.source import Source
from murmurlog.mechanisms import MECHANISMS, View, named
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import Entropy, SystemEntropy
from murmurlog.publishing.ledger import Account, Ledger, committing, opened
from murmurlog.publishing.plan import (
    MECHANISM,
    Plan,
    check_options,
    drawn_with,
    mechanisms_for,
    plan,
    plan_tables,
    usual_mechanism,
)
from murmurlog.publishing.tables import make
from murmurlog.publishing.target import Place


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
        }


def release(
    source: str,
    *,
    out: str | Path,
    tables: Sequence[str] | None = None,
    mechanism: str | Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    shares: Mapping[str, float] | None = None,
    per_user: int | Mapping[str, int] | None = None,
    bound: str | None = None,
    unit: str = "user",
    neighbours: str = "add-remove",
    noise: str | None = None,
    gap: float = GAP,
    set_size: int = 2,
    consecutive: bool = False,
    set_only: bool = False,
    consistent: bool = False,
    letters: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    shape: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, str] | None = None,
    by: tuple[str, Sequence[str]] | None = None,
    url: str = "path",
    screen: bool = True,
    patterns: str | Path | None = None,
    deny: str | Path | None = None,
    strict: bool = False,
    users: int | None = None,
    accept_delta: bool = False,
    accept_no_guarantee: bool = False,
    ledger: str | Path | None = None,
    source_name: str | None = None,
    engine: str = "duckdb",
    memory: str | None = None,
    master: str | None = None,
    scratch: str | None = None,
    about: Mapping[str, str] | None = None,
    unprotected: Sequence[str] = (),
    planned_by: str | None = None,
    dry_run: bool = False,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Outcome:
    """Publishes the tables of a log as a bundle under one guarantee, and books it.

    `mechanism` is one for all tables, or one a table; `options` are the mechanisms' own, named as
    their flags are: count="rows", notion="pdp". The bundle appears whole or not at all. With a
    ledger its cost is reserved before any noise is drawn; from then on it stays spent even if the
    release fails. `unprotected` says what was chosen by looking at the log itself, `planned_by` by
    which private output (a profile) parameters were chosen.
    """
    entropy = entropy or SystemEntropy()
    place = Place(engine=engine, memory=memory, master=master, scratch=scratch)
    target = place.target(out)
    if consistent and set_only:
        raise UsageError("--consistent is about counts, and --set-only publishes none")
    if unknown := sorted(set(about or {}) - set(ABOUT)):
        raise UsageError(f"--about has no {', '.join(unknown)}: use {', '.join(ABOUT)}")
    check_lines(about, unprotected, planned_by, source_name, where, names=by)
    check_url_level(url)
    if isinstance(target, Path):
        check_target(target)
    found = place.find(source, columns=columns, encoding=encoding, shape=shape)
    mechanism = mechanism or usual_mechanism(noise=noise, letters=letters)
    kinds = _tables(tables, found, mechanism)
    by_table = mechanisms_for(kinds, mechanism)
    names = list(dict.fromkeys(by_table.values()))
    chosen = _options(names, options, set_only=set_only or None, users=users)
    for kind in kinds:
        check(found, kind=kind, unit=unit, by=by is not None)
    way = choose_way(bound, timed="time" in found.columns)
    chosen = _public(by_table, chosen, found.files, url, by=by is not None)
    reading = Reading(
        url=url,
        since=since,
        until=until,
        where=where,
        by=By(column=by[0], values=tuple(by[1])) if by else None,
        screen=load_screen(Path(patterns) if patterns else None) if screen else None,
        deny=load_deny(Path(deny)) if deny else frozenset(),
        strict=strict,
    )
    reading.check(found)
    if by and (files := [name for name in FILES if name in chosen]):
        flag = "--" + files[0].replace("_", "-")
        raise UsageError(f"--by and {flag} do not go together: the file has no such column")
    bounds = dict.fromkeys(kinds, per_user) if isinstance(per_user, int) else per_user
    plans, total = plan_tables(
        kinds,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        shares=shares,
        per_user=bounds,
        noise=noise,
        unit=unit,
        neighbours=neighbours,
        letters=letters,
        options=chosen,
    )
    place.check(plans)
    _check_guarantee(total, ", ".join(names), accept_no_guarantee)
    if total.notion == "pdp":
        _check_pdp(plans, users, set_only or consistent)
    if consistent and total.notion == "none":
        raise UsageError("--consistent is for noisy counts, and these are exact: leave it out")
    _check_delta(total, delta, users, accept_delta)
    book, name = opened(ledger, source_name)
    if book and total.notion == "none":
        raise Refused(
            f"{', '.join(names)} has no guarantee, so there is no cost that a ledger could book: leave "
            "--ledger out, and publish nothing of it"
        )
    booked_unit = reading.unit(unit, gap=gap)
    if book:
        book.check(name, total, unit=booked_unit)
    for each in plans.values():
        each.passes()  # whatever cannot be computed shows before the budget is spent
    release_id = secrets.token_hex(16)
    if dry_run:
        return Outcome(
            guarantee=total, plans=plans, rows={}, out=target, release_id=release_id,
            booked=False, broken={}, notes={},
        )  # fmt: skip
    view = View(
        kind="", unit=unit, by=reading.by and reading.by.inside(), way=way, gap=gap, set_size=set_size,
        consecutive=consecutive, options=chosen,
    )  # fmt: skip
    with place.connect() as running, place.landing(running, target) as far:
        urls = "url" in found.columns and not {"click", "log", "left_out"}.isdisjoint(kinds)
        log = reading.read(found, engine=running, urls=urls, say=say)
        made = make(
            plans, log, view, reading, entropy=entropy, set_only=set_only, consistent=consistent,
            reserve=lambda: _reserved(book, name, total, release_id, plans, booked_unit), say=say,
        )  # fmt: skip
        rows = {kind: table.num_rows for kind, table in made.tables.items()}
        certificate = _certificate(
            plans, total, rows, release_id, running, entropy,
            found=found, way=way, view=view, reading=reading, users=users,
            counted={kind: count_of(table) for kind, table in made.tables.items()},
            account=made.account, about=about or {}, notes=made.notes, unprotected=tuple(unprotected),
            consistent=consistent, planned_by=planned_by,
        )  # fmt: skip
        if far:
            say("writing the bundle")
            with _booked(target, release_id, book) as commit:
                publish(far.made, tables=made.tables, certificate=certificate)
                commit()
                far.put(last=SUMS)
    if isinstance(target, Path):
        say("writing the bundle")
        with _booked(target, release_id, book) as commit:
            publish(target, tables=made.tables, certificate=certificate, ready=commit)
    return Outcome(
        guarantee=total, plans=plans, rows=rows, out=target, release_id=release_id,
        booked=book is not None, broken={**log.broken, **log.screened}, notes=made.notes,
    )  # fmt: skip


@contextmanager
def _booked(
    target: Path | str, release_id: str, book: Ledger | None
) -> Iterator[Callable[[], None]]:
    """Around the writing of a bundle. The block commits the booking before the bundle appears."""
    try:
        with committing(book, release_id) as commit:
            yield commit
    except (OSError, UsageError, EngineError) as error:
        spent = f"; its budget stays booked as {release_id}" if book else ""
        why = error.strerror if isinstance(error, OSError) else error
        raise DiskError(
            f"the bundle could not be written to {str(target)!r} ({why}); nothing was "
            f"published{spent}. Free some room or choose another --out, and release again."
        ) from error


def _reserved(
    book: Ledger | None,
    name: str,
    total: Guarantee,
    release_id: str,
    plans: Mapping[str, Plan],
    unit: str,
) -> Account | None:
    if book is None:
        return None
    what = "; ".join(f"{kind}: {plan.mechanism}" for kind, plan in plans.items())
    return book.reserve(name, total, release_id=release_id, what=what, unit=unit)


def planned_for(
    mechanism: str | None = None, *, users: int | None = None, url: str = "path", **asked: Any
) -> Plan:
    """The plan of one table of a mechanism, with its public files read; looks at no log."""
    names = ("epsilon", "delta", "per_user", "noise", "unit", "neighbours", "letters")
    general = {name: asked.pop(name) for name in names if name in asked}
    usual = usual_mechanism(noise=general.get("noise"), letters=general.get("letters"))
    mechanism = mechanism or usual or MECHANISM
    kind = named(mechanism)
    table = "query" if "query" in kind.tables else kind.tables[0]
    chosen = _public({table: mechanism}, _options([mechanism], asked, users=users), (), url)
    if general.get("letters") or mechanism not in MECHANISMS:
        return plan(mechanism=mechanism, **general)
    name, options = kind.for_table(table, chosen)
    return plan(mechanism=name, options=options, **general)


FILES = ("result_lists", "pool", "map")  # options that name a public file


def _options(
    mechanisms: Sequence[str], options: Mapping[str, Any], **shared: Any
) -> dict[str, Any]:
    """The options that were given, each of which one of the mechanisms must have.

    `shared` ones mean something for every release; a mechanism gets them if it asks for them.
    """
    given = {n: value for n, value in options.items() if value is not None and value is not False}
    if given.get("count") == "users":  # what everything counts unless told otherwise
        del given["count"]
    check_options(mechanisms, given)
    taken = {option for name in mechanisms for option in named(name).options}
    for text in (name for name in mechanisms if name not in MECHANISMS):
        own = set(given) & set(named(text).options) - {"pool", "result_lists"}
        if own:
            flag = "--" + min(own).replace("_", "-")
            raise UsageError(f"{text} says all there is to choose: leave {flag} out")
    return given | {n: v for n, v in shared.items() if v is not None and n in taken}


def _public(
    mechanisms: Mapping[str, str],
    options: Mapping[str, Any],
    log: Sequence[Path],
    url: str,
    *,
    by: bool = False,
) -> dict[str, Any]:
    """The options with what is in the public files they name, cleaned as the log is."""
    loaded = dict(options)
    for name in FILES:
        path = Path(str(options.get(name, "")))
        if name in options and path.exists() and any(path.samefile(f) for f in log):
            flag = "--" + name.replace("_", "-")
            raise Refused(
                f"{flag} names the log itself. What it lists must be public and fixed without the "
                "log (A4): everything made from the log is private until it is released."
            )
    if "result_lists" in options:
        if not {"query", "click"} <= set(mechanisms):
            raise UsageError("--result-lists needs the tables query and click")
        loaded["result_lists"] = read_lists(Path(options["result_lists"]), url=url)
    if "pool" in options:
        needed = [table for table, name in mechanisms.items() if "pool" in named(name).options]
        needed = ["query"] if "safelog-literal" in mechanisms.values() else needed
        loaded["pool"] = read_pools(Path(options["pool"]), tables=needed, url=url)
    if "map" in options:
        loaded["map"] = read_labels(str(options["map"]))
    if "via_keywords" in options and by:
        raise UsageError("--by and --via-keywords do not go together: keywords are counted for all")
    if "via_keywords" in options and list(mechanisms)[:1] != ["keyword"]:
        raise UsageError(
            "--via-keywords needs the keyword table before all others: --tables keyword,query"
        )
    return loaded


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


def _check_guarantee(total: Guarantee, mechanism: str, accepted: bool) -> None:
    """Refuses what nothing is proved about, unless the owner says so."""
    if total.notion != "none" and total.delta >= 1:
        raise Refused(
            f"{mechanism} would have a delta of 1 at epsilon {total.epsilon:.4g}: nothing"
        )
    if total.notion == "none" and not accepted:
        raise Refused(
            f"{mechanism} has no privacy guarantee: one person can make its output differ for sure. "
            "It is here for comparison. Say --accept-no-guarantee to run it, and do not publish it."
        )


def _check_pdp(plans: Mapping[str, Plan], users: int | None, changed: bool) -> None:
    """Probabilistic DP is about a declared number of users, and about tables as they are drawn."""
    for each in plans.values():
        if each.mechanism.parameters()["users"] != users:
            raise UsageError(
                f"{each.mechanism} is probabilistic DP for its own number of users: declare the "
                f"same with --users, which is {users or 'not given'}"
            )
    if changed:
        raise UsageError(
            "probabilistic DP does not survive dropping or changing counts, so --set-only and "
            "--consistent do not go with it. Use --notion dp."
        )


def _check_delta(total: Guarantee, asked: float | None, users: int | None, accepted: bool) -> None:
    """Refuses a delta of 1/users or more; only a declared number counts, the log's is private."""
    if users is None:
        return
    if users < 1:
        raise UsageError(f"--users must be at least 1, not {users}")
    if total.notion == "none":
        return
    delta = max(total.plain_delta, (asked or 0.0) if total.notion == "dp" else 0.0)
    if delta * users >= 1 and not accepted:
        raise Refused(
            f"delta {delta:.3g} per {total.unit} is at least 1/users for the declared {users} "
            "users: publishing one whole user at random would pass. Use --delta "
            f"{1 / users / 10:.1g} or less, or say --accept-delta."
        )


def _certificate(
    plans: Mapping[str, Plan],
    total: Guarantee,
    rows: Mapping[str, int],
    release_id: str,
    engine: Engine,
    entropy: Entropy,
    *,
    found: Source,
    way: str,
    view: View,
    reading: Reading,
    users: int | None,
    counted: Mapping[str, str | None],
    account: Account | None,
    about: Mapping[str, str],
    notes: Mapping[str, Mapping[str, Any]],
    unprotected: tuple[str, ...],
    consistent: bool,
    planned_by: str | None,
) -> Certificate:
    return Certificate(
        release_id=release_id,
        published=datetime.now(UTC).date().isoformat(),
        murmurlog=__version__,
        private=not entropy.seeded,
        guarantee=total,
        tables={
            kind: TableClaim(
                rows=rows[kind],
                mechanism=str(plan.mechanism),
                guarantee=plan.guarantee,
                count=counted[kind],
                parameters=plan.mechanism.parameters(),
                passes=plan.passes(),
                notes=notes[kind],
            )
            for kind, plan in plans.items()
        },
        bound=way,
        text=reading.as_json()
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
        },
        engine=engine.version,
        sampler={
            "method": METHOD,
            "entropy": ENTROPY[not entropy.seeded],
            "delta": drawn_with((plan.mechanism for plan in plans.values()), total),
        },
        by=reading.by,
        declared_users=users,
        unprotected=unprotected,
        consistent=consistent,
        planned_by=planned_by,
        booked=None
        if account is None
        else {
            "source": account.name,
            "releases_before": account.releases,
            "epsilon_before": account.epsilon,
            "delta_before": account.delta,
        },
        about=dict(about),
    )
