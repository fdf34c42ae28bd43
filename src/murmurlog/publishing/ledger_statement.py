"""What a ledger says about its sources: as JSON, in words, and as a page to print and sign.

A function of the ledger's contents and, for the page, of the day. Never sees a log.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from murmurlog import __version__
from murmurlog.bundle.keys import MOST_CHARACTERS
from murmurlog.bundle.scratch import scratch, settle
from murmurlog.bundle.write import check_target
from murmurlog.charts import pages
from murmurlog.errors import DiskError, UsageError
from murmurlog.privacy import Amounts, Guarantee
from murmurlog.privacy.rounding import chance, loss_of_several, odds
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_columns import columns_of
from murmurlog.publishing.ledger_filter import (
    CAP_DELTA,
    CAP_EPSILON,
    LAST_WITH_SUMS,
    left_in_words,
    percent,
    spent_in_words,
)
from murmurlog.publishing.ledger_records import FILTER, SUM, Account, CapChange, Contents, Entry

STATES = {"committed": "published", "reserved": "not published", "lost": "lost"}
WAITING = "booked and not published: still running, or failed after the booking. Counts as spent"
REQUIRED = {
    True: "Every source needs a cap of its own: releases on one without are refused.",
    False: f"A new source has a cap of epsilon {CAP_EPSILON:g}, delta {CAP_DELTA:g} unless its owner sets another.",
}
BY_SUMS = f"under the rule sum, which this version does not have: only murmurlog {LAST_WITH_SUMS} can convert it"


def as_json(contents: Contents) -> dict[str, Any]:
    """Everything, as `ledger show --json` prints it: each source with its bookings and its cap's history."""
    return {
        "cap_required": contents.cap_required,
        "cap_required_history": [asdict(change) for change in contents.requirement_history],
        "sources": [_source(contents, account) for account in contents.accounts],
        "entries": [asdict(entry) for entry in contents.entries],
        "digest": contents.digest,
    }


def _source(contents: Contents, account: Account) -> dict[str, Any]:
    _, entries, history = contents.of(account.name)
    by_sum = {"epsilon": account.epsilon_by_sum, "delta": account.delta_by_sum}
    cap = {"epsilon": account.epsilon_cap, "delta": account.delta_cap}
    limits, left = account.limits, account.left
    return {
        "name": account.name,
        "rule": account.rule,
        "unit": account.unit,
        "neighbours": account.neighbours,
        "releases": account.releases,
        "cap": None if account.epsilon_cap is None else cap,
        "keys_share": account.keys_share,
        "rectangle": limits and limits._asdict(),
        "spent": limits and account.booked._asdict(),
        "left": left and left._asdict(),
        "spent_by_sum": by_sum,
        "releases_like_the_last": account.room_for(account.last) if account.last else None,
        "not_published": {"releases": len(_waiting(entries))},
        "entries": [asdict(entry) for entry in entries],
        "cap_history": [asdict(change) for change in history],
    }


def as_text(contents: Contents, name: str) -> str:
    """The ledger of this name in plain words: each source with cap, sums, releases and changes."""
    lines = [
        f"{name}: {_many(len(contents.accounts), 'source')}. {REQUIRED[contents.cap_required]}"
    ]
    for change in contents.requirement_history:
        what = "a cap is required" if change.cap_required else "no cap is required"
        lines.append(f"  {_minute_of(change.changed_at)}  {what}{_by(change)}{_why(change.reason)}")
    for account in contents.accounts:
        _, entries, history = contents.of(account.name)
        lines += ["", account.name, *(f"  {n:<10}{text}" for n, text in _facts(account, entries))]
        if entries:
            lines.append("  releases (times in UTC)")
            width = max(len(_pair(e.epsilon, e.delta)) for e in entries)
            lines += [
                f"    {_minute_of(e.reserved_at)}  {STATES[e.state]:<13}  "
                f"{_pair(e.epsilon, e.delta):<{width}}  {e.release_id}  {_subject(e)}"
                for e in entries
            ]
        if history:
            lines.append("  changes of the cap")
            lines += [
                f"    {_minute_of(c.changed_at)}  {_change(c)}{_by(c)}{_why(c.reason)}"
                for c in history
            ]
    return "\n".join(lines)


