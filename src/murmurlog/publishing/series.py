"""Runs a series of releases: what was published, what is due, and the next ones, each period once.

The ledger is the truth: an entry says its series and period, and is booked in a transaction that refuses
a second one. A run holds the lock of its series. Entries without a bundle in its place are then of runs that
ended early: a finished bundle that was left beside its place is moved there, anything else is lost.
Nothing is ever drawn again for a period that is booked, unless the owner asks for it by name.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from murmurlog.bundle.files import checksum_of, stated_sums, sums
from murmurlog.bundle.keys import normalise
from murmurlog.bundle.read import read_certificate
from murmurlog.bundle.scratch import (
    abandoned_folders,
    make_folders,
    scratch,
    sweep,
    temporary_folder,
)
from murmurlog.bundle.write import StagedBundle
from murmurlog.errors import BundleError, InputError, MurmurlogError, Refused, UsageError
from murmurlog.logs.source import files_at
from murmurlog.privacy.sampler import Entropy
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.ledger_filter import left_in_words
from murmurlog.publishing.ledger_records import Account, Entry
from murmurlog.publishing.ledger_series import LOST, PeriodBooked, check_step, entries_of
from murmurlog.publishing.release import Outcome, carry_out
from murmurlog.publishing.request import ReleaseRequest
from murmurlog.publishing.series_periods import Period, Step
from murmurlog.publishing.series_spec import ALL, OWN, Spec

PUBLISHED, INTERRUPTED, DUE, WAITING = "published", "interrupted", "due", "waiting"
SKIPPED = "skipped"  # a later period is booked
FUTURE = "future"
BUNDLE = "bundle"  # in the folder where a bundle is made


@dataclass(frozen=True, kw_only=True)
class PeriodState:
    """What is known of one period."""

    period: Period
    state: str
    release_id: str | None = None
    bundle: str | None = None  # where it is; None: not published, or moved since
    rows: Mapping[str, int] = field(default_factory=dict)
    missing: str | None = None  # what it waits for

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "period": str(self.period), "rows": dict(self.rows)}


@dataclass(frozen=True, kw_only=True)
class Status:
    """Every period of a series up to the first that is not over, and what is left of the cap."""

    spec: Spec
    periods: Sequence[PeriodState]
    account: Account
    running: bool  # whether a run is at work
    clock_behind: str | None  # the time of the last booking, if that is in the future

    def of(self, *states: str) -> list[PeriodState]:
        return [period for period in self.periods if period.state in states]

    @property
    def left(self) -> str:
        """What is left of the cap, in words."""
        return left_in_words(self.account)

    @property
    def releases_left(self) -> int | None:
        """How many more releases like the last fit; None before the first."""
        last = self.account.last
        return None if last is None else self.account.room_for(last)

    def as_json(self) -> dict[str, Any]:
        return {
            "series": self.spec.name,
            "source": self.spec.source,
            "ledger": self.spec.ledger,
            "running": self.running,
            "periods": [period.as_json() for period in self.periods],
            "left": self.left,
            "releases_like_the_last": self.releases_left,
        }


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run did."""

    busy: bool = False  # another run of the series is at work: this one did nothing
    released: Mapping[str, Outcome] = field(default_factory=dict)  # by period
    finished: Sequence[str] = ()  # periods whose bundle an earlier run had made
    lost: Sequence[str] = ()  # periods that an earlier run booked and did not publish
    waiting: PeriodState | None = None  # the first period that is over and has no log

    def as_json(self) -> dict[str, Any]:
        return {
            "busy": self.busy,
            "released": {period: outcome.as_json() for period, outcome in self.released.items()},
            "finished": list(self.finished),
            "lost": list(self.lost),
            "waiting": self.waiting and self.waiting.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A series with its ledger."""

    spec: Spec
    ledger: Ledger
    account: Account
    same_users: bool = False  # the owner's word, for releases of this run

    def entries(self) -> list[Entry]:
        """The bookings of the series, oldest first."""
        return entries_of(self.ledger.entries(), self.account.name, self.spec.name)

    def place(self, entry: Entry) -> Path | None:
        """Where the bundle of an entry was published, or was about to be."""
        return self.ledger.folder / entry.bundle if entry.bundle else None

    def period(self, entry: Entry) -> Period:
        return Period.parse(entry.period or "", self.spec.first.kind)

    @property
    def lock_file(self) -> Path:
        file = Path(os.path.realpath(self.ledger.path))
        key = hashlib.sha256(f"{self.account.name}\n{self.spec.name}".encode()).hexdigest()[:12]
        return file.with_name(f"{file.name}.series-{key}.lock")


def _open(spec: Spec) -> _Opened:
    """The series with its ledger; raises unless it can be run."""
    ledger = Ledger(spec.ledger, must_exist=True)
    account = ledger.account(spec.source)
    if account.limits is None:
        raise UsageError(
            f'source "{account.name}" has no cap, which a series needs: murmurlog ledger cap NAME --epsilon ... '
            "--delta ..."
        )
    opened = _Opened(spec=spec, ledger=ledger, account=account)
    for other in {entry.series for entry in ledger.entries(spec.source) if entry.series}:
        if other != spec.name and normalise(other) == normalise(spec.name):
            raise UsageError(
                f"the ledger has no series {spec.name!r:.60}, but it has {other!r:.60}: use that name, or one that "
                "differs in more than case, spaces and forms of letters"
            )
    for entry in opened.entries():
        try:
            opened.period(entry)
        except UsageError:
            raise UsageError(
                f'series "{spec.name}" has {entry.period} in the ledger, which is no {spec.first.kind}: the period '
                "of a series does not change; start a series of another name"
            ) from None
    return opened


def series_status(spec: Spec, *, now: datetime | None = None) -> Status:
    """What was published and what is due. Changes nothing."""
    now = now or datetime.now(UTC)
    opened = _open(spec)
    entries = opened.entries()
    ahead = _states_ahead(spec, entries, now)
    last = {entry.period: entry for entry in entries}
    before = takewhile(lambda period: not ahead or period < ahead[0].period, spec.periods())
    periods = [_state_of(opened, period, last.get(str(period))) for period in before]
    times = [datetime.fromisoformat(entry.reserved_at) for entry in entries]
    latest = max(times, default=now)
    return Status(
        spec=spec, periods=[*periods, *ahead], account=opened.account, running=_is_locked(opened),
        clock_behind=latest.isoformat(" ", "minutes") if latest > now else None,
    )  # fmt: skip


def _states_ahead(spec: Spec, entries: Sequence[Entry], now: datetime) -> list[PeriodState]:
    """The periods after the last one that is booked, up to the first that is not over.

    Periods are released in order, so what one waits for, all after it wait for.
    """
    booked = max((entry.period for entry in entries if entry.period), default="")
    states: list[PeriodState] = []
    missing = None
    for period in spec.periods():
        if str(period) <= booked:
            continue
        if not period.is_over(now):
            return [*states, PeriodState(period=period, state=FUTURE)]
        missing = missing or (None if _logs(spec, period) else period.fill(spec.logs))
        states.append(
            PeriodState(period=period, state=WAITING if missing else DUE, missing=missing)
        )
    return states


def _state_of(opened: _Opened, period: Period, entry: Entry | None) -> PeriodState:
    """The state of a period that is booked, or that is before one that is."""
    if entry is None:
        return PeriodState(period=period, state=SKIPPED)
    place = opened.place(entry)
    if place is None or not _is_of(place, entry):
        state = LOST if entry.state == LOST else PUBLISHED if entry.placed_at else INTERRUPTED
        return PeriodState(period=period, state=state, release_id=entry.release_id)
    rows = {name: claim.rows for name, claim in read_certificate(place).tables.items()}
    return PeriodState(
        period=period, state=PUBLISHED, release_id=entry.release_id, bundle=os.path.relpath(place),
        rows=rows,
    )  # fmt: skip


def run_series(
    spec: Spec,
    *,
    once: bool = False,
    again: str | None = None,
    same_users: bool = False,
    now: datetime | None = None,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
    done: Callable[[str, Outcome], None] = lambda *_: None,
) -> Run:
    """Releases every period that is due, in order; `done` is called after each.

    `once`: one period only. `again` names a period that was lost, for which another part of the cap is
    spent. `same_users` accepts another column of users or times than earlier releases had. A run that
    finds a period lost does nothing more, so that the owner may decide first.
    """
    opened = replace(_open(spec), same_users=same_users)
    repeated = None if again is None else Period.parse(again, spec.first.kind)
    with _lock(opened) as mine:
        if not mine:
            return Run(busy=True)
        finished, lost = _recover(opened)
        if lost:
            return Run(finished=finished, lost=lost)
        released: dict[str, Outcome] = {}

        def carry_out_one(period: Period) -> None:
            outcome = _release(opened, period, again=repeated is not None, entropy=entropy, say=say)
            released[str(period)] = outcome
            done(str(period), outcome)

        if repeated:
            step = Step(series=spec.name, period=str(repeated), again=True)
            check_step(opened.entries(), opened.account.name, step)
            carry_out_one(repeated)
            return Run(released=released, finished=finished)
        while True:
            ahead = _states_ahead(spec, opened.entries(), now or datetime.now(UTC))
            if not ahead or ahead[0].state != DUE or (once and released):
                waiting = ahead[0] if ahead and ahead[0].state == WAITING else None
                return Run(released=released, finished=finished, waiting=waiting)
            with suppress(PeriodBooked):  # by a run that the lock does not reach: on with the next
                carry_out_one(ahead[0].period)


def _release(
    opened: _Opened,
    period: Period,
    *,
    again: bool,
    entropy: Entropy | None,
    say: Callable[[str], None],
) -> Outcome:
    """Releases one period and records that its bundle is in its place."""
    make_folders(opened.spec.bundle(period).parent)
    try:
        with _source(opened.spec, period) as source:
            request = _request(opened, period, source, again, say)
            outcome = carry_out(request, entropy=entropy, say=say)
    except PeriodBooked:
        raise
    except MurmurlogError as error:
        lost: list[str] = []
        with suppress(MurmurlogError):  # an unusable ledger: the next run looks again
            _, lost = _recover(opened)
        if str(period) not in lost:
            raise
        raise type(error)(
            f"{error}\n  {period} is lost: its part of the cap stays spent, and the next run goes on with "
            f"{period.next}. To spend another part on it: murmurlog series run SPEC --again {period}"
        ) from error
    opened.ledger.place(outcome.release_id)
    return outcome


def _request(
    opened: _Opened, period: Period, source: str, again: bool, say: Callable[[str], None]
) -> ReleaseRequest:
    """The release of a period."""
    spec = opened.spec
    keywords = dict(spec.release)
    if spec.after:
        keywords["after"] = _earlier(opened, say)
    if spec.select != OWN:
        start = spec.window(period)[0].start.isoformat()
        keywords |= {
            "select_from": "all" if spec.select == ALL else start,
            "count_from": period.start.isoformat(),
        }
    return ReleaseRequest.of(
        source, out=spec.bundle(period), tables=spec.tables, of_cap=1 / spec.releases,
        ledger=spec.ledger, source_name=spec.source, same_users=opened.same_users,
        step=Step(series=spec.name, period=str(period), again=again), **keywords,
    )  # fmt: skip


def _earlier(opened: _Opened, say: Callable[[str], None]) -> list[Path]:
    """The bundles that hold every key that the series published, if they are where they were.

    A bundle has the keys of those that it was made after, so the last one is usually enough.
    """
    places, covered = list[Path](), set[str]()
    for entry in reversed(opened.entries()):
        place = opened.place(entry)
        if place is None or entry.placed_at is None or entry.release_id in covered:
            continue
        if not _is_of(place, entry):
            say(
                f"warning: the bundle of {entry.period} is not at {os.path.relpath(place)} any more: its keys "
                "are selected anew"
            )
            continue
        places.append(place)
        certificate = read_certificate(place)
        if set(opened.spec.tables) <= set(certificate.tables) and certificate.after:
            covered |= set(certificate.after["releases"])
    return places


@contextmanager
def _source(spec: Spec, period: Period) -> Iterator[str]:
    """The log of a release: of one period, or a folder with links to the logs of several."""
    window = spec.window(period)
    if len(window) == 1:
        yield period.fill(spec.logs)
        return
    with scratch() as folder:
        logs = folder / "logs"
        logs.mkdir()
        for member in window:
            files = _logs(spec, member)
            if not files:
                raise InputError(
                    f"select = {spec.select!r} reads the logs from {window[0]} on, and there is no "
                    f"{member.fill(spec.logs)!r}: bring it back, or select from fewer periods"
                )
            for number, file in enumerate(files):
                (logs / f"{member}-{number}-{file.name}").symlink_to(file.absolute())
        yield str(logs)


def _logs(spec: Spec, period: Period) -> list[Path]:
    """The files of a period's log; none if it is not there yet."""
    with suppress(InputError):
        return files_at(period.fill(spec.logs))
    return []


# What runs left that ended early


def _recover(opened: _Opened) -> tuple[list[str], list[str]]:
    """Settles what is booked and not known to be in its place: the periods finished, and those lost.

    Only the run that holds the lock calls this.
    """
    ledger = opened.ledger
    entries = opened.entries()
    finished, lost = [], []
    for entry in entries:
        if entry.placed_at or entry.state == LOST:
            continue
        period = opened.period(entry)
        place = opened.place(entry) or opened.spec.bundle(period)
        if _is_there(ledger, entry, place) or _finish(ledger, entry, place):
            ledger.place(entry.release_id)
            finished.append(str(period))
        else:
            ledger.lose(entry.release_id)
            lost.append(str(period))
    # Only now: until here a folder that was left may hold the bundle of an entry. The folder of temporary
    # files may hold rows of a log.
    places = {(opened.place(e) or opened.spec.bundle(opened.period(e))).parent for e in entries}
    for folder in (*places, temporary_folder()):
        sweep(folder)
    return finished, lost


def _is_there(ledger: Ledger, entry: Entry, place: Path) -> bool:
    """Whether the bundle of an entry is in its place; it is then committed."""
    if not _is_of(place, entry):
        return False
    if entry.state != "committed":
        if not _is_whole(place):
            return False
        ledger.commit(entry.release_id, bundle=ledger.seen_from(place), checksum=checksum_of(place))
    return True


def _finish(ledger: Ledger, entry: Entry, place: Path) -> bool:
    """Publishes the bundle of an entry if a run had made it completely and left it beside its place."""
    for folder in abandoned_folders(place.parent):
        root = folder / BUNDLE
        if _is_of(root, entry) and _is_whole(root):
            bundle = StagedBundle.of(root, place, published=read_certificate(root).published)
            ledger.commit(
                entry.release_id, bundle=ledger.seen_from(place), checksum=bundle.checksum
            )
            bundle.put_in_place()
            return True
    return False


def _is_of(root: Path, entry: Entry) -> bool:
    """Whether a folder holds the bundle of an entry."""
    try:
        if read_certificate(root).release_id != entry.release_id:
            return False
        return entry.checksum is None or checksum_of(root) == entry.checksum
    except BundleError:
        return False


def _is_whole(root: Path) -> bool:
    """Whether every file of a bundle is as its list of checksums says."""
    try:
        return stated_sums(root) == sums(root)
    except BundleError:
        return False


# One run of a series at a time


@contextmanager
def _lock(opened: _Opened) -> Iterator[bool]:
    """Whether this process has the lock of the series, which it holds for the block."""
    path = opened.lock_file
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Refused(
            f"the lock {path.name} beside the ledger cannot be opened ({error.strerror}), so nothing is booked"
        ) from None
    try:
        yield _try_lock(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def _is_locked(opened: _Opened) -> bool:
    """Whether a run of the series is at work."""
    try:
        handle = os.open(opened.lock_file, os.O_RDONLY)
    except OSError:  # there was no run yet
        return False
    try:
        return not _try_lock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _try_lock(handle: int, lock: int) -> bool:
    """Whether the lock could be had."""
    try:
        fcntl.flock(handle, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
