"""The file of a ledger: an SQLite database with a version, a seal, and one transaction at a time.

Holds the tables, their versions and what makes a file trustworthy; what a booking means is in `ledger`.
A version adds columns or tables in `UPGRADES`. A ledger of an older version is read as it is and
converted by the first booking or change, in the transaction of that booking.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from murmurlog.bundle.scratch import scratch
from murmurlog.errors import Refused, UsageError

WAIT_SECONDS = 30
APPLICATION_ID = 0x6D75726D  # "murm", in the file's header
VERSION = 6  # user_version in the file's header; ledgers of version 1 have 0 there
# A cap's history is the cap: the last row of a source holds. The rule by which releases of a source
# add up is part of its cap, and so are the limits of a budget filter, which are stored and not
# computed again. Histories are append-only, for other programs, too.
LIMITS = tuple(f"{name} REAL" for name in ("keys_share", "mu2", "keys", "distance", "pure"))
AMOUNTS = LIMITS[1:]  # what an entry books; NULL under the rule sum, which versions up to 0.2.0 had
HISTORIES = (
    """CREATE TABLE cap_history (
        number INTEGER PRIMARY KEY, source TEXT NOT NULL, rule TEXT NOT NULL,
        epsilon REAL NOT NULL, delta REAL NOT NULL,
        changed_at TEXT, by_whom TEXT, os_user TEXT, reason TEXT
    )""",
    """CREATE TABLE requirement_history (
        number INTEGER PRIMARY KEY, cap_required INTEGER NOT NULL,
        changed_at TEXT, by_whom TEXT, os_user TEXT, reason TEXT
    )""",
    *(
        f"CREATE TRIGGER {table}_keeps_{change} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in ("cap_history", "requirement_history")
        for change in ("update", "delete")
    ),
)
SOURCES = "CREATE TABLE sources (name TEXT PRIMARY KEY, opened_at TEXT, opened_by TEXT)"
SCHEMA = (
    SOURCES,
    """CREATE TABLE entries (
        release_id TEXT PRIMARY KEY, source TEXT NOT NULL, state TEXT NOT NULL,
        epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL, neighbours TEXT NOT NULL,
        what TEXT NOT NULL, reserved_at TEXT NOT NULL, committed_at TEXT,
        title TEXT NOT NULL DEFAULT ''
    )""",
    *HISTORIES,
    "CREATE TABLE seal (digest TEXT NOT NULL)",
)
FILTER = (
    *(f"ALTER TABLE cap_history ADD COLUMN {column}" for column in LIMITS),
    *(f"ALTER TABLE entries ADD COLUMN {column}" for column in AMOUNTS),
)
# Of a published bundle: where it was written, seen from the ledger, and the SHA-256 of its list of checksums.
BUNDLES = tuple(f"ALTER TABLE entries ADD COLUMN {name} TEXT" for name in ("bundle", "checksum"))
# Of a release of a series: its series, its period, and when its runner saw the bundle in its place.
SERIES = tuple(
    f"ALTER TABLE entries ADD COLUMN {name} TEXT" for name in ("series", "period", "placed_at")
)
# Of the log, the columns that say who a unit belongs to and, where time has a part in it, when.
COLUMNS = tuple(
    f"ALTER TABLE entries ADD COLUMN {name} TEXT" for name in ("user_column", "time_column")
)
# From each version to the next one.
UPGRADES = {
    1: (
        "ALTER TABLE sources RENAME TO sources_1",
        SOURCES,
        "INSERT INTO sources SELECT name, NULL, NULL FROM sources_1 "
        "UNION SELECT source, NULL, NULL FROM entries",
        *HISTORIES,
        "INSERT INTO cap_history SELECT NULL, name, 'sum', epsilon_cap, delta_cap, NULL, NULL, NULL, "
        "'set before the ledger kept a history' FROM sources_1 WHERE epsilon_cap IS NOT NULL "
        "ORDER BY name",
        "DROP TABLE sources_1",
        "ALTER TABLE entries ADD COLUMN title TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE IF NOT EXISTS seal (digest TEXT NOT NULL)",
    ),
    2: FILTER,
    3: BUNDLES,
    4: SERIES,
    5: COLUMNS,
}
SEALED = {
    1: ("sources", "entries"),
    2: ("sources", "entries", "cap_history", "requirement_history"),
    3: ("sources", "entries", "cap_history", "requirement_history"),
    4: ("sources", "entries", "cap_history", "requirement_history"),
    5: ("sources", "entries", "cap_history", "requirement_history"),
    6: ("sources", "entries", "cap_history", "requirement_history"),
}


class LedgerFile:
    """A ledger's file, made by the first booking or cap and readable by its owner only."""

    def __init__(self, path: str | Path, *, must_exist: bool = False) -> None:
        self.path = path = Path(path)
        self._absolute = path.absolute()  # the same file if the working directory changes
        file = self._file
        if file.is_symlink():
            raise UsageError(f"the ledger {str(path)!r} is a link that leads back to itself")
        if must_exist and not file.is_file():
            raise UsageError(
                f"there is no ledger {str(path)!r}: check the path; 'murmurlog ledger cap' makes one"
            )
        if not file.parent.is_dir():
            raise UsageError(f"there is no folder {str(file.parent)!r} for the ledger")
        if file.exists() and not file.is_file():
            raise UsageError(f"the ledger {str(path)!r} is not a file: name one")

    @property
    def _file(self) -> Path:
        """The resolved path: SQLite would interpret names such as ":memory:" and "file:..."."""
        return Path(os.path.realpath(self._absolute))

    @property
    def folder(self) -> Path:
        """Where it is; what it records of places is relative to this."""
        return self._file.parent

    def seen_from(self, path: Path) -> str:
        """A path as the ledger records it: as seen from its folder, so that both may move together."""
        return os.path.relpath(os.path.realpath(path), self.folder)

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
                _make(file)
                there = True
            if there and not file.stat().st_size:
                raise Refused(
                    f"the ledger {self.path.name} is an empty file, so what was spent is not known. "
                    "Restore it from a backup; if nothing was ever booked in it, remove it."
                )
            place = file if there else ":memory:"
            with ExitStack() as opened:
                db = opened.enter_context(
                    closing(sqlite3.connect(place, timeout=WAIT_SECONDS, isolation_level=None))
                )
                db.execute("PRAGMA synchronous = EXTRA")  # the folder, too: a commit unlinks a file
                db.execute("BEGIN IMMEDIATE")
                try:
                    if not there:
                        _create(db)
                    version = self._version(db)
                    self._check(db, version)
                    current = db
                    if version < VERSION and not write:  # the file may be one that is only read
                        current = opened.enter_context(closing(_copy(db)))
                    for old in range(version, VERSION):
                        for statement in UPGRADES[old]:
                            current.execute(statement)
                    yield current
                    if write:
                        current.execute(f"PRAGMA user_version = {VERSION}")
                        _seal(current)
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT" if write else "ROLLBACK")
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise Refused(
                f"the ledger {self.path.name} cannot be used ({error}), so nothing can be booked. "
                "Free its lock, or restore it from a backup."
            ) from None

    def _version(self, db: sqlite3.Connection) -> int:
        """The version of the tables; refuses a newer one and the database of another program.

        A file without tables is not a new ledger: SQLite creates one if a ledger just disappeared.
        """
        if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            raise Refused(
                f"{self.path.name} is a database of another program, not a ledger of murmurlog: "
                "name another file"
            )
        (stated,) = db.execute("PRAGMA user_version").fetchone()
        if stated > VERSION:
            raise Refused(
                f"the ledger {self.path.name} has version {stated}, and this murmurlog knows versions "
                f"up to {VERSION}: a newer murmurlog wrote it. Update murmurlog."
            )
        return max(1, int(stated))

    def _check(self, db: sqlite3.Connection, version: int) -> None:
        """Raises if the file changed since the last booking: a decreased sum must not go unnoticed.

        It detects damage, not an attacker, who can compute a new seal.
        """
        (sound,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if sound == "ok":
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone():
                if version == 1:  # created before ledgers had a seal
                    return
            else:
                seals = db.execute("SELECT digest FROM seal").fetchall()
                (bookings,) = db.execute("SELECT count(*) FROM entries").fetchone()
                unused = version == 1 and not (seals or bookings)
                if unused or seals == [(digest(db, version),)]:
                    return
        raise Refused(
            f"the ledger {self.path.name} is damaged, or another program changed it, so "
            "what was spent is not known. Restore it from a backup."
        )


def usual_ledger(folder: Path, name: str) -> Path:
    """The ledger of a folder if none is named: of this name, or else the one that is there.

    Users must not get a second budget because two commands call their files differently.
    """
    others = [path for path in sorted(folder.glob("*.db")) if _is_ledger(path)]
    if not others or (folder / name).exists():
        return folder / name
    if len(others) > 1:
        names = ", ".join(path.name for path in others)
        raise UsageError(f"there are several ledgers beside it, {names}: name one with --ledger")
    return others[0]


def _is_ledger(path: Path) -> bool:
    """Whether a file has the header of a ledger."""
    try:
        with path.open("rb") as file:
            return file.read(72)[68:] == APPLICATION_ID.to_bytes(4)
    except OSError:
        return False


def _copy(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy in memory."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.deserialize(db.serialize())
    return copy


def _make(target: Path) -> None:
    """Creates a ledger without bookings in one atomic step.

    So no crash leaves an empty file, and an empty file has lost its bookings.
    """
    with scratch(target.parent) as folder:
        new = folder / "ledger"
        new.touch(mode=0o600)
        with closing(sqlite3.connect(new, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = EXTRA")  # the folder, too: a commit unlinks a file
            db.execute("BEGIN IMMEDIATE")
            _create(db)
            db.execute("COMMIT")
        try:
            os.link(new, target)
        except FileExistsError:
            pass  # another process was first
        except OSError:  # a file system without links
            with suppress(FileExistsError):
                target.touch(mode=0o600, exist_ok=False)
                shutil.copyfile(new, target)


def _create(db: sqlite3.Connection) -> None:
    """The tables of a new ledger."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    for statement in (*SCHEMA, *FILTER, *BUNDLES, *SERIES, *COLUMNS):
        db.execute(statement)
    _seal(db)


def _seal(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM seal")
    db.execute("INSERT INTO seal VALUES (?)", (digest(db, VERSION),))


def digest(db: sqlite3.Connection, version: int = VERSION) -> str:
    """The SHA-256 of everything that is booked, and of the histories."""
    hashed = hashlib.sha256()
    for table in SEALED[version]:
        for row in db.execute(f"SELECT * FROM {table} ORDER BY 1"):
            hashed.update(repr(row).encode() + b"\n")
    return hashed.hexdigest()