def _facts(account: Account, entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """The state of a source: what it protects, its cap, what is spent and left."""
    yield "per", _unit(account)
    for role in ("user", "time"):
        if columns := columns_of(entries, role):
            yield f"{role}s", f"in column {_columns(columns)}"
    capped = account.epsilon_cap is not None
    yield "cap", _pair(account.epsilon_cap, account.delta_cap) if capped else "none"
    by_sum = [entry for entry in entries if entry.amounts is None]
    if by_sum:
        yield "by sums", _by_sum(account, len(by_sum))
    if account.rule != FILTER:
        yield "refused", BY_SUMS
    elif capped:
        number = len(entries) - len(by_sum)
        yield "spent", f"{spent_in_words(account)}, by {_many(number, 'release')}"
        yield "left", left_in_words(account)
    if waiting := _waiting(entries):
        yield "of these", f"{_many(len(waiting), 'release')} {WAITING}."


def _by_sum(account: Account, releases: int) -> str:
    spent = (
        f"{_pair(account.epsilon_by_sum, account.delta_by_sum)}, by {_many(releases, 'release')}"
    )
    return f"{spent} before the filter" if account.rule == FILTER else spent


def _unit(account: Account) -> str:
    return "-" if account.unit is None else f"{account.unit} ({account.neighbours})"


def _columns(names: Sequence[str]) -> str:
    """The columns of one role; all but the first were booked because the owner said that they mean the same."""
    first, *others = (f"{name!r:.80}" for name in names)
    return f"{first}; the same by the owner's word: {', '.join(others)}" if others else first


def _pair(epsilon: float | None, delta: float | None) -> str:
    return f"epsilon {epsilon:.6g}, delta {delta:.6g}"


def _change(change: CapChange) -> str:
    after, before = _with_rule(change)
    return after if before is None else f"{after} instead of {before}"


def _with_rule(change: CapChange) -> tuple[str, str | None]:
    """The cap after a change and before it; a rectangle that is new with its shares."""
    after, before = _pair(change.epsilon, change.delta), None
    if change.epsilon_before is not None:
        before = _pair(change.epsilon_before, change.delta_before)
    if change.rule == SUM:
        after += ", rule sum"
    elif change.limits and (change.rule_before, change.pure_before) != (FILTER, change.pure):
        after += f" (keys {change.keys_share:g}, pure {change.pure:g})"
    if change.rule_before == SUM:
        before = before and f"{before}, rule sum"
    return after, before


def _who(change: Any) -> str:
    """Who made a change; the account, too, where another name was given."""
    if change.by_whom is None:
        return "not recorded"
    same = change.by_whom == change.os_user
    return str(change.by_whom) if same else f"{change.by_whom} (account {change.os_user})"


def _by(change: Any) -> str:
    return "" if change.by_whom is None else f", by {_who(change)}"


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _minute_of(moment: str | None) -> str:
    """A time in UTC to the minute; changes from before histories have none."""
    return "not recorded    " if moment is None else moment[:16].replace("T", " ")


def _waiting(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.state != "committed"]


def _subject(entry: Entry) -> str:
    """The title of a release, if it has one, and its tables with their mechanisms."""
    parts = re.findall(r"(?:^|; )([\w-]+): ([\w-]+)", entry.what)
    tables = ", ".join(f"{table} ({mechanism})" for table, mechanism in parts) or entry.what
    return f"{entry.title}: {tables}" if entry.title else tables


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def as_html(contents: Contents, source: str, *, ledger: str, day: str) -> str:
    """The page about one source of the ledger of this name, made on this day."""
    account, entries, history = contents.of(source)
    values = {
        "account": account,
        "unit": _base(account),
        "label": list(_label(account, entries)),
        "meaning": meaning(account),
        "releases": _release_rows(account, entries),
        "changes": _change_rows(history),
        "longest": MOST_CHARACTERS,
        "requirement": REQUIRED[contents.cap_required],
        "day": day,
        "version": __version__,
        "ledger": ledger,
        "digest": contents.digest,
    }
    return pages.render("murmurlog.publishing", "statement.html", values)


def _base(account: Account) -> str:
    return "unit" if account.unit is None else account.unit.partition(" (")[0]


def _label(account: Account, entries: Sequence[Entry]) -> Iterator[tuple[str, str, str]]:
    if account.unit is None:
        yield "Unit", "", "Set by the first release."
    else:
        other = "without it" if account.neighbours == "add-remove" else "with another in its place"
        what = f"Protects all of one {_base(account)}: a log with it is compared with one {other}."
        yield "Unit", _unit(account), what
    for role in ("user", "time"):
        if columns := columns_of(entries, role):
            yield f"{role.title()}s", "", f"In column {_columns(columns)}."
    yield (
        "Cap",
        _pair(account.epsilon_cap, account.delta_cap),
        "The most that all releases together may cost.",
    )
    by_sum = [entry for entry in entries if entry.amounts is None]
    if by_sum:
        yield "By sums", "", f"{_by_sum(account, len(by_sum))}."
    number = len(entries) - len(by_sum)
    yield "Spent", "", f"{spent_in_words(account)}, by {_many(number, 'release')}."
    yield "Left", "", f"{left_in_words(account)}."
    if waiting := _waiting(entries):
        yield (
            "Not published",
            _many(len(waiting), "release"),
            f"{WAITING[:1].upper()}{WAITING[1:]}.",
        )


def meaning(account: Account) -> list[str]:
    """Three plain sentences on what the cap promises; a fourth where a unit is less than a user."""
    cap = account.largest_cap
    if account.unit is None or cap is None:
        return ["Nothing was released from this source, so no release says anything about anyone."]
    unit = _base(account)
    total = Guarantee(epsilon=cap.epsilon, delta=min(1.0, cap.delta))
    what = (
        f"whether one {unit} is in the log"
        if account.neighbours == "add-remove"
        else f"which of two a {unit} is"
    )
    sentences = [
        f"Whoever sees all of these releases, whatever else they know, can change their odds on {what} "
        f"by a factor of at most {odds(total)}, which is e to the epsilon of the cap.",
        f"This holds but for a chance of at most {chance(total.delta)} for each {unit}, which is the "
        "delta of the cap.",
        "This is a promise about all releases together, those to come included, and less is not "
        "promised before the cap is spent. Of several caps the largest counts. If a cap was raised because "
        "of what a release showed, the promise is weaker.",
    ]
    if unit != "user":
        sentences.append(loss_of_several(unit))
    return sentences


def _release_rows(account: Account, entries: Sequence[Entry]) -> list[list[str]]:
    """A row for each release with its parts of the cap, and one for their sum."""
    if not entries:
        return []
    assert account.limits is not None
    rows = [
        [
            entry.reserved_at[:10],
            _subject(entry),
            entry.release_id,
            STATES[entry.state],
            f"{entry.epsilon:.6g}",
            f"{entry.delta:.6g}",
            *_parts(account.limits, entry.amounts),
        ]
        for entry in entries
    ]
    return [*rows, ["Sum", "", "", "", "", "", *_parts(account.limits, account.booked)]]


def _parts(limits: Amounts, booked: Amounts | None) -> list[str]:
    if booked is None:
        return ["-", "-", "-"]
    pairs = ((booked.mu2, limits.mu2), (booked.keys, limits.keys), (booked.pure, limits.pure))
    return [percent(some, most) for some, most in pairs]


def _change_rows(history: Sequence[CapChange]) -> list[list[str]]:
    return [
        [
            "not recorded" if change.changed_at is None else change.changed_at[:10],
            _in_lines(_with_rule(change)[1]),
            _in_lines(_with_rule(change)[0]),
            _who(change),
            change.reason or "-",
        ]
        for change in history
    ]


def _in_lines(cap: str | None) -> str:
    """A cap on two or more lines of a cell."""
    return "none" if cap is None else cap.replace(", ", "\n")


def write_statement(ledger: Ledger, source: str, *, out: Path, day: str | None = None) -> str:
    """Writes the page about a source, whole or not at all. Returns the source's name in the ledger."""
    if out.suffix != ".html":
        raise UsageError(f"--out {str(out)!r} must be an .html file")
    check_target(out)
    name = ledger.account(source).name
    page = as_html(
        ledger.contents(), name, ledger=ledger.path.name, day=day or f"{datetime.now(UTC):%Y-%m-%d}"
    )
    try:
        with scratch(out.parent) as folder:
            file = folder / "statement.html"
            file.write_text(page, encoding="utf-8")
            settle(file, out)
    except OSError as error:
        raise DiskError(
            f"the statement could not be written to {str(out)!r} ({error.strerror}). Free some room or "
            "choose another --out."
        ) from error
    return name
