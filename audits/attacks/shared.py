"""Runs murmurlog on two neighbouring logs and says what one user's rows changed for the others.

A log without the attacker's rows and the same log with them must give every other user the same
rows, and a release of the same tables with the same bound. What differs is a finding. A log may be
refused instead where its attack says so, but only before anything is booked.
"""

import argparse
import inspect
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from log_rows import Row, rows_of

import murmurlog
from murmurlog.errors import MurmurlogError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.options import SourceOptions
from murmurlog.logs.source import find

ATTACKER = "mallory"  # the id of the user in whose rows two neighbouring logs differ
REFUSALS = (2, 3, 4)
COMMAND = (sys.executable, "-c", "from murmurlog.cli.main import main; main()")
NAMED = 3  # published queries that a finding names

USER = "user"  # a kept column: the name of the user


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of an attack in one form."""

    word: str  # BROKEN, HOLDS or REFUSED (exit code)
    text: str

    @property
    def broken(self) -> bool:
        return self.word == "BROKEN"


@dataclass(frozen=True, kw_only=True)
class Done:
    """A run of the command line: exit code, what it said, bookings, and what it published."""

    code: int
    said: str
    entries: int
    tables: tuple[str, ...] = ()
    bound: str = ""
    queries: Mapping[str, int] = field(default_factory=dict)  # published queries and their users

    @property
    def shape(self) -> str:
        """What the certificate says of every user, without the counts."""
        return f"{'+'.join(self.tables)}, bound {self.bound}"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two neighbouring logs and how they are read."""

    name: str
    without: Path
    with_rows: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    attacker: str = ATTACKER
    shape: str | None = None  # said where murmurlog takes it; before, the rows told it
    # Which of the two may be refused: "neither", "with" (that with the attacker's rows) or "both".
    refused: str = "neither"


def entries(ledger: Path) -> int:
    """How many releases a ledger has booked; 0 where there is none."""
    if not ledger.exists():
        return 0
    with closing(sqlite3.connect(ledger)) as db:
        return int(db.execute("SELECT count(*) FROM entries").fetchone()[0])


