"""The clean rows of earlier periods, kept by the owner so that a later release need not read their logs again.

A state is a folder of Parquet files, one for each log that was added. A file holds the distinct (user, day,
query, url) of the log with the first time on that day, which is all that tables of queries, clicks and keywords
are made of: a release from the state makes the same tables as one from the logs. A log that is added twice
changes nothing. The state is as private as the logs; its folder and files are readable by their owner only.

`state.json` lists the files with their checksums and carries a seal of its own. Both detect damage, not an
attacker, who can compute new ones.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.bundle.scratch import scratch, settle
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.cleaning import MARK
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import Log, read_kept
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source, find

FORMAT = 1
LIST, LOCK = "state.json", "lock"
TABLES = ("query", "click", "keyword")  # made of distinct (user, day, query, url) alone
UNITS = ("user", "user-day", "user-week", "user-month")


@dataclass(frozen=True)
class Part:
    """A file of a state: the rows of one log."""

    file: str
    sha256: str
    rows: int
    first: str | None  # days; None where no row has a time
    last: str | None
    untimed: bool  # whether some rows have no time

    def has_from(self, day: str | None) -> bool:
        """Whether it has rows that a window from this day on (None: all rows) reads."""
        return day is None or (self.last is not None and self.last >= day)


class State:
    """A folder of clean rows that were read the same way."""

    def __init__(self, folder: str | Path, reading: Reading) -> None:
        self.folder = Path(folder)
        self._rules = _rules(reading)
        self._reading = reading
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(
                f"--state {str(folder)!r} is not a folder: name a new or an earlier one"
            )
        if (
            self.folder.is_dir()
            and not (self.folder / LIST).exists()
            and any(self.folder.iterdir())
        ):
            raise UsageError(
                f"--state {str(folder)!r} holds other files and no {LIST}: name a new folder or an earlier state"
            )
        self.parts()  # a damaged state, or one of other rules, is seen before anything is read

    def parts(self) -> tuple[Part, ...]:
        """The files of the state, whose list must be whole and made by the same rules."""
        path = self.folder / LIST
        if not path.exists():
            return ()
        try:
            stated = json.loads(path.read_text(encoding="utf-8"))
            seal = stated.pop("seal")
            parts = tuple(Part(**each) for each in stated["parts"])
            whole = seal == _seal(stated)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            whole = False
        if not whole:
            raise InputError(
                f"the list {LIST} of the state {str(self.folder)!r} is damaged: restore it from a backup, or "
                "build the state again from the logs in a new folder"
            )
        if stated["format"] != FORMAT:
            raise InputError(
                f"the state {str(self.folder)!r} is of format {stated['format']!r:.20}, and this version reads "
                f"{FORMAT}: build it again from the logs in a new folder"
            )
        if changed := sorted(k for k, v in self._rules.items() if stated["rules"].get(k) != v):
            raise UsageError(
                f"the state {str(self.folder)!r} was read in another way ({', '.join(changed)} changed), and its "
                "rows cannot be combined with these: use the same options, or a new folder"
            )
        return parts

    def add(self, log: Log) -> Part:
        """Adds the rows of a log, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(), scratch(self.folder) as room:
            made = room / "part.parquet"
            rows = _write(log, made)
            digest = _sha256(made)
            name = f"{digest[:32]}.parquet"
            parts = self.parts()
            if known := [each for each in parts if each.file == name]:
                self._check(known[0])
                return known[0]
            part = Part(name, digest, **rows)
            settle(made, self.folder / name)
            self._list((*parts, part), room)
        return part

    def log(
        self, *, since: str | None, engine: Engine, urls: bool, say: Callable[[str], None]
    ) -> Log:
        """The rows of the state that a window from the day `since` on (None: all) may need."""
        wanted = [part for part in self.parts() if part.has_from(since)]
        if not wanted:
            raise InputError(
                f"the state {str(self.folder)!r} has no rows from {since or 'any day'} on"
            )
        for part in wanted:
            self._check(part)
        source = self._source(wanted)
        # The rows were selected, cleaned and screened when they were added, by the same rules.
        log = read_kept(source, engine=engine, url=self._reading.url if urls else None, say=say)
        if log.broken or log.rows != sum(part.rows for part in wanted):
            raise InputError(
                f"the state {str(self.folder)!r} does not hold clean rows: it was changed, or made by another "
                "version. Build it again from the logs in a new folder"
            )
        return log

    def drop_before(self, day: str) -> list[Part]:
        """Removes the files whose rows all lie before a day; returns what it removed."""
        with self._locked(), scratch(self.folder) as room:
            parts = self.parts()
            old = [
                part
                for part in parts
                if part.last is not None and part.last < day and not part.untimed
            ]
            if old:
                self._list([part for part in parts if part not in old], room)
            for part in old:
                (self.folder / part.file).unlink(missing_ok=True)
        return old

    def _source(self, parts: list[Part]) -> Source:
        files = tuple(self.folder / part.file for part in parts)
        source = find(str(files[0]))
        return replace(
            source,
            files=files,
            compressions=(None,) * len(files),
            encodings=source.encodings[:1] * len(files),
        )

    def _check(self, part: Part) -> None:
        """Raises unless the file is there and whole."""
        path = self.folder / part.file
        if not path.is_file() or _sha256(path) != part.sha256:
            raise InputError(
                f"{part.file} of the state {str(self.folder)!r} is missing or damaged: restore it from a backup, or "
                "build the state again from the logs in a new folder"
            )

    def _list(self, parts: Any, room: Path) -> None:
        stated = {"format": FORMAT, "rules": self._rules, "parts": [asdict(part) for part in parts]}
        made = room / LIST
        made.touch(mode=0o600)
        made.write_text(
            json.dumps({**stated, "seal": _seal(stated)}, indent=1) + "\n", encoding="utf-8"
        )
        settle(made, self.folder / LIST)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time changes the state."""
        handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _rules(reading: Reading) -> dict[str, Any]:
    """What decides how rows become clean ones; all of it must stay the same for a state."""
    stated = reading.as_json()
    kept = {name: stated[name] for name in ("normaliser", "url", "keys")}
    return kept | {"screen, denied queries or --where": reading.rules}


def _write(log: Log, path: Path) -> dict[str, Any]:
    """Writes the distinct (user, day, query, url) of a log in a fixed order; returns what the list states."""
    table = log.table
    day = table.time.date()
    firsts = table.group_by(
        user=table.user.cast("string"),
        day=day,
        query=table.query,
        url=ibis.literal(MARK) + table.url,
    ).agg(time=table.time.min())
    rows = firsts.order_by(
        *(ibis.asc(name, nulls_first=True) for name in ("day", "time", "user", "query", "url"))
    )
    schema = pa.schema(
        {"user": pa.string(), "time": pa.timestamp("us"), "query": pa.string(), "url": pa.string()}
    )
    path.touch(mode=0o600)
    count, days, untimed = 0, set[date](), False
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        wanted = rows.select("user", "time", "query", "url", "day")
        for batch in log.engine.batches(wanted):
            found = pa.Table.from_batches([batch])
            count += found.num_rows
            seen = found["day"].drop_null()
            untimed = untimed or len(seen) < found.num_rows
            days |= set(seen.unique().to_pylist())
            writer.write_table(found.select(schema.names).cast(schema))
    ends = (
        {"first": str(min(days)), "last": str(max(days))} if days else {"first": None, "last": None}
    )
    return {"rows": count, **ends, "untimed": untimed}


def _seal(stated: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
