"""The budget ledger: what was spent on each population of users, and what is left.

A release reserves its cost before any noise is drawn, and commits when its bundle is written and
before the bundle appears. A reservation counts as spent, so a crash in between can only leave too
much booked. Costs add up (basic composition), which holds even when a release is planned after
seeing earlier ones. A source is a population of users, not a file: two quarters of one service are
one source.
"""

import hashlib
import math
import os
import shutil
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from murmurlog.bundle.keys import normalise, odd_line
from murmurlog.bundle.scratch import scratch
from murmurlog.errors import Refused, UsageError
from murmurlog.privacy import Guarantee

SCHEMA = """
CREATE TABLE IF NOT EXISTS sources (
    name TEXT PRIMARY KEY, epsilon_cap REAL, delta_cap REAL
);
CREATE TABLE IF NOT EXISTS entries (
    release_id TEXT PRIMARY KEY, source TEXT NOT NULL, state TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL, neighbours TEXT NOT NULL,
    what TEXT NOT NULL, reserved_at TEXT NOT NULL, committed_at TEXT
);
CREATE TABLE IF NOT EXISTS seal (digest TEXT NOT NULL);
"""
ROUNDING = 1 + 1e-9  # ten releases of 0.1 fit a cap of 1
WAIT_SECONDS = 30
APPLICATION_ID = 0x6D75726D  # "murm", in the file's header


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One booking."""

    release_id: str
    source: str
    state: str  # reserved or committed
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    what: str
    reserved_at: str
    committed_at: str | None


@dataclass(frozen=True, kw_only=True)
class Account:
    """A source: its caps (None: no cap) and what is booked on it."""

    name: str
    epsilon_cap: float | None
    delta_cap: float | None
    epsilon: float
    delta: float
    unit: str | None  # of its releases; None if there are none
    releases: int

    @property
    def epsilon_left(self) -> float | None:
        return _left(self.epsilon_cap, self.epsilon)


class Ledger:
    """A ledger in an SQLite file, made by the first booking and readable by its owner only."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        self._absolute = path.absolute()  # the same file if the working directory changes
        file = self._file
        if file.is_symlink():
            raise UsageError(f"the ledger {str(path)!r} is a link that leads back to itself")
        if must_exist and not file.is_file():
            raise UsageError(f"there is no ledger {str(path)!r}")
        if not file.parent.is_dir():
            raise UsageError(f"there is no folder {str(file.parent)!r} for the ledger")
        if file.exists() and not file.is_file():
            raise UsageError(f"the ledger {str(path)!r} is not a file: name one")

    @property
    def _file(self) -> Path:
        """The resolved path: SQLite would interpret names such as ":memory:" and "file:..."."""
        return Path(os.path.realpath(self._absolute))

    @contextmanager
    def _transaction(
        self, *, write: bool = False, make: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start and is durable at its end.

        Only writing creates the file, and only with `make`; a missing ledger reads as an empty one.
        """
        try:
            file = self._file
            there = file.exists()
            if write and not there:
                if not make:
                    raise Refused(
                        f"the ledger {self.path.name} is missing, so nothing can be booked. Restore it "
                        "from a backup."
                    )
                self._make(file)
                there = True
            if there and not file.stat().st_size:
                raise Refused(
                    f"the ledger {self.path.name} is an empty file, so what was spent is not known. "
                    "Restore it from a backup; if nothing was ever booked in it, remove it."
                )
            place = file if there else ":memory:"
            db = sqlite3.connect(place, timeout=WAIT_SECONDS, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous = EXTRA")  # the folder, too: a commit unlinks a file
                db.execute("BEGIN IMMEDIATE")
                try:
                    self._prepare(db, new=not there)
                    self._check(db)
                    yield db
                    if write:
                        db.execute("DELETE FROM seal")
                        db.execute("INSERT INTO seal VALUES (?)", (_digest(db),))
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT" if write else "ROLLBACK")
            finally:
                db.close()
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise Refused(
                f"the ledger {self.path.name} cannot be used ({error}), so nothing can be booked. "
                "Free its lock, or restore it from a backup."
            ) from None

    def _make(self, target: Path) -> None:
        """Creates a ledger without bookings in one atomic step.

        So no crash leaves an empty file, and an empty file has lost its bookings.
        """
        with scratch(target.parent) as folder:
            new = folder / "ledger"
            new.touch(mode=0o600)
            with closing(sqlite3.connect(new, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = EXTRA")  # the folder, too: a commit unlinks a file
                db.execute("BEGIN IMMEDIATE")
                self._prepare(db, new=True)
                db.execute("COMMIT")
            try:
                os.link(new, target)
            except FileExistsError:
                pass  # another process was first
            except OSError:  # a file system without links
                with suppress(FileExistsError):
                    target.touch(mode=0o600, exist_ok=False)
                    shutil.copyfile(new, target)

    def _prepare(self, db: sqlite3.Connection, *, new: bool) -> None:
        """Creates the tables of a new ledger; refuses the database of another program.

        A file without tables is not a new ledger: SQLite creates one if a ledger just disappeared.
        """
        (mark,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if mark == APPLICATION_ID:
            known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone()
            if not known:  # created before ledgers had a seal
                db.execute("CREATE TABLE seal (digest TEXT NOT NULL)")
                db.execute("INSERT INTO seal VALUES (?)", (_digest(db),))
            return
        if mark or tables or not new:
            raise Refused(
                f"{self.path.name} is a database of another program, not a ledger of murmurlog: "
                "name another file"
            )
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in SCHEMA.split(";"):
            db.execute(statement)

    def _check(self, db: sqlite3.Connection) -> None:
        """Raises if the file changed since the last booking: a decreased sum must not go unnoticed.

        It detects damage, not an attacker, who can compute a new seal.
        """
        (sound,) = db.execute("PRAGMA quick_check(1)").fetchone()
        seals = db.execute("SELECT digest FROM seal").fetchall()
        (bookings,) = db.execute("SELECT count(*) FROM entries").fetchone()
        if sound == "ok" and (seals == [(_digest(db),)] or not (seals or bookings)):
            return
        raise Refused(
            f"the ledger {self.path.name} is damaged, or another program changed it, so "
            "what was spent is not known. Restore it from a backup."
        )

    def cap(self, source: str, *, epsilon: float, delta: float) -> str:
        """Sets what may be spent on a source in all. Returns the name of its account."""
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            raise UsageError(
                "a cap needs epsilon > 0 that is finite, and delta between 0 and 1, not "
                f"{epsilon!r} and {delta!r}"
            )
        check_name(source)
        with self._transaction(write=True) as db:
            name = _named(db, source)
            db.execute(
                "INSERT INTO sources VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "epsilon_cap = excluded.epsilon_cap, delta_cap = excluded.delta_cap",
                (name, epsilon, delta),
            )
        return name

    def check(self, source: str, cost: Guarantee, *, unit: str | None = None) -> Account:
        """Raises Refused unless the cost fits; books nothing. `unit` may be more specific than the cost's."""
        check_name(source)
        with self._transaction() as db:
            return self._fits(db, _named(db, source), cost, unit or cost.unit)

    def reserve(
        self, source: str, cost: Guarantee, *, release_id: str, what: str, unit: str | None = None
    ) -> Account:
        """Books the cost as spent, or raises Refused. Returns the account as it was before."""
        check_name(source)
        with self._transaction(write=True) as db:
            name = _named(db, source)
            before = self._fits(db, name, cost, unit or cost.unit)
            db.execute("INSERT OR IGNORE INTO sources VALUES (?, NULL, NULL)", (name,))
            db.execute(
                "INSERT INTO entries VALUES (?, ?, 'reserved', ?, ?, ?, ?, ?, ?, NULL)",
                (
                    release_id,
                    name,
                    cost.epsilon,
                    cost.delta,
                    unit or cost.unit,
                    cost.neighbours,
                    what,
                    _now(),
                ),
            )
        return before

    def commit(self, release_id: str) -> None:
        """Marks a reservation as published. Call it before the output becomes visible."""
        self._mark(release_id, "committed", _now())

    def reopen(self, release_id: str) -> None:
        """Marks a booking as not published after all; its cost stays spent."""
        self._mark(release_id, "reserved", None)

    def _mark(self, release_id: str, state: str, committed_at: str | None) -> None:
        with self._transaction(write=True, make=False) as db:
            done = db.execute(
                "UPDATE entries SET state = ?, committed_at = ? WHERE release_id = ?",
                (state, committed_at, release_id),
            )
            if done.rowcount != 1:
                raise Refused(f"the ledger {self.path.name} has no entry {release_id} to commit")

    def entries(self, source: str | None = None) -> list[Entry]:
        """Every booking, oldest first."""
        with self._transaction() as db:
            return [entry for entry in _entries(db) if source is None or entry.source == source]

    def find(self, release_id: str) -> Entry | None:
        """The booking of a release, if there is one."""
        return next((e for e in self.entries() if e.release_id == release_id), None)

    def accounts(self) -> list[Account]:
        """Every source with its caps and what is booked on it."""
        with self._transaction() as db:
            names = [name for (name,) in db.execute("SELECT name FROM sources ORDER BY name")]
            return [_account(db, name) for name in names]

    def _fits(self, db: sqlite3.Connection, source: str, cost: Guarantee, unit: str) -> Account:
        account = _account(db, source)
        for entry in _entries(db):
            if entry.source == source and (entry.unit, entry.neighbours) != (unit, cost.neighbours):
                raise Refused(
                    f'source "{source}" is accounted per {entry.unit} ({entry.neighbours}); a release '
                    f"per {unit} ({cost.neighbours}) does not add to that. Use the same unit and "
                    "neighbours for every release of a source; of sessions the same --gap, --where, "
                    "--deny and screen."
                )
        for name, cap, spent, cost_of_it in (
            ("epsilon", account.epsilon_cap, account.epsilon, cost.epsilon),
            ("delta", account.delta_cap, account.delta, cost.delta),
        ):
            if cap is not None and spent + cost_of_it > cap * ROUNDING:
                left = _left(cap, spent) or 0.0
                smaller = f"Try --{name} {left:.4g}, or raise" if left > 0 else "Raise"
                releases = f"{account.releases} release{'s' * (account.releases != 1)}"
                raise Refused(
                    f"this release costs {name} {cost_of_it:.4g} per {unit} on source "
                    f'"{source}", {spent:.4g} of its cap {cap:.4g} is spent ({releases}); '
                    f"{left:.4g} is left.\n  {smaller} the cap: murmurlog ledger cap {source} "
                    f"--epsilon ... --delta ... --ledger {self.path.name}"
                )
        return account


def check_name(source: str) -> None:
    """Raises unless the name is one plain line with visible characters."""
    if odd_line([source]) is not None or normalise(source) is None:
        raise UsageError(
            f"{source!r:.60} is not a valid name of a source: write one plain line with visible characters"
        )


def _named(db: sqlite3.Connection, source: str) -> str:
    """The account of a name: a known one, or a new one that does not resemble a known one.

    A misspelled name must not open a second account with its own budget. Older ledgers may have such
    pairs; each account is found by its exact name.
    """
    new = unicodedata.normalize("NFC", source).strip()
    names = "SELECT name FROM sources UNION SELECT source FROM entries ORDER BY 1"
    known = [name for (name,) in db.execute(names)]
    if found := next((name for name in (source, new) if name in known), None):
        return found
    if twin := next((name for name in known if normalise(name) == normalise(new)), None):
        raise UsageError(
            f"the ledger has no source {new!r:.60}, but it has {twin!r:.60}: use that name. Names of "
            "two sources must differ in more than case, spaces and forms of letters."
        )
    return new


def _digest(db: sqlite3.Connection) -> str:
    """The SHA-256 of everything that is booked."""
    hashed = hashlib.sha256()
    for table in ("sources", "entries"):
        for row in db.execute(f"SELECT * FROM {table} ORDER BY 1"):
            hashed.update(repr(row).encode() + b"\n")
    return hashed.hexdigest()


def _entries(db: sqlite3.Connection) -> list[Entry]:
    rows = db.execute("SELECT * FROM entries ORDER BY rowid")
    names = [column[0] for column in rows.description]
    return [Entry(**dict(zip(names, row, strict=True))) for row in rows]


def _account(db: sqlite3.Connection, source: str) -> Account:
    caps = db.execute(
        "SELECT epsilon_cap, delta_cap FROM sources WHERE name = ?", (source,)
    ).fetchone() or (None, None)
    epsilon, delta, unit, releases = db.execute(
        "SELECT total(epsilon), total(delta), min(unit), count(*) FROM entries WHERE source = ?",
        (source,),
    ).fetchone()
    return Account(
        name=source,
        epsilon_cap=caps[0],
        delta_cap=caps[1],
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        releases=releases,
    )


def _left(cap: float | None, spent: float) -> float | None:
    """What is left under a cap; 0 if the rest is within rounding."""
    if cap is None:
        return None
    return cap - spent if cap > spent * ROUNDING else 0.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


@contextmanager
def committing(book: Ledger | None, release_id: str) -> Iterator[Callable[[], None]]:
    """Wraps a publication; the block calls the function it gets just before the output is visible.

    If that call raises, the block must publish nothing. If the block fails after the call, the booking
    is marked as not published. The budget stays spent in every case.
    """
    committed = False

    def commit() -> None:
        nonlocal committed
        if book is None:
            return
        try:
            book.commit(release_id)
        except Refused as error:
            raise Refused(
                f"{error}\n  Nothing was published; the budget stays booked as {release_id}."
            ) from error
        committed = True

    try:
        yield commit
    except Exception:
        if book and committed:
            with suppress(Refused):
                book.reopen(release_id)
        raise


def opened(ledger: str | Path | None, source_name: str | None) -> tuple[Ledger | None, str]:
    """The ledger and the account of a release; neither without the other."""
    if ledger is None:
        if source_name is not None:
            raise UsageError("--source names an account of a ledger: give --ledger too")
        return None, ""
    if not source_name:
        raise UsageError(
            "--ledger needs --source: the name of the population of users this log is about"
        )
    return Ledger(Path(ledger)), source_name