def run_command(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """`murmurlog ARGUMENTS` in a process of its own: its exit code and what it printed as errors."""
    # The same code as in this process, wherever that comes from.
    path = os.pathsep.join(filter(None, sys.path))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MURMURLOG_")}
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=kept | {"PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def release(log: Path, *flags: str, name: str) -> Done:
    """A release of a log with a ledger of its own, made by the command line beside the log."""
    folder = log.parent
    bundle, ledger = folder / f"{name}.bundle", folder / f"{name}.db"
    murmurlog.Ledger(ledger).cap("web", epsilon=20, delta=1e-3)
    where = ("--out", str(bundle), "--ledger", str(ledger), "--source", "web")
    code, said = run_command(("release", str(log), *where, *flags), folder)
    if "No such option" in said:
        raise RuntimeError(f"this murmurlog does not know a flag of the attack: {said.strip()}")
    if code:
        return Done(code=code, said=said.strip().splitlines()[-1], entries=entries(ledger))
    made = murmurlog.load(bundle)
    queries: dict[str, int] = {}
    if "query" in made.tables and "users" in made.tables["query"].column_names:
        table = made.tables["query"]
        queries = dict(zip(table["query"].to_pylist(), table["users"].to_pylist(), strict=True))
    return Done(
        code=0,
        said=said.strip(),
        entries=entries(ledger),
        tables=tuple(sorted(made.tables)),
        bound=str(json.loads((bundle / "privacy.json").read_text())["bound"]),
        queries=queries,
    )


def rows_read(pair: Pair, path: Path) -> Counter[Row] | int:
    """The clean rows that murmurlog reads, a user last; or the exit code with which it refuses the log."""
    more: dict[str, Any] = {"shape": pair.shape} if pair.shape and knows_shapes() else {}
    try:
        with connect() as engine:
            source = find(str(path), SourceOptions(columns=dict(pair.columns), **more))
            kept = {USER: source.columns["user"]}
            return rows_of(read(source, engine=engine, keep=kept), USER)
    except MurmurlogError as error:
        return error.exit_code


def knows_shapes() -> bool:
    """Whether `find` takes the shape of a log as a parameter."""
    return not {"shape", "options"}.isdisjoint(inspect.signature(find).parameters)


def of_others(rows: Counter[Row], attacker: str) -> Counter[Row]:
    """How often each row of every user but the attacker is there, without keys of users."""
    others = Counter[Row]()
    for (_, _, *row), count in rows.items():
        if row[-1] != attacker:
            others[tuple(row)] += count
    return others


def compared(pair: Pair) -> Finding:
    """What the attacker's rows change for all other users, in what is read and what is published."""
    flags = []
    if pair.columns:
        flags += ["--columns", ",".join(f"{role}={name}" for role, name in pair.columns.items())]
    if pair.shape and knows_shapes():
        flags += ["--shape", pair.shape]
    read_before, read_after = (rows_read(pair, path) for path in (pair.without, pair.with_rows))
    before = release(pair.without, *flags, name=f"{pair.name} without")
    after = release(pair.with_rows, *flags, name=f"{pair.name} with")
    if fault := _fault(pair, before, after):
        return Finding(word="BROKEN", text=f"{pair.name}: {fault}")
    if after.code:
        both = " with and without the rows" if before.code else ""
        text = f"{pair.name}: refused{both}, nothing booked ({after.said})"
        return Finding(word=f"REFUSED ({after.code})", text=text)
    if isinstance(read_before, int) or isinstance(read_after, int):
        codes = [n if isinstance(n, int) else 0 for n in (read_before, read_after)]
        return Finding(word="BROKEN", text=f"{pair.name}: the library refuses, exit codes {codes}")
    held_before, held_after = (of_others(rows, pair.attacker) for rows in (read_before, read_after))
    lost, forged = (held_before - held_after).total(), (held_after - held_before).total()
    text = (
        f"{pair.name}: of {held_before.total():,} rows of others {lost:,} lost, {forged:,} forged"
    )
    changed = lost or forged or before.shape != after.shape
    return Finding(word="BROKEN" if changed else "HOLDS", text=text + _published(before, after))


def _fault(pair: Pair, before: Done, after: Done) -> str | None:
    """What is wrong with how the two releases ended; None if nothing is."""
    for done, which, allowed in (
        (before, "without", ("both",)),
        (after, "with", ("both", "with")),
    ):
        if done.code and done.entries:
            return f"the log {which} the rows ends with {done.code} after it was booked"
        if done.code not in (0, *REFUSALS):
            return f"the log {which} the rows ends with {done.code}: {done.said}"
        if done.code and pair.refused not in allowed:
            return f"the log {which} the rows is refused, but nothing is wrong with it: {done.said}"
    if before.code and not after.code:
        return f"only the log without the rows is refused ({before.said})"
    return None


def _published(before: Done, after: Done) -> str:
    """What the two releases published."""
    common = before.queries.keys() & after.queries.keys()
    was, now = (sum(done.queries[q] for q in common) for done in (before, after))
    new = [f"{q[:40]!r} with {after.queries[q]:,}" for q in after.queries if q not in common]
    gone = len(before.queries) - len(common)
    text = f"; published {before.shape} -> {after.shape}" if before.shape != after.shape else ""
    text += f"; published: {len(common)} queries in both, users {was:,} -> {now:,}"
    text += f", {gone:,} queries gone" if gone else ""
    return text + (f", new {', '.join(new[:NAMED])}" if new else "")


def verdict(findings: Sequence[Finding]) -> tuple[str, int]:
    """One line about all forms of an attack, and its exit code: 1 if any form succeeds."""
    broken = [finding for finding in findings if finding.broken]
    words = [finding.word for finding in findings]
    word = "BROKEN" if broken else "HOLDS" if "HOLDS" in words else words[0]
    parts = [f.text if f.word == word else f"[{f.word}] {f.text}" for f in findings]
    return f"{word}: {'; '.join(parts)}", 1 if broken else 0


Attack = Callable[[Path, int], Iterable[Finding]]


def main(attack: Attack, *, size: int, meaning: str) -> int:
    """Runs an attack in a folder that is removed, prints one line and gives its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=size, help=f"{meaning}; default {size}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        line, code = verdict(list(attack(Path(folder), given.size)))
    print(line)
    return code
